//! Merges options: maps are merged key by key, lists are replaced, and another `kind` discards the options of the old
//! one.

use serde_json::{Map, Value};

/// Merges `over` into `base`. If the other side is a map, the bare name of a part means `{kind: name}`.
pub fn merge(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => Value::Object(merge_maps(base, over)),
        (Value::Object(base), Value::String(name)) if base.contains_key("kind") => {
            Value::Object(merge_maps(base, named(name)))
        }
        (Value::String(name), Value::Object(over)) => Value::Object(merge_maps(named(name), over)),
        (_, over) => over,
    }
}

fn named(kind: String) -> Map<String, Value> {
    Map::from_iter([("kind".to_string(), Value::String(kind))])
}

fn merge_maps(mut base: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    if let Some(kind) = over.get("kind")
        && base.get("kind").is_some_and(|old| old != kind)
    {
        return over;
    }
    for (key, value) in over {
        let merged = match base.remove(&key) {
            Some(old) => merge(old, value),
            None => value,
        };
        base.insert(key, merged);
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_merge_lists_replace_and_another_kind_drops_siblings() {
        let base = json!({"a": {"kind": "x", "p": 1, "q": 2}, "b": [1, 2], "c": {"d": 1}});
        let over = json!({"a": {"kind": "x", "q": 3}, "b": [9], "c": {"e": 2}});
        assert_eq!(
            merge(base.clone(), over),
            json!({"a": {"kind": "x", "p": 1, "q": 3}, "b": [9], "c": {"d": 1, "e": 2}})
        );
        assert_eq!(merge(base.clone(), json!({"a": {"kind": "y"}}))["a"], json!({"kind": "y"}));
        assert_eq!(merge(base, json!({"a": {"p": 5}}))["a"], json!({"kind": "x", "p": 5, "q": 2}));
    }

    #[test]
    fn a_bare_name_is_its_kind_on_both_sides() {
        let map = json!({"a": {"kind": "x", "p": 1}});
        assert_eq!(merge(map.clone(), json!({"a": "x"})), map);
        assert_eq!(merge(map.clone(), json!({"a": "y"})), json!({"a": {"kind": "y"}}));
        assert_eq!(merge(json!({"a": "x"}), json!({"a": {"p": 1}})), map);
        assert_eq!(merge(json!({"a": "y"}), map.clone()), map);
        assert_eq!(
            merge(json!({"a": {"p": 1}, "b": "sum"}), json!({"a": "x", "b": "mean"})),
            json!({"a": "x", "b": "mean"})
        );
    }
}
