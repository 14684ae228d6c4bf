//! How a config overrides a named composition, and what becomes of the two.
//!
//! Why so: a workflow changes only what differs from a published method. Rules: maps merge key by key, lists replace, another `kind`
//! drops the old one's siblings. The name itself is removed by the expansion, so two spellings of one method have one digest.
//! Refuses: judging parts; one that is wrong stays as it is for the check of the stage.

use crate::compositions::{DEFAULT, composition};
use crate::{mechanism, registry};
use serde_json::{Map, Value, json};
use trainyard_api::Kinds;
use trainyard_core::{Error, Result};

/// `over` laid on `base`. On either side of a map the bare name of a part stands for `{kind: name}`.
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

/// Expands `algorithm` and `mechanism` and fills every part's defaults. A part that does not exist or does not parse stays as it is:
/// the check of the stage says what is wrong with it, and with all others.
///
/// Errors: invalid, naming what is wrong with one of the two keys.
pub fn expand(config: Value) -> Result<Value> {
    let Value::Object(mut config) = config else { return Err(Error::invalid("the options of `rl` must be a map")) };
    let mut mechanism = mechanism::take(&mut config)?;
    let own = config.remove("algorithm");
    let base = match mechanism.as_mut().and_then(|with| with.remove("algorithm")).or(own) {
        Some(Value::String(name)) => composition(&name)?,
        Some(other) => return Err(Error::invalid(format!("`algorithm` must be a name, found {other}"))),
        None => composition(DEFAULT)?,
    };
    let arm = merge(base, Value::Object(config));
    // Last, and over the whole arm: another `kind` must drop the composition's siblings and the config's alike.
    Ok(complete(match mechanism {
        Some(with) => merge(arm, Value::Object(with)),
        None => arm,
    }))
}

/// Fills the defaults of every part of an expanded config.
fn complete(mut config: Value) -> Value {
    fill(config.pointer_mut("/rollout/strategy"), &registry::strategies());
    fill_all(config.pointer_mut("/filters"), &registry::filters());
    if let Some(advantage) = config.get_mut("advantage") {
        fill_advantage(advantage);
    }
    fill(config.pointer_mut("/loss/correction"), &registry::corrections());
    fill_all(config.pointer_mut("/loss/terms"), &registry::loss_terms());
    fill(config.get_mut("curriculum"), &registry::curricula());
    fill(config.get_mut("replay"), &registry::replays());
    config
}

fn fill<B>(part: Option<&mut Value>, kinds: &Kinds<B>) {
    if let Some(part) = part
        && let Ok(full) = kinds.complete(part)
    {
        *part = full;
    }
}

fn fill_all<B>(list: Option<&mut Value>, kinds: &Kinds<B>) {
    list.and_then(Value::as_array_mut).into_iter().flatten().for_each(|part| fill(Some(part), kinds));
}

fn fill_advantage(options: &mut Value) {
    let (part, mut modulations) = split_advantage(options);
    fill_all(Some(&mut modulations), &registry::modulations());
    if let Ok(mut full) = registry::advantages().complete(&part) {
        full["modulations"] = modulations;
        *options = full;
    }
}

/// The advantage map with its list of modulations taken apart: (part, modulations).
pub fn split_advantage(options: &Value) -> (Value, Value) {
    let mut part = options.clone();
    let modulations = part.as_object_mut().and_then(|m| m.remove("modulations")).unwrap_or_else(|| json!([]));
    (part, modulations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compositions::COMPOSITIONS;

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

    #[test]
    fn expansion_is_complete_and_idempotent() {
        for c in COMPOSITIONS {
            let once = expand(json!({"algorithm": c.name, "steps": 3})).unwrap();
            assert!(once.get("algorithm").is_none());
            assert_eq!(once["curriculum"]["promote_at"], json!(0.7));
            assert_eq!(expand(once.clone()).unwrap(), once, "{}", c.name);
        }
    }

    #[test]
    fn two_spellings_of_one_method_are_equal() {
        let spelled =
            expand(json!({"algorithm": "grpo", "advantage": {"center": "leave_one_out", "scale": "none"}})).unwrap();
        assert_eq!(spelled, expand(json!({"algorithm": "rloo"})).unwrap());
    }

    #[test]
    fn an_unknown_algorithm_is_answered_with_the_valid_names() {
        let e = expand(json!({"algorithm": "gpro"})).unwrap_err();
        assert!(e.to_string().contains("gpro") && e.to_string().contains("dr_grpo"), "{e}");
    }

    #[test]
    fn a_wrong_part_stays_as_it_is_and_the_others_are_completed() {
        let wrong = json!({"kind": "clip", "clip_hgh": 1});
        let advantage = json!({"kind": "grup", "modulations": ["whiten"]});
        let given =
            json!({"loss": {"terms": [wrong, "cispo"]}, "filters": ["voidturn"], "advantage": advantage, "replay": 3});
        let full = expand(given).unwrap();
        assert_eq!((&full["loss"]["terms"][0], &full["loss"]["terms"][1]["clip_high"]), (&wrong, &json!(0.28)));
        assert_eq!(
            (&full["filters"], &full["advantage"], &full["replay"]),
            (&json!(["voidturn"]), &advantage, &json!(3))
        );
        assert_eq!(full["curriculum"]["promote_at"], json!(0.7));
    }
}
