//! Named compositions (`algorithm: grpo`) and how a config overrides them.
//!
//! Why so: a published method is a composition of parts, written down once as plain data; a workflow changes only what differs.
//! Rules (design section 6): maps merge key by key, lists replace, another `kind` drops the old one's siblings. The name itself is
//! removed by the expansion, so two spellings of one method have one digest. Refuses: compositions in code paths; the loop sees
//! parts only.

use crate::registry;
use serde_json::{Map, Value, json};
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};

/// A named composition.
pub struct Composition {
    pub name: &'static str,
    pub summary: &'static str,
    config: fn() -> Value,
}

/// All of them, sorted by name.
pub const COMPOSITIONS: &[Composition] = &[
    Composition { name: "cispo", summary: "clipped importance weights instead of clipped losses (2506.13585)", config: cispo },
    Composition {
        name: "dapo",
        summary: "GRPO with clip-higher, token mean, dynamic sampling and overlong masking (2503.14476)",
        config: dapo,
    },
    Composition { name: "dr_grpo", summary: "group mean as baseline, no scale, sums over a constant length (2503.20783)", config: dr_grpo },
    Composition { name: "gmpo", summary: "geometric mean of clipped token ratios (2507.20673)", config: gmpo },
    Composition { name: "grpo", summary: "group-relative advantages, clip-higher, token mean, dynamic sampling", config: grpo },
    Composition { name: "gspo", summary: "clipped ratios of whole sequences (2507.18071)", config: gspo },
    Composition { name: "opo", summary: "length-weighted group mean as baseline, on-policy (2505.23585)", config: opo },
    Composition {
        name: "reinforce_plus_plus",
        summary: "returns whitened over the batch, without groups (2501.03262)",
        config: reinforce_plus_plus,
    },
    Composition {
        name: "reinforce_plus_plus_baseline",
        summary: "group mean as baseline, whitened over the batch (2501.03262)",
        config: reinforce_plus_plus_baseline,
    },
    Composition { name: "rloo", summary: "leave-one-out baseline without scale (2402.14740)", config: rloo },
];

/// The composition that applies when a config names none.
pub const DEFAULT: &str = "grpo";

fn grpo() -> Value {
    json!({
        "rollout": { "strategy": { "kind": "independent" } },
        "filters": [{ "kind": "void_turn" }, { "kind": "zero_variance" }],
        "resample": { "max_draws": 3 },
        "advantage": { "kind": "group", "center": "group", "scale": "group", "ddof": 1, "epsilon": 1e-6, "modulations": [] },
        "loss": {
            "aggregate": "token_mean",
            "correction": { "kind": "none" },
            "terms": [{ "kind": "clip", "clip_low": 0.2, "clip_high": 0.28 }],
        },
        "curriculum": { "kind": "levels" },
        "replay": { "kind": "none" },
    })
}

fn dapo() -> Value {
    merge(grpo(), json!({ "filters": [{ "kind": "overlong" }, { "kind": "zero_variance" }] }))
}

fn dr_grpo() -> Value {
    merge(grpo(), json!({ "advantage": { "scale": "none" }, "loss": { "aggregate": "sequence_mean_token_sum_norm" } }))
}

fn rloo() -> Value {
    merge(grpo(), json!({ "advantage": { "center": "leave_one_out", "scale": "none" } }))
}

fn cispo() -> Value {
    merge(grpo(), json!({ "loss": { "terms": [{ "kind": "cispo" }] } }))
}

fn gmpo() -> Value {
    merge(grpo(), json!({ "loss": { "aggregate": "sequence_mean_token_mean", "terms": [{ "kind": "geo_mean" }] } }))
}

fn gspo() -> Value {
    merge(grpo(), json!({ "loss": { "aggregate": "sequence_mean_token_mean", "terms": [{ "kind": "gspo" }] } }))
}

/// One optimizer step on fresh rollouts: on-policy, so no ratio is ever clipped.
fn opo() -> Value {
    merge(grpo(), json!({ "minibatches": 1, "advantage": { "kind": "opo", "modulations": [] } }))
}

/// The whole batch is the baseline, so no group is dropped for having no spread.
fn reinforce_plus_plus() -> Value {
    let advantage = json!({ "kind": "discounted_return", "gamma": 1.0, "modulations": [{ "kind": "whiten" }] });
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }], "advantage": advantage }))
}

fn reinforce_plus_plus_baseline() -> Value {
    merge(grpo(), json!({ "advantage": { "scale": "none", "modulations": [{ "kind": "whiten" }] } }))
}

