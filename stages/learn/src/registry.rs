//! All parts of this build, one list per kind of part. Adding a part is one file beside its siblings and one line here.
//!
//! Why so: options arrive as maps with a `kind`; the list finds the part, its schema checks the rest, and unknown kinds are
//! answered with the valid names. Refuses: tagged enums (they would put every part into one type) and registration at link time.

use crate::corrections::{self, Correction};
use crate::part::{Advantage, Curriculum, Filter, LossTerm, Modulation, Replay, Strategy};
use crate::{advantages, curricula, filters, losses, modulations, replay, strategies};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use trainyard_core::{Error, Result};

/// A part's options: a plain struct with defaults that denies unknown fields. Its doc comments are its documentation.
pub trait Options: DeserializeOwned + Serialize + JsonSchema {
    /// As written after `kind:`.
    const KIND: &'static str;
    /// One line.
    const SUMMARY: &'static str;
    /// Markdown: formula, shapes, units, constants, errors, source.
    const DOC: &'static str;
    /// Ranges that types cannot express.
    fn check(&self) -> Result<()> {
        Ok(())
    }
}

/// One part of a list.
pub struct Kind<T: ?Sized> {
    pub kind: &'static str,
    pub summary: &'static str,
    pub doc: &'static str,
    /// Options without `kind`.
    schema: fn() -> Value,
    complete: fn(Value) -> Result<Value>,
    build: fn(Value) -> Result<Box<T>>,
}

/// All parts of one trait, sorted by kind.
pub struct Kinds<T: ?Sized + 'static> {
    /// As it is called in messages: `advantage`, `loss term`.
    pub name: &'static str,
    pub list: Vec<Kind<T>>,
}

macro_rules! kinds {
    ($name:literal, dyn $part:ident: $($options:ty),* $(,)?) => {
        Kinds { name: $name, list: vec![$(Kind::<dyn $part> {
            kind: <$options as Options>::KIND,
            summary: <$options as Options>::SUMMARY,
            doc: <$options as Options>::DOC,
            schema: schema::<$options>,
            complete: |v| Ok(json!(parse::<$options>(v)?)),
            build: |v| Ok(Box::new(parse::<$options>(v)?)),
        }),*] }
    };
}

pub fn advantages() -> Kinds<dyn Advantage> {
    kinds!("advantage", dyn Advantage:
        advantages::DiscountedReturn,
        advantages::Gae,
        advantages::Gdpo,
        advantages::Group,
        advantages::InformationGain,
        advantages::Opo,
        advantages::Stratified,
    )
}
pub fn modulations() -> Kinds<dyn Modulation> {
    kinds!("modulation", dyn Modulation:
        modulations::EntropyBalanced,
        modulations::EntropyModulated,
        modulations::SharedPrefix,
        modulations::Whiten,
    )
}
pub fn loss_terms() -> Kinds<dyn LossTerm> {
    kinds!("loss term", dyn LossTerm:
        losses::Cispo,
        losses::Clip,
        losses::ClipBalanced,
        losses::ClipCov,
        losses::Dpo,
        losses::Entropy,
        losses::EntropySmoothing,
        losses::GeoMean,
        losses::Gspo,
        losses::Kl,
        losses::KlCov,
        losses::Nft,
        losses::Value,
    )
}
pub fn filters() -> Kinds<dyn Filter> {
    kinds!("filter", dyn Filter:
        filters::AccuracyBand,
        filters::Incomplete,
        filters::Overlong,
        filters::PrefixEntropy,
        filters::Repetition,
        filters::RewardSpread,
        filters::VoidTurn,
        filters::ZeroVariance,
    )
}
pub fn curricula() -> Kinds<dyn Curriculum> {
    kinds!("curriculum", dyn Curriculum:
        curricula::InteractionStages,
        curricula::Learnable,
        curricula::Levels,
        curricula::Uniform,
    )
}
pub fn strategies() -> Kinds<dyn Strategy> {
    kinds!("strategy", dyn Strategy:
        strategies::DemonstrationPrefix,
        strategies::EntropyBalanced,
        strategies::EntropyBranching,
        strategies::Independent,
        strategies::ResampleOnCorrect,
        strategies::RubricScaffold,
    )
}
pub fn corrections() -> Kinds<dyn Correction> {
    kinds!("correction", dyn Correction: corrections::Masked, corrections::None, corrections::Sequence, corrections::Truncated)
}
pub fn replays() -> Kinds<dyn Replay> {
    kinds!("replay", dyn Replay: replay::None, replay::SelfImitation)
}

