//! Named compositions (`algorithm: grpo`) and how a config overrides them.
//!
//! Why so: a published method is a composition of parts, written down once as plain data; a workflow changes only what differs.
//! Rules: maps merge key by key, lists replace, another `kind` drops the old one's siblings. The name itself is
//! removed by the expansion, so two spellings of one method have one digest. Refuses: compositions in code paths; the loop sees
//! parts only.

use crate::{mechanism, registry};
use serde_json::{Map, Value, json};
use trainyard_api::Kinds;
use trainyard_core::{Error, Result};

/// A named composition.
pub struct Composition {
    pub name: &'static str,
    pub summary: &'static str,
    config: fn() -> Value,
}

/// All of them, sorted by name.
pub const COMPOSITIONS: &[Composition] = &[
    Composition {
        name: "aepo",
        summary: "measured shares of roots and branches, clip that keeps a scaled gradient (2510.14545)",
        config: aepo,
    },
    Composition { name: "arpo", summary: "GRPO on rollouts that fork where a tool result left entropy (2507.19849)", config: arpo },
    Composition { name: "cispo", summary: "clipped importance weights instead of clipped losses (2506.13585)", config: cispo },
    Composition { name: "clip_cov", summary: "GRPO, silent on a few tokens of high covariance (2505.22617)", config: clip_cov },
    Composition {
        name: "dapo",
        summary: "GRPO with clip-higher, token mean, dynamic sampling and overlong masking (2503.14476)",
        config: dapo,
    },
    Composition { name: "dr_grpo", summary: "group mean as baseline, no scale, sums over a constant length (2503.20783)", config: dr_grpo },
    Composition { name: "empg", summary: "GRPO with larger advantages for confident turns (2509.09265)", config: empg },
    Composition { name: "epo", summary: "GRPO with an entropy bonus held to a band around its past (2509.22576)", config: epo },
    Composition { name: "gdpo", summary: "every reward component normalized by itself, then whitened (2601.05242)", config: gdpo },
    Composition { name: "gmpo", summary: "geometric mean of clipped token ratios (2507.20673)", config: gmpo },
    Composition { name: "grpo", summary: "group-relative advantages, clip-higher, token mean, dynamic sampling", config: grpo },
    Composition { name: "grpo_roc", summary: "GRPO on all kinds of failures and on clean successes (2508.20722)", config: grpo_roc },
    Composition { name: "grpo_tcr", summary: "GRPO with token mean, clip-higher and a soft length penalty (2510.11701)", config: grpo_tcr },
    Composition { name: "gspo", summary: "clipped ratios of whole sequences (2507.18071)", config: gspo },
    Composition { name: "igpo", summary: "turns rewarded by the gain in probability of the gold answer (2510.14967)", config: igpo },
    Composition { name: "kl_cov", summary: "GRPO with a penalty on moving tokens of high covariance (2505.22617)", config: kl_cov },
    Composition { name: "lite_ppo", summary: "group mean, batch deviation, token mean, nothing else (2508.08221)", config: lite_ppo },
    Composition { name: "loop", summary: "leave-one-out baseline, PPO clip, several updates per batch (2502.01600)", config: loop_ppo },
    Composition { name: "nft", summary: "likelihood of right answers and of an implicit negative policy (2505.18116)", config: nft },
    Composition { name: "opo", summary: "length-weighted group mean as baseline, on-policy (2505.23585)", config: opo },
    Composition { name: "prefix_rft", summary: "Dr.GRPO with one rollout begun by a demonstration (2507.01679)", config: prefix_rft },
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
    Composition { name: "ruscarl", summary: "GRPO with hints that differ within a group and vanish (2508.16949)", config: ruscarl },
    Composition { name: "simpletir", summary: "GRPO without void turns and without lopsided groups (2509.02479)", config: simpletir },
    Composition {
        name: "stratified_grpo",
        summary: "rollouts against those with as many tool calls (2510.06214)",
        config: stratified_grpo,
    },
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

fn clip_cov() -> Value {
    merge(grpo(), json!({ "loss": { "terms": [{ "kind": "clip_cov" }] } }))
}

fn kl_cov() -> Value {
    merge(grpo(), json!({ "loss": { "terms": [{ "kind": "kl_cov", "others": "free" }] } }))
}

fn epo() -> Value {
    let terms = json!([{ "kind": "clip", "clip_low": 0.2, "clip_high": 0.28 }, { "kind": "entropy_smoothing", "decay": 3.0 }]);
    merge(grpo(), json!({ "loss": { "terms": terms } }))
}

/// The loss reads pass rates, not advantages; groups that are all right or all wrong still leave.
fn nft() -> Value {
    merge(grpo(), json!({ "loss": { "terms": [{ "kind": "nft" }] } }))
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

/// Soft credit: shared tokens are learned once per branch, each with its own advantage.
fn arpo() -> Value {
    merge(grpo(), json!({ "rollout": { "strategy": { "kind": "entropy_branching" } } }))
}

fn aepo() -> Value {
    let over = json!({
        "rollout": { "strategy": { "kind": "entropy_balanced" } },
        "advantage": { "modulations": [{ "kind": "entropy_balanced" }] },
        "loss": { "terms": [{ "kind": "clip_balanced" }] },
    });
    merge(grpo(), over)
}

/// Void turns are left to the choice among successes, as in the source.
fn grpo_roc() -> Value {
    merge(grpo(), json!({ "rollout": { "strategy": { "kind": "resample_on_correct" } }, "filters": [{ "kind": "zero_variance" }] }))
}

/// Aggregation and clip are those of `grpo`; the shaping is a reward, whose limits must suit those of the rollouts.
fn grpo_tcr() -> Value {
    merge(grpo(), json!({ "rewards": [{ "kind": "answer" }, { "kind": "length" }], "filters": [{ "kind": "zero_variance" }] }))
}

/// The filter on given tokens stands last, so that it measures what is left of the others.
fn prefix_rft() -> Value {
    let over = json!({
        "rollout": { "strategy": { "kind": "demonstration_prefix" } },
        "filters": [{ "kind": "void_turn" }, { "kind": "zero_variance" }, { "kind": "prefix_entropy" }],
    });
    merge(dr_grpo(), over)
}

fn ruscarl() -> Value {
    merge(grpo(), json!({ "rollout": { "strategy": { "kind": "rubric_scaffold" } } }))
}

/// Trajectories with a void turn are masked whole and still count in their group's accuracy and baseline.
fn simpletir() -> Value {
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }, { "kind": "accuracy_band" }, { "kind": "zero_variance" }] }))
}

