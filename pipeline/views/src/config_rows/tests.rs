use super::*;
use serde_json::json;

/// Returns a schema with nested options, parts and a list of parts.
fn options() -> Value {
    let part = |name: &str, option: &str, default: Value| {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {"kind": {"const": name}, option: {"type": "number", "default": default}},
        })
    };
    let parts = json!({"anyOf": [
        {"enum": ["clip", "none"], "type": "string"},
        part("clip", "low", json!(0.2)),
        part("none", "unused", json!(1)),
    ]});
    json!({
        "type": "object",
        "properties": {
            "steps": {"type": "integer", "default": 10},
            "rate": {"type": "number", "default": 1.0},
            "limit": {"type": ["integer", "null"], "default": null},
            "problems": {"type": "string"},
            "names": {"type": "array", "items": {"type": "string"}, "default": []},
            "algorithm": {"type": "string", "default": "plain"},
            "optimizer": {"$ref": "#/$defs/Optimizer", "default": {"rate": 0.1, "decay": "none"}},
            "adapter": {"anyOf": [{"$ref": "#/$defs/Optimizer"}, {"type": "null"}], "default": null},
            "correction": parts,
            "terms": {"type": "array", "items": parts},
            "weights": {"type": "object", "additionalProperties": {"type": "number"}, "default": {"a": 1}},
        },
        "$defs": {"Optimizer": {"type": "object", "properties": {
            "rate": {"type": "number", "default": 0.1}, "decay": {"type": "string", "default": "none"},
        }}},
    })
}

/// Returns the paths of the values that are defaults, and of those that are not.
fn paths(config: &Value, composition: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let rows = config_rows(config, KindDefaults { options: &options(), composition });
    let (defaults, given): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.is_default);
    let names = |rows: Vec<ConfigRow>| rows.into_iter().map(|row| row.path).collect();
    (names(defaults), names(given))
}

#[test]
fn values_that_equal_the_schema_are_defaults() {
    let config = json!({
        "steps": 10, "rate": 1, "limit": null, "problems": "a.jsonl", "names": [], "unknown": 1,
        "optimizer": {"rate": 0.2, "decay": "none"},
    });
    let (defaults, given) = paths(&config, None);
    assert_eq!(defaults, ["limit", "names", "optimizer.decay", "rate", "steps"]);
    assert_eq!(given, ["optimizer.rate", "problems", "unknown"]);
    let (defaults, given) = paths(&json!({"steps": 11, "limit": 0, "names": ["a"]}), None);
    assert_eq!((defaults.len(), given.len()), (0, 3));
}

#[test]
fn nested_options_of_a_given_map_have_their_own_defaults() {
    let (defaults, given) = paths(&json!({"adapter": {"rate": 0.1, "decay": "linear"}}), None);
    assert_eq!((defaults, given), (vec!["adapter.rate".to_string()], vec!["adapter.decay".to_string()]));
    let (defaults, given) = paths(&json!({"weights": {"a": 1.0, "b": 2}}), None);
    assert_eq!((defaults, given), (vec!["weights.a".to_string()], vec!["weights.b".to_string()]));
}

#[test]
fn parts_have_the_defaults_of_their_kind() {
    let config = json!({"correction": {"kind": "clip", "low": 0.2}});
    let (defaults, given) = paths(&config, None);
    assert_eq!((defaults, given), (vec!["correction.low".to_string()], vec!["correction.kind".to_string()]));
    assert!(paths(&config, Some(&json!({"correction": "clip"}))).1.is_empty(), "a part may be given by its name");
    let (defaults, given) = paths(&config, Some(&json!({"correction": {"kind": "none"}})));
    assert_eq!((defaults, given), (vec!["correction.low".to_string()], vec!["correction.kind".to_string()]));
}

#[test]
fn compositions_are_laid_over_the_schema() {
    let composition =
        json!({"steps": 20, "correction": {"kind": "clip", "low": 0.5}, "optimizer": {"decay": "cosine"}});
    let config = json!({
        "steps": 20, "correction": {"kind": "clip", "low": 0.2}, "optimizer": {"rate": 0.1, "decay": "cosine"},
    });
    let (defaults, given) = paths(&config, Some(&composition));
    assert_eq!(defaults, ["correction.kind", "optimizer.decay", "optimizer.rate", "steps"]);
    assert_eq!(given, ["correction.low"], "the default of the composition is 0.5");
}

#[test]
fn lists_are_replaced_as_a_whole() {
    let composition = json!({"terms": [{"kind": "clip"}, "none"]});
    let same = json!({"terms": [{"kind": "clip", "low": 0.2}, {"kind": "none", "unused": 1}]});
    let (defaults, given) = paths(&same, Some(&composition));
    assert_eq!((defaults.len(), given.len()), (4, 0));
    let other = json!({"terms": [{"kind": "clip", "low": 0.2}]});
    let (defaults, given) = paths(&other, Some(&composition));
    assert_eq!((defaults, given), (vec!["terms[0].low".to_string()], vec!["terms[0].kind".to_string()]));
    let (_, given) = paths(&json!({"terms": []}), Some(&composition));
    assert_eq!(given, ["terms"], "an empty list is one value");
}

#[test]
fn recursive_schemas_and_odd_keys_end() {
    let options = json!({
        "anyOf": [{"$ref": "#"}],
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}},
    });
    let config = json!({"a": {"a": {"b.c": 1}}, "d": "x"});
    let rows = config_rows(&config, KindDefaults { options: &options, composition: None });
    let paths: Vec<&str> = rows.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths, ["a.a[\"b.c\"]", "d"]);
    assert!(rows.iter().all(|row| !row.is_default));
    assert_eq!(
        config_rows(&json!(3), KindDefaults { options: &json!(true), composition: Some(&json!(3)) })[0].path,
        ""
    );
}