/// The parts of a named composition. Errors: invalid, with the valid names.
pub fn composition(name: &str) -> Result<Value> {
    let found = COMPOSITIONS.iter().find(|c| c.name == name);
    let names = || COMPOSITIONS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
    found
        .map(|c| (c.config)())
        .ok_or_else(|| Error::invalid(format!("no algorithm is called `{name}`")).help(format!("the valid names are: {}", names())))
}

/// `over` laid on `base`.
pub fn merge(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => Value::Object(merge_maps(base, over)),
        (_, over) => over,
    }
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

/// Expands `algorithm` and fills every part's defaults.
///
/// Errors: invalid, naming the option path of the first part that does not exist or does not parse.
pub fn expand(config: Value) -> Result<Value> {
    let Value::Object(mut config) = config else { return Err(Error::invalid("the options of `rl` must be a map")) };
    let base = match config.remove("algorithm") {
        Some(Value::String(name)) => composition(&name)?,
        Some(other) => return Err(Error::invalid(format!("`algorithm` must be a name, found {other}"))),
        None => composition(DEFAULT)?,
    };
    complete(merge(base, Value::Object(config)))
}

/// Fills the defaults of every part of an expanded config.
pub fn complete(mut config: Value) -> Result<Value> {
    let strategy = registry::strategies().complete(&config["rollout"]["strategy"]).at("rollout.strategy")?;
    config["rollout"]["strategy"] = strategy;
    config["filters"] = all(&config["filters"], "filters", |v| registry::filters().complete(v))?;
    config["advantage"] = advantage(&config["advantage"])?;
    config["loss"]["correction"] = registry::corrections().complete(&config["loss"]["correction"]).at("loss.correction")?;
    config["loss"]["terms"] = all(&config["loss"]["terms"], "loss.terms", |v| registry::loss_terms().complete(v))?;
    config["curriculum"] = registry::curricula().complete(&config["curriculum"]).at("curriculum")?;
    config["replay"] = registry::replays().complete(&config["replay"]).at("replay")?;
    Ok(config)
}

/// The advantage map with its list of modulations taken apart: (part, modulations).
pub fn split_advantage(options: &Value) -> (Value, Value) {
    let mut part = options.clone();
    let modulations = part.as_object_mut().and_then(|m| m.remove("modulations")).unwrap_or_else(|| json!([]));
    (part, modulations)
}

fn advantage(options: &Value) -> Result<Value> {
    let (part, modulations) = split_advantage(options);
    let mut full = registry::advantages().complete(&part).at("advantage")?;
    full["modulations"] = all(&modulations, "advantage.modulations", |v| registry::modulations().complete(v))?;
    Ok(full)
}

fn all(list: &Value, name: &str, complete: impl Fn(&Value) -> Result<Value>) -> Result<Value> {
    let items = list.as_array().ok_or_else(|| Error::invalid(format!("`{name}` must be a list")))?;
    let full: Result<Vec<Value>> = items.iter().enumerate().map(|(i, v)| complete(v).at(format!("{name}[{i}]"))).collect();
    full.map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_merge_lists_replace_and_another_kind_drops_siblings() {
        let base = json!({"a": {"kind": "x", "p": 1, "q": 2}, "b": [1, 2], "c": {"d": 1}});
        let over = json!({"a": {"kind": "x", "q": 3}, "b": [9], "c": {"e": 2}});
        assert_eq!(merge(base.clone(), over), json!({"a": {"kind": "x", "p": 1, "q": 3}, "b": [9], "c": {"d": 1, "e": 2}}));
        assert_eq!(merge(base.clone(), json!({"a": {"kind": "y"}}))["a"], json!({"kind": "y"}));
        assert_eq!(merge(base, json!({"a": {"p": 5}}))["a"], json!({"kind": "x", "p": 5, "q": 2}));
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
        let spelled = expand(json!({"algorithm": "grpo", "advantage": {"center": "leave_one_out", "scale": "none"}})).unwrap();
        assert_eq!(spelled, expand(json!({"algorithm": "rloo"})).unwrap());
    }

    #[test]
    fn errors_name_the_place_and_the_valid_names() {
        let e = expand(json!({"algorithm": "gpro"})).unwrap_err();
        assert!(e.to_string().contains("gpro") && e.to_string().contains("dr_grpo"), "{e}");
        let e = expand(json!({"loss": {"terms": [{"kind": "clip", "clip_hgh": 1}]}})).unwrap_err();
        assert!(e.message.starts_with("loss.terms[0]: loss term `clip`") && e.message.contains("clip_hgh"), "{e}");
        let e = expand(json!({"filters": [{"kind": "voidturn"}]})).unwrap_err();
        assert!(e.help.unwrap().contains("void_turn"));
    }
}