fn empg() -> Value {
    merge(grpo(), json!({ "advantage": { "modulations": [{ "kind": "entropy_modulated" }] } }))
}

/// Sums of rewards may be equal where the components are not, so equal sums are no reason to drop a group.
fn gdpo() -> Value {
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }], "advantage": { "kind": "gdpo", "modulations": [] } }))
}

/// Groups whose outcomes are all equal still differ in what their turns found out, so they stay.
fn igpo() -> Value {
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }], "advantage": { "kind": "information_gain", "modulations": [] } }))
}

/// Two techniques on the plain PPO loss: no clip-higher, no filter, and groups without spread count in the batch's deviation.
fn lite_ppo() -> Value {
    merge(grpo(), json!({ "filters": [], "advantage": { "scale": "batch" }, "loss": { "terms": [plain_clip()] } }))
}

/// Every rollout enters; the same rollouts serve several updates, which is what the clip is for.
fn loop_ppo() -> Value {
    let advantage = json!({ "center": "leave_one_out", "scale": "none" });
    merge(grpo(), json!({ "epochs": 2, "minibatches": 4, "filters": [], "advantage": advantage, "loss": { "terms": [plain_clip()] } }))
}

fn stratified_grpo() -> Value {
    merge(grpo(), json!({ "advantage": { "kind": "stratified", "modulations": [] } }))
}

/// PPO's clip with equal bounds.
fn plain_clip() -> Value {
    json!({ "kind": "clip", "clip_low": 0.2, "clip_high": 0.2 })
}

/// The parts of a named composition. Errors: invalid, with the valid names.
pub fn composition(name: &str) -> Result<Value> {
    let found = COMPOSITIONS.iter().find(|c| c.name == name);
    let names = || COMPOSITIONS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
    found
        .map(|c| (c.config)())
        .ok_or_else(|| Error::invalid(format!("no algorithm is called `{name}`")).help(format!("the valid names are: {}", names())))
}

