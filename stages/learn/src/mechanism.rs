//! Reads and removes the keys `mechanism` and `placebo` of `rl`, `{enabled: true, with: {…options of rl…}}`. The arms
//! of a recipe differ only in these keys.
//!
//! If enabled, `mechanism.with` is merged over the rest of the config, and an `algorithm` in it replaces that of the
//! config. If the placebo is enabled, the mechanism's options are merged first and the placebo's over them: the result
//! is the same mechanism with its signal replaced by chance. A disabled key has no effect. The expansion removes both
//! keys in all cases, so a disabled arm has the baseline's digest and is found in the cache.

use crate::merge::merge;
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};

/// Name of the mechanism's key in the options of `rl`.
pub const KEY: &str = "mechanism";
/// Name of the placebo's key in the options of `rl`.
pub const PLACEBO: &str = "placebo";

/// Removes both keys from a config and returns the options to merge over the rest, or `None` if neither key is enabled.
///
/// Errors: invalid, naming the key that is invalid.
pub fn take(config: &mut Map<String, Value>) -> Result<Option<Map<String, Value>>> {
    if config.contains_key(PLACEBO) && !config.contains_key(KEY) {
        return Err(Error::invalid(format!("`{PLACEBO}` is set without `{KEY}`"))
            .help("a placebo is the mechanism with its signal replaced by chance: set both, or remove `placebo`"));
    }
    let mechanism = take_key(config, KEY)?;
    let Some(placebo) = take_key(config, PLACEBO)?.filter(|placebo| placebo.enabled) else {
        return Ok(mechanism.filter(|mechanism| mechanism.enabled).map(|mechanism| mechanism.with));
    };
    let under = mechanism.map(|mechanism| mechanism.with).unwrap_or_default();
    match merge(Value::Object(under), Value::Object(placebo.with)) {
        Value::Object(with) => Ok(Some(with)),
        _ => unreachable!("two maps merge to a map"),
    }
}

/// Value of one of the keys.
struct MechanismValue {
    enabled: bool,
    with: Map<String, Value>,
}

/// Removes one key from a config and reads it.
fn take_key(config: &mut Map<String, Value>, key: &str) -> Result<Option<MechanismValue>> {
    let mut fields = match config.remove(key) {
        None => return Ok(None),
        Some(Value::Object(fields)) => fields,
        Some(other) => return Err(wrong(key, "a map", &other)),
    };
    let enabled = match fields.remove("enabled") {
        None => true,
        Some(Value::Bool(enabled)) => enabled,
        Some(other) => return Err(wrong(&format!("{key}.enabled"), "true or false", &other)),
    };
    let with = match fields.remove("with") {
        None => Map::new(),
        Some(Value::Object(with)) => with,
        Some(other) => return Err(wrong(&format!("{key}.with"), "a map of options", &other)),
    };
    if let Some(other) = fields.keys().next() {
        return Err(Error::invalid(format!("`{key}` has no key `{other}`")).help("use `enabled` and `with`"));
    }
    if let Some(inner) = [KEY, PLACEBO].into_iter().find(|inner| with.contains_key(*inner)) {
        return Err(Error::invalid(format!("`{key}.with` contains a `{inner}`"))
            .help("put the options of both into one `with`"));
    }
    Ok(Some(MechanismValue { enabled, with }))
}

fn wrong(at: &str, expected: &str, found: &Value) -> Error {
    Error::invalid(format!("`{at}` must be {expected}, found {found}"))
        .help("write `mechanism: {enabled: true, with: {filters: […]}}`")
}

#[cfg(test)]
mod tests {
    use crate::{LearnParts, compose};
    use serde_json::{Value, json};
    use trainyard_core::Result;

    fn expand(config: Value) -> Result<Value> {
        compose::expand(&LearnParts::standard(), config)
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
    fn disabled_mechanism_leaves_no_trace() {
        let mut plain = arm(false, &json!({}));
        plain.as_object_mut().unwrap().remove("mechanism");
        let plain = expand(plain).unwrap();
        let with = json!({ "algorithm": "gspo", "filters": [{ "kind": "void_turn" }], "rollout": { "group_size": 4 } });
        assert_eq!(expand(arm(false, &with)).unwrap(), plain);
        assert_eq!(expand(arm(true, &json!({}))).unwrap(), plain, "a mechanism that changes nothing");
        assert!(plain.get("mechanism").is_none());
    }

    #[test]
    fn enabled_mechanism_equals_the_merged_options() {
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
    fn another_kind_drops_the_arms_options() {
        let with = json!({ "advantage": { "kind": "discounted_return" } });
        let on = expand(arm(true, &with)).unwrap();
        assert_eq!(on["advantage"]["kind"], "discounted_return");
        assert!(on["advantage"].get("epsilon").is_none(), "{}", on["advantage"]);
    }

    #[test]
    fn mechanisms_algorithm_replaces_the_arms() {
        for name in LearnParts::standard().algorithms.names() {
            let on = expand(json!({ "algorithm": "rloo", "mechanism": { "with": { "algorithm": name } } })).unwrap();
            assert_eq!(on, expand(json!({ "algorithm": name })).unwrap(), "{}", name);
        }
        let kept = expand(arm(true, &json!({ "algorithm": "grpo" }))).unwrap();
        assert_eq!(kept["filters"].as_array().unwrap().len(), 1, "the arm's own overrides stay");
        assert_eq!(kept["advantage"]["scale"], "group", "the algorithm does not");
    }

    #[test]
    fn placebo_is_merged_over_the_mechanism() {
        let strategy = |more: Value| {
            let mut strategy = json!({ "kind": "resample_on_correct", "oversample": 2 });
            strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "rollout": { "strategy": strategy } })
        };
        let of = |mechanism: bool, placebo: bool| {
            let mut config = arm(mechanism, &strategy(json!({})));
            let with = json!({ "rollout": { "strategy": { "smoothing": 5.0 } } });
            config["placebo"] = json!({ "enabled": placebo, "with": with });
            expand(config).unwrap()
        };
        assert_eq!(of(false, false), expand(arm(false, &json!({}))).unwrap());
        assert_eq!(of(true, false), expand(arm(true, &strategy(json!({})))).unwrap());
        let placebo = expand(arm(true, &strategy(json!({ "smoothing": 5.0 })))).unwrap();
        assert_eq!((of(false, true), of(true, true)), (placebo.clone(), placebo));
        let alone = expand(json!({ "placebo": { "with": {} } })).unwrap_err();
        assert!(alone.message.contains("`placebo` is set without `mechanism`"), "{alone}");
    }

    #[test]
    fn errors_name_the_key() {
        let message = |mechanism: Value| expand(json!({ "mechanism": mechanism })).unwrap_err().message;
        assert!(message(json!(true)).contains("must be a map"));
        assert!(message(json!({ "enabled": "on" })).contains("mechanism.enabled"));
        assert!(message(json!({ "with": [] })).contains("mechanism.with"));
        assert!(message(json!({ "filters": [] })).contains("no key `filters`"));
        assert!(message(json!({ "with": { "mechanism": {} } })).contains("contains a `mechanism`"));
    }
}