impl<T: ?Sized> Kinds<T> {
    pub fn names(&self) -> Vec<&'static str> {
        self.list.iter().map(|k| k.kind).collect()
    }
    /// Builds the part that `{kind, …options}` names. Errors: invalid, with the valid names or the wrong option.
    pub fn build(&self, options: &Value) -> Result<Box<T>> {
        let (kind, rest) = self.find(options)?;
        (kind.build)(rest).map_err(|e| e.at(format!("{} `{}`", self.name, kind.kind)))
    }
    /// `{kind, …}` with all defaults filled.
    pub fn complete(&self, options: &Value) -> Result<Value> {
        let (kind, rest) = self.find(options)?;
        let mut full = (kind.complete)(rest).map_err(|e| e.at(format!("{} `{}`", self.name, kind.kind)))?;
        if let Value::Object(map) = &mut full {
            map.insert("kind".into(), json!(kind.kind));
        }
        Ok(full)
    }
    /// The schema of `{kind, …}`, or of the bare name of a part: one branch per part.
    pub fn schema(&self) -> Value {
        let bare = json!({ "type": "string", "enum": self.names() });
        json!({ "oneOf": std::iter::once(bare).chain(self.list.iter().map(Kind::branch)).collect::<Vec<_>>() })
    }
    fn find(&self, options: &Value) -> Result<(&Kind<T>, Value)> {
        let (name, rest) = split(options).ok_or_else(|| {
            Error::invalid(format!("a {} needs a `kind`", self.name))
                .help(format!("write {{kind: …}} with one of: {}", self.names().join(", ")))
        })?;
        let kind = self.list.iter().find(|k| k.kind == name).ok_or_else(|| {
            Error::invalid(format!("no {} is called `{name}`", self.name)).help(format!("the valid kinds are: {}", self.names().join(", ")))
        })?;
        Ok((kind, rest))
    }
}

impl<T: ?Sized> Kind<T> {
    /// The schema of this part's map, `kind` included.
    pub fn branch(&self) -> Value {
        let mut schema = (self.schema)();
        let Value::Object(map) = &mut schema else { return schema };
        map.remove("$schema");
        map.insert("title".into(), json!(self.kind));
        map.insert("description".into(), json!(self.summary));
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        properties["kind"] = json!({ "const": self.kind });
        map.insert("required".into(), json!(["kind"]));
        map.insert("additionalProperties".into(), json!(false));
        schema
    }
}

/// A part without options may be written as its bare name.
fn split(options: &Value) -> Option<(&str, Value)> {
    match options {
        Value::String(name) => Some((name, Value::Object(Map::new()))),
        Value::Object(map) => {
            let name = map.get("kind")?.as_str()?;
            let rest = map.iter().filter(|(k, _)| *k != "kind").map(|(k, v)| (k.clone(), v.clone())).collect();
            Some((name, Value::Object(rest)))
        }
        _ => None,
    }
}

fn parse<O: Options>(options: Value) -> Result<O> {
    let parsed: O = serde_json::from_value(options).map_err(Error::invalid)?;
    parsed.check()?;
    Ok(parsed)
}

/// Without references: the schema becomes a branch of a larger one, where its definitions would not be found.
fn schema<O: Options>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<O>().to_value()
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod tests;
