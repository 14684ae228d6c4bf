//! How a registry's line turns `{kind: …, options…}` into a part.
//!
//! Why so: parts are dispatched on `kind` by the registries, never by tagged enums, so that each part's options are one struct
//! with its own schema that denies unknown fields. Refuses: a map without `kind`.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use trainyard_core::{Error, OptionProblem, Result};

/// One line of a registry: a part's name, its options, and how it is built.
pub struct PartKind<B> {
    pub name: &'static str,
    /// One line for lists.
    pub summary: &'static str,
    /// JSON Schema of the options without `kind`.
    pub schema: fn() -> Value,
    /// The same options with every default filled in, `kind` included.
    pub complete: fn(&Value) -> Result<Value>,
    /// Everything wrong with the options; pointers are relative to them.
    pub check: fn(&Value) -> Vec<OptionProblem>,
    pub build: B,
}

/// Options of a part.
pub trait PartOptions: Serialize + DeserializeOwned + JsonSchema {
    const KIND: &'static str;
    /// Ranges and contradictions that types cannot express.
    fn check(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
}

/// A registry's line for options `O`.
pub(crate) fn part<O: PartOptions, B>(summary: &'static str, build: B) -> PartKind<B> {
    PartKind { name: O::KIND, summary, schema: schema::<O>, complete: complete::<O>, check: check::<O>, build }
}

/// Reads options, `kind` left out, and refuses those that their check refuses.
pub(crate) fn read<O: PartOptions>(options: &Value) -> Result<O> {
    let parsed = parse::<O>(options)?;
    match parsed.check().into_iter().next() {
        None => Ok(parsed),
        Some(problem) => {
            let error = Error::invalid(format!("`{}` at {}: {}", O::KIND, problem.pointer, problem.message));
            Err(problem.help.into_iter().fold(error, Error::help))
        }
    }
}

fn parse<O: PartOptions>(options: &Value) -> Result<O> {
    let mut map = options.as_object().cloned().ok_or_else(|| Error::invalid(format!("options of `{}` are no map", O::KIND)))?;
    map.remove("kind");
    serde_json::from_value(Value::Object(map)).map_err(|e| Error::invalid(format!("options of `{}`: {e}", O::KIND)))
}

/// Without references: the schema becomes a branch of a larger one, where its definitions would not be found.
fn schema<O: PartOptions>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<O>().to_value()
}

fn complete<O: PartOptions>(options: &Value) -> Result<Value> {
    let parsed = parse::<O>(options)?;
    let value = serde_json::to_value(parsed).map_err(|e| Error::bug(format!("options of `{}` have no JSON form: {e}", O::KIND)))?;
    let mut map = Map::new();
    map.insert("kind".to_string(), Value::from(O::KIND));
    if let Value::Object(fields) = value {
        map.extend(fields);
    }
    Ok(Value::Object(map))
}

fn check<O: PartOptions>(options: &Value) -> Vec<OptionProblem> {
    match parse::<O>(options) {
        Ok(parsed) => parsed.check(),
        Err(e) => vec![OptionProblem { pointer: String::new(), message: e.message, help: e.help }],
    }
}

/// The schema of `{kind, …}` for one line of a registry.
pub fn branch<B>(kind: &PartKind<B>) -> Value {
    let mut schema = (kind.schema)();
    let Some(map) = schema.as_object_mut() else { return schema };
    map.remove("$schema");
    map.insert("title".into(), json!(kind.name));
    map.insert("description".into(), json!(kind.summary));
    map.insert("required".into(), json!(["kind"]));
    map.insert("additionalProperties".into(), json!(false));
    let properties = map.entry("properties").or_insert_with(|| json!({}));
    properties["kind"] = json!({ "const": kind.name });
    schema
}

/// The line of a registry that `options` name by their `kind`; `what` is the room's word (`environment`, `reward`).
pub(crate) fn find<'a, B>(what: &str, kinds: &'a [PartKind<B>], options: &Value) -> Result<&'a PartKind<B>> {
    let known = || format!("use one of: {}", kinds.iter().map(|k| k.name).collect::<Vec<_>>().join(", "));
    let Some(kind) = options.get("kind").and_then(Value::as_str) else {
        return Err(Error::invalid(format!("this {what} has no `kind`")).help(known()));
    };
    kinds.iter().find(|k| k.name == kind).ok_or_else(|| Error::invalid(format!("no {what} `{kind}` in this build")).help(known()))
}
