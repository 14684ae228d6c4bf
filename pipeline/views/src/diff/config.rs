//! Compares configurations key by key.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Key whose values differ.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConfigChange {
    /// Path of the key, as `loss.terms[0].clip`.
    pub path: String,
    /// Value of A; absent if only B has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Value>,
    /// Value of B; absent if only A has the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Value>,
}

/// Returns the keys whose values differ, in order. Maps are compared key by key, lists of one length item by item if
/// they have a map, and all other values as a whole.
pub fn config_changes(a: &Value, b: &Value) -> Vec<ConfigChange> {
    let mut changes = Vec::new();
    compare(String::new(), Some(a), Some(b), &mut changes);
    changes
}

/// Returns the differing entries of two maps, as [`config_changes`].
pub fn map_changes(a: &BTreeMap<String, Value>, b: &BTreeMap<String, Value>) -> Vec<ConfigChange> {
    let map = |entries: &BTreeMap<String, Value>| Value::Object(entries.clone().into_iter().collect());
    config_changes(&map(a), &map(b))
}

fn compare(path: String, a: Option<&Value>, b: Option<&Value>, changes: &mut Vec<ConfigChange>) {
    match (a, b) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            for key in keys(a, b) {
                compare(below(&path, key), a.get(key), b.get(key), changes);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b)))
            if a.len() == b.len() && a.iter().chain(b).any(Value::is_object) =>
        {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                compare(format!("{path}[{at}]"), Some(a), Some(b), changes);
            }
        }
        (a, b) => changes.push(ConfigChange { path, a: a.cloned(), b: b.cloned() }),
    }
}

/// Returns the keys of both maps in order, each once.
fn keys<'a>(a: &'a Map<String, Value>, b: &'a Map<String, Value>) -> Vec<&'a String> {
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns the path of a key. A key that is not a plain name is quoted in brackets.
pub(crate) fn below(path: &str, key: &str) -> String {
    let is_plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '/'));
    match (is_plain, path.is_empty()) {
        (true, true) => key.to_string(),
        (true, false) => format!("{path}.{key}"),
        (false, _) => format!("{path}[{}]", Value::from(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn changes(a: Value, b: Value) -> Vec<(String, Option<Value>, Option<Value>)> {
        config_changes(&a, &b).into_iter().map(|change| (change.path, change.a, change.b)).collect()
    }

    #[test]
    fn only_differing_keys_are_listed_by_their_path() {
        let a = json!({"lr": 0.1, "steps": 5, "loss": {"kl": {"coefficient": 0.1}, "aggregate": "token"}, "old": null});
        let b = json!({"lr": 0.2, "steps": 5, "loss": {"kl": {"coefficient": 0.0}, "aggregate": "token"}, "new": [1]});
        let found = changes(a, b);
        let expected = [
            ("loss.kl.coefficient".to_string(), Some(json!(0.1)), Some(json!(0.0))),
            ("lr".to_string(), Some(json!(0.1)), Some(json!(0.2))),
            ("new".to_string(), None, Some(json!([1]))),
            ("old".to_string(), Some(Value::Null), None),
        ];
        assert_eq!(found, expected);
        assert!(changes(json!({"a": [{"b": 1}]}), json!({"a": [{"b": 1}]})).is_empty());
    }

    #[test]
    fn a_missing_key_differs_from_null_in_json() {
        let found = config_changes(&json!({"a": null}), &json!({}));
        assert_eq!(serde_json::to_value(found).unwrap(), json!([{"path": "a", "a": null}]));
    }

    #[test]
    fn lists_of_maps_are_compared_item_by_item() {
        let a = json!({"rules": ["x", {"kind": "dedup", "size": 3}], "terms": ["clip", "kl"], "t": [{"k": 1}]});
        let b = json!({"rules": ["x", {"kind": "dedup", "size": 4}], "terms": ["clip"], "t": [{"k": 1}, {"k": 2}]});
        let expected = [
            ("rules[1].size".to_string(), Some(json!(3)), Some(json!(4))),
            ("t".to_string(), Some(json!([{"k": 1}])), Some(json!([{"k": 1}, {"k": 2}]))),
            ("terms".to_string(), Some(json!(["clip", "kl"])), Some(json!(["clip"]))),
        ];
        assert_eq!(changes(a, b), expected);
    }

    #[test]
    fn keys_that_are_no_names_are_quoted() {
        let found = changes(json!({"a": {"b.c": 1, "": 2}}), json!({"a": {"b.c": 3, "": 4}}));
        let paths: Vec<&str> = found.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(paths, ["a[\"\"]", "a[\"b.c\"]"]);
        assert_eq!(changes(json!(1), json!({"a": 1})), [(String::new(), Some(json!(1)), Some(json!({"a": 1})))]);
    }
}
