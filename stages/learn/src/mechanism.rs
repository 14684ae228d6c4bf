//! The key `mechanism` of `rl`, `{enabled: true, with: {…options of rl…}}`, which is the only difference between
//! the two arms of a recipe.
//!
//! Enabled, `with` is laid over the rest of the config, and an `algorithm` in it replaces the config's own. Disabled,
//! it has no effect. The expansion removes the key in both cases, so a disabled treatment has the baseline's digest and
//! is found in the cache.

use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Name of the key in the options of `rl`.
pub const KEY: &str = "mechanism";

/// Removes the key from a config and returns the options to lay over the rest: `None` without a mechanism, or if it is
/// disabled.
///
/// Errors: invalid, naming the key that is wrong.
pub fn take(config: &mut Map<String, Value>) -> Result<Option<Map<String, Value>>> {
    let mut fields = match config.remove(KEY) {
        None => return Ok(None),
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(wrong("", "a map", &other)),
    };
    let enabled = match fields.remove("enabled") {
        None => true,
        Some(Value::Bool(enabled)) => enabled,
        Some(other) => return Err(wrong(".enabled", "true or false", &other)),
    };
    let with = match fields.remove("with") {
        None => Map::new(),
        Some(Value::Object(with)) => with,
        Some(other) => return Err(wrong(".with", "a map of options", &other)),
    };
    if let Some(key) = fields.keys().next() {
        return Err(Error::invalid(format!("`{KEY}` has no key `{key}`")).help("it takes `enabled` and `with`"));
    }
    if with.contains_key(KEY) {
        return Err(Error::invalid(format!("`{KEY}.with` holds a mechanism itself"))
            .help("put the options of both into one `with`"));
    }
    Ok(enabled.then_some(with))
}

fn wrong(at: &str, wanted: &str, found: &Value) -> Error {
    Error::invalid(format!("`{KEY}{at}` must be {wanted}, found {found}"))
        .help("write `mechanism: {enabled: true, with: {filters: […]}}`")
}

#[cfg(test)]
mod tests {
    use crate::{Parts, compose};
    use serde_json::{Value, json};
    use trainyard_core::Result;

    fn expand(config: Value) -> Result<Value> {
        compose::expand(&Parts::standard(), config)
    }

    fn arm(enabled: bool, with: &Value) -> Value {
        json!({
            "algorithm": "rloo",
            "steps": 3,
            "filters": [{ "kind": "zero_variance" }],
            "advantage": { "epsilon": 1e-4 },
            "mechanism": { "enabled": enabled, "with": with },
        })
    }

    #[test]
    fn switched_off_it_leaves_no_trace() {
        let mut plain = arm(false, &json!({}));
        plain.as_object_mut().unwrap().remove("mechanism");
        let plain = expand(plain).unwrap();
        let with = json!({ "algorithm": "gspo", "filters": [{ "kind": "void_turn" }], "rollout": { "group_size": 4 } });
        assert_eq!(expand(arm(false, &with)).unwrap(), plain);
        assert_eq!(expand(arm(true, &json!({}))).unwrap(), plain, "a mechanism that changes nothing");
        assert!(plain.get("mechanism").is_none());
    }

    #[test]
    fn switched_on_it_is_what_one_would_have_written_by_hand() {
        let with = json!({
            "filters": [{ "kind": "void_turn" }],
            "advantage": { "epsilon": 1e-5 },
            "rollout": { "group_size": 4 },
        });
        let by_hand = json!({
            "algorithm": "rloo",
            "steps": 3,
            "filters": [{ "kind": "void_turn" }],
            "advantage": { "epsilon": 1e-5 },
            "rollout": { "group_size": 4 },
        });
        let on = expand(arm(true, &with)).unwrap();
        assert_eq!(on, expand(by_hand).unwrap());
        assert_eq!(expand(on.clone()).unwrap(), on, "expanding twice changes nothing");
    }

    #[test]
    fn another_part_drops_the_options_of_the_arms_own() {
        let with = json!({ "advantage": { "kind": "discounted_return" } });
        let on = expand(arm(true, &with)).unwrap();
        assert_eq!(on["advantage"]["kind"], "discounted_return");
        assert!(on["advantage"].get("epsilon").is_none(), "{}", on["advantage"]);
    }

    #[test]
    fn its_algorithm_takes_the_place_of_the_arms() {
        for name in Parts::standard().algorithms.names() {
            let on = expand(json!({ "algorithm": "rloo", "mechanism": { "with": { "algorithm": name } } })).unwrap();
            assert_eq!(on, expand(json!({ "algorithm": name })).unwrap(), "{}", name);
        }
        let kept = expand(arm(true, &json!({ "algorithm": "grpo" }))).unwrap();
        assert_eq!(kept["filters"].as_array().unwrap().len(), 1, "the arm's own overrides stay");
        assert_eq!(kept["advantage"]["scale"], "group", "the algorithm does not");
    }

    #[test]
    fn mistakes_name_the_key() {
        let message = |mechanism: Value| expand(json!({ "mechanism": mechanism })).unwrap_err().message;
        assert!(message(json!(true)).contains("must be a map"));
        assert!(message(json!({ "enabled": "on" })).contains("mechanism.enabled"));
        assert!(message(json!({ "with": [] })).contains("mechanism.with"));
        assert!(message(json!({ "filters": [] })).contains("no key `filters`"));
        assert!(message(json!({ "with": { "mechanism": {} } })).contains("a mechanism itself"));
    }
}
