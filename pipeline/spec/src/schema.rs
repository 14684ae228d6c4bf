//! Generates the JSON Schema of a workflow file for editors: the envelope, and every kind's options and ports under
//! `with`.
//!
//! Each typed value may also be an expression, so every option's schema also accepts one. The schema only helps with
//! typing; `check` decides whether a file is valid.

mod share;

use crate::recipe::{self, RecipeResult};
use serde_json::{Map, Value, json};
use trainyard_core::{ArtifactKind, ComparisonField, DeclaredMetrics, KindInfo, StageKinds};

/// Returns the schema of the names that a check of such a stage may use; any name if the producers of its inputs
/// decide.
fn names_of(declared: &DeclaredMetrics) -> Value {
    let all = || declared.metrics.iter().chain(&declared.comparisons);
    if declared.open || all().next().is_none() {
        return json!({"type": "string"});
    }
    let plain: Vec<&str> = all().filter(|m| !m.is_family()).map(|m| m.name.as_str()).collect();
    let families = all().filter(|m| m.is_family()).map(|m| json!({"type": "string", "pattern": m.pattern()}));
    let enumerated = (!plain.is_empty()).then(|| json!({"enum": plain}));
    json!({"anyOf": enumerated.into_iter().chain(families).collect::<Vec<Value>>()})
}

/// Returns the schema of a workflow file, in draft 2020-12.
pub fn workflow_schema(catalogue: &dyn StageKinds) -> Value {
    let mut definitions = envelope_definitions();
    let mut names = Vec::new();
    let mut branches = Vec::new();
    for name in catalogue.names() {
        let Some(info) = catalogue.kind(name) else { continue };
        let slot = name.replace('/', ".");
        let mut moved = Map::new();
        let with = with_schema(info, &slot, &mut moved);
        definitions.extend(moved);
        definitions.insert(format!("with.{slot}"), with);
        names.push(json!({"const": name, "description": info.summary}));
        branches.push(json!({
            "if": {"properties": {"uses": {"const": name}}, "required": ["uses"]},
            "then": {"properties": {
                "with": {"$ref": format!("#/$defs/with.{slot}")},
                "checks": {"items": {"properties": {"metric": names_of(&info.metrics)}}},
            }},
        }));
    }
    names.push(json!({"type": "string", "pattern": r"\.ya?ml$", "description": "a workflow file that is embedded"}));
    let mut stage = stage_schema(&names);
    stage["allOf"] = Value::Array(branches);
    definitions.insert("stage".into(), stage);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Trainyard workflow",
        "type": "object",
        "additionalProperties": false,
        "if": {"required": ["extends"]},
        "else": whole_file(),
        "properties": {
            "extends": {"type": "string", "description": "parent file, which this one overrides: ./parent.yaml"},
            "version": {"const": 1},
            "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,100}$"},
            "description": {"type": "string"},
            "recipe": recipe_schema(),
            "params": {"type": "object", "additionalProperties": or_null("param")},
            "defaults": {"type": "object", "additionalProperties": false, "properties": {
                "retry": {"$ref": "#/$defs/retry"}, "resources": {"$ref": "#/$defs/resources"},
                "timeout": {"$ref": "#/$defs/text"}, "cache": {"$ref": "#/$defs/cache"},
                "env": {"$ref": "#/$defs/env"}, "secrets": {"$ref": "#/$defs/texts"},
            }},
            "schedule": schedule_schema(),
            "stages": {"type": "object", "additionalProperties": or_null("stage")},
            "outputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/artifacts"}},
            "evaluation_sets": {"type": "object", "additionalProperties": {
                "type": "object", "required": ["artifact", "excluded_from"], "additionalProperties": false,
                "properties": {
                    "artifact": {"$ref": "#/$defs/artifacts"}, "excluded_from": {"$ref": "#/$defs/texts"},
                    "description": {"type": "string"},
                },
            }},
        },
        "$defs": definitions,
    });
    share::share(&mut schema);
    schema
}

fn schedule_schema() -> Value {
    let place = |what: &str| json!({"type": "string", "description": what});
    json!({
        "type": "object", "additionalProperties": false, "oneOf": [{"required": ["cron"]}, {"required": ["on"]}],
        "description": "when `trainyard serve` starts a run of this file",
        "properties": {
            "cron": {"type": "string"}, "timezone": {"type": "string"},
            "on": {
                "type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
                "properties": {
                    "artifact": place("WORKFLOW.STAGE.OUTPUT: a run of that workflow publishes another content of it"),
                    "files": place("an absolute folder, or a URL with a prefix: files that were not there before"),
                },
            },
            "catchup": {"enum": ["latest", "all", "none"], "description": "missed ticks that are run later"},
            "catchup_window": {"$ref": "#/$defs/text", "description": "greatest age of a tick that is run later (1d)"},
            "overlap": {
                "enum": ["skip", "queue", "cancel", "allow"],
                "description": "handling of a tick while the previous run is active",
            },
            "jitter": {"$ref": "#/$defs/text", "description": "the longest delay of a tick"},
        },
    })
}

