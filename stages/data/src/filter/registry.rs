//! The rules of `data/filter`: one line each, sorted.

use super::rule::Rule;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use trainyard_core::{Error, Result};

/// How a rule is made from its options (without `kind`).
struct Entry {
    kind: &'static str,
    build: fn(Value) -> Result<Box<dyn Rule>>,
    complete: fn(Value) -> Result<Value>,
    schema: fn() -> Value,
}

/// A rule's options are the rule itself.
const fn entry<R: Rule + DeserializeOwned + Serialize + JsonSchema + 'static>(kind: &'static str) -> Entry {
    Entry {
        kind,
        build: |options| Ok(Box::new(parse::<R>(options)?)),
        complete: |options| serde_json::to_value(parse::<R>(options)?).map_err(|e| Error::bug(e.to_string())),
        schema: options_of::<R>,
    }
}

static RULES: [Entry; 7] = [
    entry::<super::answer::Answer>("answer"),
    entry::<super::decontaminate::Decontaminate>("decontaminate"),
    entry::<super::exact_duplicates::ExactDuplicates>("exact_duplicates"),
    entry::<super::expression::Expression>("expression"),
    entry::<super::format::Format>("format"),
    entry::<super::near_duplicates::NearDuplicates>("near_duplicates"),
    entry::<super::void_turn::VoidTurn>("void_turn"),
];

fn parse<R: DeserializeOwned>(options: Value) -> Result<R> {
    serde_json::from_value(options).map_err(|e| Error::invalid(e.to_string()))
}

/// Without references: the schema becomes a branch of a larger one, where its definitions would not be found.
fn options_of<R: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::default().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<R>().to_value()
}

/// The names of all rules, sorted.
pub fn names() -> Vec<&'static str> {
    RULES.iter().map(|r| r.kind).collect()
}

/// The rule that `{kind: …, options}` describes.
pub fn build(options: &Value) -> Result<Box<dyn Rule>> {
    let (entry, own) = find(options)?;
    (entry.build)(own).map_err(|e| e.at(format!("rule `{}`", entry.kind)))
}

/// The same with every default filled in.
pub fn complete(options: &Value) -> Result<Value> {
    let (entry, own) = find(options)?;
    let mut full = (entry.complete)(own).map_err(|e| e.at(format!("rule `{}`", entry.kind)))?;
    full.as_object_mut()
        .ok_or_else(|| Error::bug(format!("options of rule `{}` are no map", entry.kind)))?
        .insert("kind".into(), json!(entry.kind));
    Ok(full)
}

/// The JSON Schema of one rule: any of them, told apart by `kind`.
pub fn schema() -> Value {
    let variants: Vec<Value> = RULES
        .iter()
        .map(|rule| {
            let mut schema = (rule.schema)();
            if let Some(object) = schema.as_object_mut() {
                object.remove("$schema");
                object.entry("properties").or_insert_with(|| json!({}));
            }
            schema["properties"]["kind"] = json!({"const": rule.kind});
            schema["required"] = json!(["kind"]);
            schema
        })
        .collect();
    json!({"oneOf": variants})
}

fn find(options: &Value) -> Result<(&'static Entry, Value)> {
    let mut own = options
        .as_object()
        .cloned()
        .ok_or_else(|| Error::invalid("a rule is a map with `kind`").help("as in `{kind: exact_duplicates}`"))?;
    let kind = match own.remove("kind") {
        Some(Value::String(kind)) => kind,
        _ => return Err(Error::invalid("a rule without `kind`").help(format!("one of: {}", names().join(", ")))),
    };
    let entry = RULES
        .iter()
        .find(|r| r.kind == kind)
        .ok_or_else(|| Error::invalid(format!("no rule `{kind}`")).help(format!("one of: {}", names().join(", "))))?;
    Ok((entry, Value::Object(own)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_sorted_complete_and_every_file_is_listed() {
        assert!(names().is_sorted());
        for kind in names() {
            let minimal = if kind == "expression" { json!({"kind": kind, "keep": "turns > 0"}) } else { json!({"kind": kind}) };
            let full = complete(&minimal).unwrap();
            assert_eq!(complete(&full).unwrap(), full);
            assert_eq!(build(&full).unwrap().kind(), kind);
        }
        let shared = ["mod", "registry", "rule", "report", "minhash", "tests"];
        for file in std::fs::read_dir("src/filter").unwrap() {
            let path = file.unwrap().path();
            let stem = path.file_stem().unwrap().to_str().unwrap();
            let is_rule = path.extension().is_some_and(|e| e == "rs") && !shared.contains(&stem);
            assert!(!is_rule || names().contains(&stem), "`{stem}.rs` is not in the registry");
        }
    }

    #[test]
    fn mistakes_are_named() {
        assert!(build(&json!({"kind": "exact"})).err().unwrap().help.unwrap().contains("exact_duplicates"));
        assert!(build(&json!({"on": "question"})).err().unwrap().message.contains("without `kind`"));
        assert!(build(&json!({"kind": "exact_duplicates", "in": 3})).err().unwrap().message.contains("unknown field `in`"));
    }
}