/// `over` laid on `base`. On either side of a map the bare name of a part stands for `{kind: name}`.
pub fn merge(base: Value, over: Value) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => Value::Object(merge_maps(base, over)),
        (Value::Object(base), Value::String(name)) if base.contains_key("kind") => Value::Object(merge_maps(base, named(name))),
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

    #[test]
    fn maps_merge_lists_replace_and_another_kind_drops_siblings() {
        let base = json!({"a": {"kind": "x", "p": 1, "q": 2}, "b": [1, 2], "c": {"d": 1}});
        let over = json!({"a": {"kind": "x", "q": 3}, "b": [9], "c": {"e": 2}});
        assert_eq!(merge(base.clone(), over), json!({"a": {"kind": "x", "p": 1, "q": 3}, "b": [9], "c": {"d": 1, "e": 2}}));
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
        assert_eq!(merge(json!({"a": {"p": 1}, "b": "sum"}), json!({"a": "x", "b": "mean"})), json!({"a": "x", "b": "mean"}));
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
    fn names_are_sorted_and_differ() {
        assert!(COMPOSITIONS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn published_methods_have_their_parts() {
        let of = |name: &str| expand(json!({ "algorithm": name })).unwrap();
        let kinds = |list: &Value| list.as_array().unwrap().iter().map(|p| p["kind"].clone()).collect::<Vec<_>>();
        for (name, kind) in [("gdpo", "gdpo"), ("igpo", "information_gain"), ("stratified_grpo", "stratified"), ("lite_ppo", "group")] {
            assert_eq!(of(name)["advantage"]["kind"], kind);
        }
        assert_eq!(kinds(&of("empg")["advantage"]["modulations"]), ["entropy_modulated"]);
        let plain = json!({ "center": "group", "scale": "batch", "kind": "group", "ddof": 1, "epsilon": 1e-6, "modulations": [] });
        assert_eq!(of("lite_ppo")["advantage"], plain);
        let repeated = of("loop");
        assert_eq!((&repeated["epochs"], &repeated["advantage"]["center"]), (&json!(2), &json!("leave_one_out")));
        for name in ["lite_ppo", "loop"] {
            let full = of(name);
            let clip = &full["loss"]["terms"][0];
            assert_eq!((&clip["clip_low"], &clip["clip_high"]), (&json!(0.2), &json!(0.2)), "no clip-higher");
            assert!(kinds(&full["filters"]).is_empty());
        }
        for name in ["gdpo", "igpo"] {
            assert_eq!(kinds(&of(name)["filters"]), ["void_turn"], "equal sums are no reason to leave");
        }
    }

    #[test]
    fn names_are_sorted_and_a_method_may_bring_its_rewards() {
        assert!(COMPOSITIONS.windows(2).all(|w| w[0].name < w[1].name));
        let method = expand(json!({"algorithm": "grpo_tcr"})).unwrap();
        assert_eq!(method["rewards"], json!([{"kind": "answer"}, {"kind": "length"}]));
        let own = expand(json!({"algorithm": "grpo_tcr", "rewards": [{"kind": "answer"}]})).unwrap();
        assert_eq!(own["rewards"], json!([{"kind": "answer"}]), "a list replaces");
    }

    #[test]
    fn two_spellings_of_one_method_are_equal() {
        let spelled = expand(json!({"algorithm": "grpo", "advantage": {"center": "leave_one_out", "scale": "none"}})).unwrap();
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
        let given = json!({"loss": {"terms": [wrong, "cispo"]}, "filters": ["voidturn"], "advantage": advantage, "replay": 3});
        let full = expand(given).unwrap();
        assert_eq!((&full["loss"]["terms"][0], &full["loss"]["terms"][1]["clip_high"]), (&wrong, &json!(0.28)));
        assert_eq!((&full["filters"], &full["advantage"], &full["replay"]), (&json!(["voidturn"]), &advantage, &json!(3)));
        assert_eq!(full["curriculum"]["promote_at"], json!(0.7));
    }
}
