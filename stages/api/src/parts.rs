//! Parts: what a stage is composed of, written as a map with a `kind` (`{kind: clip, clip_high: 0.28}`) or as its bare name (`clip`).
//!
//! Why here: learning, environments and data all have lists of parts, and a part must mean the same in each: one way to name it, to
//! fill in its defaults, to say what is wrong with it and where, and to describe it. Each part's options are one struct that denies
//! unknown fields; a room's registry has a line for it, with the way to build it, which differs from room to room. Refuses: tagged
//! enums (they would put every part into one type) and registration at link time (a list can be read).

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trainyard_core::{Error, Metric, OptionProblem, Result};

/// A part's options: a plain struct with defaults that denies unknown fields. Its doc comments are their documentation.
pub trait PartOptions: Serialize + DeserializeOwned + JsonSchema {
    /// As written after `kind:`.
    const KIND: &'static str;
    /// One line for lists.
    const SUMMARY: &'static str;
    /// Markdown: formula, shapes, units, constants, errors, source.
    const DOC: &'static str;
    /// What it reports, without its kind in front: the stage adds that (`clip.fraction`; `clip_2.fraction` of a second
    /// one).
    fn metrics() -> Vec<Metric> {
        Vec::new()
    }
    /// Ranges and contradictions that types cannot express, all of them; pointers are relative to the options.
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

/// One line of a registry: a part and how it is built.
pub struct PartKind<B> {
    pub name: &'static str,
    pub summary: &'static str,
    pub doc: &'static str,
    /// What it reports, without its kind in front.
    pub metrics: Vec<Metric>,
    /// Of the options without `kind`, as those below.
    schema: fn() -> Value,
    complete: fn(Value) -> Result<Value>,
    check: fn(Value) -> Vec<OptionProblem>,
    /// Takes the options without `kind`.
    pub build: B,
}

/// How parts are built that need nothing but their options.
pub type Build<T> = fn(&Value) -> Result<Box<T>>;

/// All parts of one sort.
pub struct Kinds<B> {
    /// As it is called in messages: `loss term`.
    pub what: &'static str,
    /// Sorted by name.
    pub list: Vec<PartKind<B>>,
}

/// A registry's line for options `O`.
pub fn part<O: PartOptions, B>(build: B) -> PartKind<B> {
    let (name, summary, doc) = (O::KIND, O::SUMMARY, O::DOC);
    PartKind {
        name,
        summary,
        doc,
        metrics: O::metrics(),
        schema: schema::<O>,
        complete: complete::<O>,
        check: check::<O>,
        build,
    }
}

/// Reads options without `kind` and refuses those that their check refuses.
pub fn read<O: PartOptions>(options: &Value) -> Result<O> {
    let parsed: O = parse(options.clone())?;
    match parsed.check().into_iter().next() {
        None => Ok(parsed),
        Some(problem) => Err(refused(problem)),
    }
}

impl<B> Kinds<B> {
    pub fn names(&self) -> Vec<&'static str> {
        self.list.iter().map(|kind| kind.name).collect()
    }
    /// The part that options name, and the options without `kind`. Errors: invalid, with the valid names.
    pub fn find(&self, options: &Value) -> Result<(&PartKind<B>, Value)> {
        self.look_up(options).map_err(refused)
    }
    /// `{kind, …}` with every default filled in. Errors: invalid, as far as types tell; ranges are for [`Kinds::check`].
    pub fn complete(&self, options: &Value) -> Result<Value> {
        let (kind, own) = self.find(options)?;
        (kind.complete)(own).map_err(|e| e.at(self.place(kind)))
    }
    /// Everything wrong with the options; pointers are relative to them.
    pub fn check(&self, options: &Value) -> Vec<OptionProblem> {
        match self.look_up(options) {
            Ok((kind, own)) => (kind.check)(own),
            Err(problem) => vec![problem],
        }
    }
    /// The schema of `{kind, …}`, or of the bare name of a part: one branch per part.
    pub fn schema(&self) -> Value {
        let bare = json!({ "type": "string", "enum": self.names() });
        let branches: Vec<Value> = std::iter::once(bare).chain(self.list.iter().map(|kind| kind.branch())).collect();
        json!({ "oneOf": branches })
    }
    /// A part as messages call it: `` loss term `clip` ``.
    pub fn place(&self, kind: &PartKind<B>) -> String {
        format!("{} `{}`", self.what, kind.name)
    }
    fn look_up(&self, options: &Value) -> Result<(&PartKind<B>, Value), OptionProblem> {
        let known = || format!("use one of: {}", self.names().join(", "));
        let Some((name, own)) = split(options) else {
            return Err(OptionProblem::new("", format!("this {} has no `kind`", self.what)).help(known()));
        };
        let at = if options.is_string() { "" } else { "/kind" };
        let unknown = || OptionProblem::new(at, format!("no {} is called `{name}`", self.what)).help(known());
        let kind = self.list.iter().find(|kind| kind.name == name).ok_or_else(unknown)?;
        Ok((kind, own))
    }
}