fn recipe_schema() -> Value {
    json!({
        "type": "object", "required": recipe::KEYS, "additionalProperties": false,
        "description": "the published system that this file shows; `trainyard recipes` lists and runs such files",
        "properties": {
            "system": {"$ref": "#/$defs/text", "description": "its name"},
            "source": {"$ref": "#/$defs/text", "description": "where it was published, e.g. arXiv 2509.02479"},
            "mechanism": {
                "$ref": "#/$defs/text",
                "description": "one sentence: what distinguishes the treatment from the baseline",
            },
            "limits": {"$ref": "#/$defs/text", "description": "what the toy scale cannot show"},
            "result": {
                "enum": RecipeResult::NAMES,
                "description": "outcome over the pooled seeds; `trainyard recipes run --seeds` fails on another one",
            },
            "claim": {"$ref": "#/$defs/text", "description": "the gain that the source claims; required by `result`"},
            "world": {"$ref": "#/$defs/text", "description": "problems and policy of the trial; required by `result`"},
            "tried": {"$ref": "#/$defs/texts", "description": "other settings that were tried, each with its result"},
        },
    })
}

fn stage_schema(kinds: &[Value]) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "uses": {"anyOf": kinds, "description": "a stage kind, or a workflow file"},
            "run": {
                "anyOf": [{"type": "array", "items": {"type": ["string", "number", "boolean"]}}, {"type": "string"}],
                "description": "a command line, or a shell script",
            },
            "with": {"type": "object"},
            "needs": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/texts"}]},
            "matrix": {
                "type": "object",
                "additionalProperties": {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/expression"}]},
            },
            "for_each": {"anyOf": [{"type": "array"}, {"$ref": "#/$defs/expression"}, {
                "type": "object", "required": ["items"], "properties": {"items": {}, "cap": {}},
                "additionalProperties": false,
            }]},
            "when": {"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/expression"}]},
            "beside": {"type": "string", "description": "the stage that this one starts and ends with, as a server"},
            "resources": {"$ref": "#/$defs/resources"},
            "retry": {"$ref": "#/$defs/retry"},
            "timeout": {"$ref": "#/$defs/text"},
            "checks": {"type": "array", "items": {
                "type": "object", "required": ["metric"], "additionalProperties": false,
                "properties": {
                    "metric": {"type": "string", "description": "as `trainyard stages KIND` lists them"},
                    "of": {"enum": ComparisonField::NAMES, "description": "which number of a comparison"},
                    "min": {"$ref": "#/$defs/number"}, "max": {"$ref": "#/$defs/number"},
                    "severity": {"enum": ["error", "warn"]}, "role": {"enum": recipe::ROLES},
                },
            }},
            "cache": {"$ref": "#/$defs/cache"},
            "env": {"$ref": "#/$defs/env"},
            "secrets": {"$ref": "#/$defs/texts"},
            "files": {"anyOf": [{"$ref": "#/$defs/texts"}, {"$ref": "#/$defs/env"}]},
            "outputs": {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/kind"}, {
                "type": "object", "required": ["kind"], "additionalProperties": false,
                "properties": {"kind": {"$ref": "#/$defs/kind"}, "optional": {"type": "boolean"}},
            }]}},
            "description": {"type": "string"},
        },
    })
}

/// Returns the schema of a definition, or of the `null` that removes it from a parent.
fn or_null(name: &str) -> Value {
    json!({"anyOf": [{"$ref": format!("#/$defs/{name}")}, {"type": "null"}]})
}

/// Returns the schema of a file without a parent: the keys that it must have.
fn whole_file() -> Value {
    let stage = json!({"type": "object", "oneOf": [{"required": ["uses"]}, {"required": ["run"]}]});
    json!({
        "required": ["version", "name", "stages"],
        "properties": {
            "params": {"additionalProperties": {"type": "object", "required": ["type"]}},
            "stages": {"additionalProperties": stage},
        },
    })
}

