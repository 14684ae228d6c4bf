//! Reads nested options whose defaults depend on their position in the config: the optimizer of `sft` has another
//! default rate than that of `rl`.
//!
//! Serde fills missing keys of a struct from the struct's own `Default`. These functions take the defaults from the
//! position instead, so setting one key does not change the others, and the schema shows the defaults that apply.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Position in a config that defines the defaults of nested options.
pub trait OptionDefaults {
    type Options: Serialize + DeserializeOwned + JsonSchema;
    /// Returns the defaults that apply at this position.
    fn defaults() -> Self::Options;
}

/// Merges the given keys into the defaults of `P`, for `#[serde(deserialize_with)]`.
pub fn read<'de, P: OptionDefaults, D: Deserializer<'de>>(deserializer: D) -> Result<P::Options, D::Error> {
    let overrides = Map::<String, Value>::deserialize(deserializer)?;
    let mut merged = serde_json::to_value(P::defaults()).map_err(D::Error::custom)?;
    merge_over(&mut merged, Value::Object(overrides));
    serde_json::from_value(merged).map_err(D::Error::custom)
}

/// Returns the schema with the defaults of `P`, for `#[schemars(schema_with)]`. The schema is inlined, because
/// definitions are shared by type.
pub fn schema<P: OptionDefaults>(_: &mut SchemaGenerator) -> Schema {
    let settings = SchemaSettings::default().with(|s| s.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<P::Options>().to_value();
    let defaults = serde_json::to_value(P::defaults()).unwrap_or_default();
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
        map.remove("title");
    }
    for (key, value) in defaults.as_object().into_iter().flatten() {
        schema["properties"][key]["default"] = value.clone();
    }
    Schema::try_from(schema).unwrap_or_default()
}

/// Merges maps key by key; all other values are replaced.
fn merge_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                merge_over(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::TrainParts;
    use crate::registry::stages;
    use serde_json::{Value, json};

    /// Finds the maps in a complete config that are plain options. Parts are left out, because their defaults come with
    /// their `kind`.
    fn option_maps(value: &Value, at: &str, found: &mut Vec<String>) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}/{key}");
            if inner.is_object() && inner.get("kind").is_none() {
                found.push(at.clone());
                option_maps(inner, &at, found);
            }
        }
    }

    /// Returns a config that contains only this value, at this pointer.
    fn only(pointer: &str, value: Value) -> Value {
        pointer.rsplit('/').filter(|key| !key.is_empty()).fold(value, |inner, key| json!({ key: inner }))
    }

    #[test]
    fn setting_one_key_changes_that_key_alone() {
        let mut looked_at = Vec::new();
        for stage in stages(&TrainParts::default()) {
            let Ok(default) = stage.complete(&json!({})) else { continue };
            let mut maps = Vec::new();
            option_maps(&default, "", &mut maps);
            for map in maps {
                for (key, value) in default.pointer(&map).unwrap().as_object().unwrap() {
                    if value.is_object() {
                        continue;
                    }
                    let place = format!("{map}/{key}");
                    let given = stage.complete(&only(&place, value.clone())).unwrap();
                    assert_eq!(given, default, "`{}`: setting {place} to its default", stage.info().name);
                    looked_at.push(format!("{}{place}", stage.info().name));
                }
            }
        }
        for place in ["sft/optimizer/decay", "rl/critic/optimizer/beta1", "prm/sampling/top_p"] {
            assert!(looked_at.iter().any(|seen| seen == place), "{place} in {looked_at:?}");
        }
    }

    #[test]
    fn the_schema_shows_the_defaults_that_apply() {
        let mut compared = 0;
        for stage in stages(&TrainParts::default()) {
            let Ok(default) = stage.complete(&json!({})) else { continue };
            let mut maps = Vec::new();
            option_maps(&default, "", &mut maps);
            for map in maps {
                let mut schema: &Value = &stage.info().options;
                for key in map.split('/').skip(1) {
                    schema = resolved(&stage.info().options, &schema["properties"][key]);
                }
                for (key, value) in default.pointer(&map).unwrap().as_object().unwrap() {
                    if let Some(shown) = schema["properties"][key].get("default") {
                        assert_eq!(shown, value, "`{}`: {map}/{key}", stage.info().name);
                        compared += 1;
                    }
                }
            }
        }
        assert!(compared > 40, "only {compared} defaults were compared");
    }

    fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
        let reference = schema.get("$ref").or_else(|| schema["allOf"][0].get("$ref")).and_then(Value::as_str);
        reference.and_then(|target| root.pointer(target.trim_start_matches('#'))).unwrap_or(schema)
    }

    #[test]
    fn given_options_override_the_stage_defaults() {
        let of = |kind: &str, options: Value| {
            let stage = stages(&TrainParts::default()).into_iter().find(|s| s.info().name == kind).unwrap();
            stage.complete(&options).unwrap()["optimizer"].clone()
        };
        let sft = of("sft", json!({"optimizer": {"weight_decay": 0.0}}));
        assert!(sft["learning_rate"].is_null() && sft["weight_decay"].as_f64() == Some(0.0));
        let (plain, rated) = (of("rl", json!({})), of("rl", json!({"optimizer": {"learning_rate": 6e-4}})));
        assert_eq!(rated["learning_rate"], json!(6e-4));
        for key in ["decay", "final_share", "weight_decay", "warmup_share"] {
            assert_eq!(rated[key], plain[key], "{key}");
        }
        // Values that every shipped workflow was tuned with.
        let tuned = json!({
            "learning_rate": 6e-4, "decay": "cosine", "warmup_share": 0.05, "final_share": 0.1, "beta1": 0.9,
            "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.01, "clip_norm": 1.0,
        });
        assert_eq!(rated, tuned);
        let wrong = stages(&TrainParts::default()).into_iter().find(|s| s.info().name == "rl").unwrap();
        let problems = wrong.validate(&json!({"optimizer": {"learning": 1}}));
        assert!(problems[0].message.contains("learning"), "{problems:?}");
    }
}