impl<T: ?Sized> Kinds<Build<T>> {
    /// Builds the part that `{kind, …}` names. Errors: invalid, with the valid names or the wrong option.
    pub fn build(&self, options: &Value) -> Result<Box<T>> {
        let (kind, own) = self.find(options)?;
        (kind.build)(&own).map_err(|e| e.at(self.place(kind)))
    }
}

impl<B> PartKind<B> {
    /// The schema of this part's map, `kind` included.
    pub fn branch(&self) -> Value {
        let mut schema = (self.schema)();
        let Some(map) = schema.as_object_mut() else { return schema };
        map.remove("$schema");
        map.insert("title".into(), json!(self.name));
        map.insert("description".into(), json!(self.summary));
        map.insert("additionalProperties".into(), json!(false));
        let mut required = vec![json!("kind")];
        required.extend(map.remove("required").and_then(|names| names.as_array().cloned()).unwrap_or_default());
        map.insert("required".into(), Value::Array(required));
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        properties["kind"] = json!({ "const": self.name });
        schema
    }
}

/// The kind that options name, if they name one.
pub fn kind_of(options: &Value) -> Option<&str> {
    options.as_str().or_else(|| options.get("kind")?.as_str())
}

/// What stands before the metrics of each part of a list: its kind, from the second of a kind on with its number
/// (`clip_2`).
pub fn prefixes<'a>(list: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let one = |options: &'a Value| {
        let kind = kind_of(options).unwrap_or_default();
        let number = seen.entry(kind).and_modify(|n| *n += 1).or_insert(1);
        if *number == 1 { kind.to_string() } else { format!("{kind}_{number}") }
    };
    list.into_iter().map(one).collect()
}

impl<B> Kinds<B> {
    /// What the parts of a list report, under the names that manifests have.
    pub fn declared<'a>(&self, list: impl IntoIterator<Item = &'a Value> + Clone) -> Vec<Metric> {
        let named = list.clone().into_iter().zip(prefixes(list));
        let of = |options: &Value| self.list.iter().find(|kind| Some(kind.name) == kind_of(options));
        named
            .filter_map(|(options, prefix)| Some((of(options)?, prefix)))
            .flat_map(|(kind, prefix)| kind.metrics.iter().map(move |m| m.clone().of(&prefix)).collect::<Vec<_>>())
            .collect()
    }
    /// What any of these parts may report; with `several`, also under the names of a second one of its kind.
    pub fn declarable(&self, several: bool) -> Vec<Metric> {
        let prefixes = |name: &str| {
            let numbered = several.then(|| format!("{name}_<int>"));
            std::iter::once(name.to_string()).chain(numbered).collect::<Vec<String>>()
        };
        let of = |kind: &PartKind<B>| {
            let under = |prefix: String| kind.metrics.iter().map(|m| m.clone().of(&prefix)).collect::<Vec<Metric>>();
            prefixes(kind.name).into_iter().flat_map(under).collect::<Vec<Metric>>()
        };
        self.list.iter().flat_map(of).collect()
    }
}

/// The name of a part, and its options without `kind`. A bare name is a map with nothing else.
fn split(options: &Value) -> Option<(&str, Value)> {
    match options {
        Value::String(name) => Some((name, Value::Object(Map::new()))),
        Value::Object(map) => {
            let name = map.get("kind")?.as_str()?;
            let own =
                map.iter().filter(|(key, _)| *key != "kind").map(|(key, value)| (key.clone(), value.clone())).collect();
            Some((name, Value::Object(own)))
        }
        _ => None,
    }
}

fn parse<O: PartOptions>(options: Value) -> Result<O> {
    serde_json::from_value(options).map_err(Error::invalid)
}

/// The problem as an error, its place in front.
fn refused(problem: OptionProblem) -> Error {
    let place = problem.pointer.trim_start_matches('/').replace('/', ".");
    let error = Error::invalid(problem.message);
    let error = if place.is_empty() { error } else { error.at(format!("`{place}`")) };
    problem.help.into_iter().fold(error, Error::help)
}

/// Without references: the schema becomes a branch of a larger one, where its definitions would not be found.
fn schema<O: PartOptions>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<O>().to_value()
}

fn complete<O: PartOptions>(options: Value) -> Result<Value> {
    let options: O = parse(options)?;
    match serde_json::to_value(options) {
        Ok(Value::Object(mut map)) => {
            map.insert("kind".into(), json!(O::KIND));
            Ok(Value::Object(map))
        }
        Ok(_) => Err(Error::bug("its options are no map")),
        Err(e) => Err(Error::bug(format!("its options have no JSON form: {e}"))),
    }
}

fn check<O: PartOptions>(options: Value) -> Vec<OptionProblem> {
    match parse::<O>(options) {
        Ok(parsed) => parsed.check(),
        Err(e) => vec![OptionProblem::new("", e.message)],
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