fn envelope_definitions() -> Map<String, Value> {
    let number = json!({"anyOf": [{"type": "number"}, {"$ref": "#/$defs/expression"}]});
    let amounts = json!({
        "cpus": number, "memory": {"$ref": "#/$defs/size"}, "gpus": number, "gpu_memory": {"$ref": "#/$defs/size"},
        "nodes": number, "tags": {"$ref": "#/$defs/texts"},
    });
    let mut resources = amounts.clone();
    resources["wait"] = json!({"type": "string", "description": "how long an attempt may wait for its machines"});
    resources["any_of"] =
        json!({"type": "array", "items": {"type": "object", "additionalProperties": false, "properties": amounts}});
    let kinds: Vec<&str> = ArtifactKind::ALL.map(ArtifactKind::name).to_vec();
    let definitions = json!({
        "expression": {"type": "string", "pattern": r"^\$\{\{.*\}\}$"},
        "text": {"type": ["string", "number", "boolean"]},
        "texts": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/text"}}, {"$ref": "#/$defs/expression"}]},
        "number": number,
        "size": {"type": ["string", "number"]},
        "artifacts": {"anyOf": [
            {"$ref": "#/$defs/expression"},
            {"type": "array", "items": {"$ref": "#/$defs/expression"}},
            {"type": "null"},
        ]},
        "kind": {"enum": kinds},
        "env": {"type": "object", "additionalProperties": {"$ref": "#/$defs/text"}},
        "cache": {"anyOf": [{"type": "boolean"}, {
            "type": "object", "additionalProperties": false, "properties": {"salt": {"$ref": "#/$defs/text"}},
        }]},
        "retry": {"type": "object", "additionalProperties": false, "properties": {
            "attempts": number, "preemptions": number, "backoff": {"type": "string"},
            "on": {"type": "array", "items": {"enum": ["retryable", "lost", "data", "bug", "invalid"]}},
        }},
        "resources": {"type": "object", "additionalProperties": false, "properties": resources},
        "param": {"type": "object", "additionalProperties": false, "properties": {
            "type": {"enum": crate::expand::params::TYPE_NAMES},
            "default": {}, "min": {}, "max": {}, "choices": {"type": "array"},
            "items": {"enum": crate::expand::params::TYPE_NAMES}, "description": {"type": "string"},
        }},
    });
    match definitions {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Returns the options of a kind with its ports; the schema's own definitions move to `moved`, under the kind's name.
fn with_schema(info: &KindInfo, slot: &str, moved: &mut Map<String, Value>) -> Value {
    let mut schema = Value::clone(&info.options);
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        for keyword in ["$defs", "definitions"] {
            if let Some(Value::Object(definitions)) = object.remove(keyword) {
                for (name, definition) in definitions {
                    moved.insert(format!("{slot}.{name}"), widen(definition, slot));
                }
            }
        }
    }
    let mut schema = widen(schema, slot);
    let Some(object) = schema.as_object_mut() else { return json!({"type": "object"}) };
    let properties = object.entry("properties").or_insert_with(|| json!({}));
    let (families, ports): (Vec<_>, Vec<_>) = info.inputs.iter().partition(|port| port.is_family());
    for port in ports {
        properties[port.name] =
            json!({"$ref": "#/$defs/artifacts", "description": format!("{} ({})", port.doc, port.kind)});
    }
    // The names are those that the file gives.
    if let Some(port) = families.first() {
        let rest = json!({"$ref": "#/$defs/artifacts", "description": port.doc});
        object.insert("additionalProperties".into(), rest);
    }
    schema
}

/// Renames references, and allows an expression in place of every value.
fn widen(schema: Value, slot: &str) -> Value {
    let Value::Object(mut object) = schema else { return schema };
    if let Some(Value::String(target)) = object.get_mut("$ref") {
        let name = target.rsplit('/').next().unwrap_or_default();
        *target = format!("#/$defs/{slot}.{name}");
    }
    for keyword in ["properties", "patternProperties"] {
        if let Some(Value::Object(properties)) = object.get_mut(keyword) {
            for value in properties.values_mut() {
                *value = or_expression(widen(value.take(), slot));
            }
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(value) = object.get_mut(keyword).filter(|v| v.is_object()) {
            *value = or_expression(widen(value.take(), slot));
        }
    }
    for keyword in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        if let Some(Value::Array(parts)) = object.get_mut(keyword) {
            for part in parts {
                *part = widen(part.take(), slot);
            }
        }
    }
    for keyword in ["if", "then", "else", "not"] {
        if let Some(part) = object.get_mut(keyword) {
            *part = widen(part.take(), slot);
        }
    }
    Value::Object(object)
}

fn or_expression(schema: Value) -> Value {
    let mut outer = Map::new();
    if let Some(description) = schema.get("description") {
        outer.insert("description".into(), description.clone());
    }
    // An unquoted `7` is the text "7" where text is declared.
    let text = schema
        .get("type")
        .is_some_and(|t| *t == "string" || t.as_array().is_some_and(|names| names.contains(&json!("string"))));
    let free = text && schema.get("enum").is_none() && schema.get("const").is_none();
    let alternative = if free { json!({"type": ["number", "boolean"]}) } else { json!({"$ref": "#/$defs/expression"}) };
    outer.insert("anyOf".into(), json!([schema, alternative]));
    Value::Object(outer)
}
