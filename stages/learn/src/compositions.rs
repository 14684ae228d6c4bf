//! Defines published methods as compositions of parts (`algorithm: grpo`). Each composition is plain data with its
//! source, and a config is merged over it.

use crate::merge::merge;
use serde_json::{Value, json};
use trainyard_api::{Family, PartKind};

/// A named composition.
struct Composition {
    name: &'static str,
    summary: &'static str,
    config: fn() -> Value,
}

/// All compositions, sorted by name.
const COMPOSITIONS: &[Composition] = &[
    Composition {
        name: "aepo",
        summary: "measured shares of roots and branches, clip that keeps a scaled gradient (2510.14545)",
        config: aepo,
    },
    Composition {
        name: "arpo",
        summary: "GRPO on rollouts that fork where a tool result left entropy (2507.19849)",
        config: arpo,
    },
    Composition {
        name: "cispo",
        summary: "clipped importance weights instead of clipped losses (2506.13585)",
        config: cispo,
    },
    Composition {
        name: "clip_cov",
        summary: "GRPO without the gradient of a few tokens of high covariance (2505.22617)",
        config: clip_cov,
    },
    Composition {
        name: "dapo",
        summary: "GRPO with clip-higher, token mean, dynamic sampling and overlong masking (2503.14476)",
        config: dapo,
    },
    Composition {
        name: "dr_grpo",
        summary: "group mean as baseline, no scale, sums over a constant length (2503.20783)",
        config: dr_grpo,
    },
    Composition { name: "empg", summary: "GRPO with larger advantages for confident turns (2509.09265)", config: empg },
    Composition {
        name: "epo",
        summary: "GRPO with an entropy bonus in a band around its running mean (2509.22576)",
        config: epo,
    },
    Composition {
        name: "gdpo",
        summary: "every reward component normalized by itself, then whitened (2601.05242)",
        config: gdpo,
    },
    Composition { name: "gmpo", summary: "geometric mean of clipped token ratios (2507.20673)", config: gmpo },
    Composition {
        name: "grpo",
        summary: "group-relative advantages, clip-higher, token mean, dynamic sampling",
        config: grpo,
    },
    Composition {
        name: "grpo_roc",
        summary: "GRPO on all kinds of failures and on clean successes (2508.20722)",
        config: grpo_roc,
    },
    Composition {
        name: "grpo_tcr",
        summary: "GRPO with token mean, clip-higher and a soft length penalty (2510.11701)",
        config: grpo_tcr,
    },
    Composition { name: "gspo", summary: "clipped ratios of whole sequences (2507.18071)", config: gspo },
    Composition {
        name: "igpo",
        summary: "turns rewarded by the gain in probability of the gold answer (2510.14967)",
        config: igpo,
    },
    Composition {
        name: "kl_cov",
        summary: "GRPO with a penalty on moving tokens of high covariance (2505.22617)",
        config: kl_cov,
    },
    Composition {
        name: "lite_ppo",
        summary: "group mean, batch deviation, token mean, nothing else (2508.08221)",
        config: lite_ppo,
    },
    Composition {
        name: "loop",
        summary: "leave-one-out baseline, PPO clip, several updates per batch (2502.01600)",
        config: loop_ppo,
    },
    Composition {
        name: "nft",
        summary: "likelihood of right answers and of an implicit negative policy (2505.18116)",
        config: nft,
    },
    Composition { name: "opo", summary: "length-weighted group mean as baseline, on-policy (2505.23585)", config: opo },
    Composition {
        name: "prefix_rft",
        summary: "Dr.GRPO with one rollout begun by a demonstration (2507.01679)",
        config: prefix_rft,
    },
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
    Composition {
        name: "ruscarl",
        summary: "GRPO with hints that differ within a group and vanish (2508.16949)",
        config: ruscarl,
    },
    Composition {
        name: "simpletir",
        summary: "GRPO without void turns and without lopsided groups (2509.02479)",
        config: simpletir,
    },
    Composition {
        name: "stratified_grpo",
        summary: "rollouts against those with as many tool calls (2510.06214)",
        config: stratified_grpo,
    },
];

/// Composition of a config without `algorithm`.
pub const DEFAULT: &str = "grpo";

fn grpo() -> Value {
    json!({
        "rollout": { "strategy": { "kind": "independent" } },
        "filters": [{ "kind": "void_turn" }, { "kind": "zero_variance" }],
        "resample": { "max_draws": 3 },
        "advantage": {
            "kind": "group", "center": "group", "scale": "group", "ddof": 1, "epsilon": 1e-6, "modulations": [],
        },
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
    let terms =
        json!([{ "kind": "clip", "clip_low": 0.2, "clip_high": 0.28 }, { "kind": "entropy_smoothing", "decay": 3.0 }]);
    merge(grpo(), json!({ "loss": { "terms": terms } }))
}

/// NFT: the loss reads pass rates instead of advantages. Groups with only correct or only incorrect rollouts are still
/// dropped.
fn nft() -> Value {
    merge(grpo(), json!({ "loss": { "terms": [{ "kind": "nft" }] } }))
}

fn gmpo() -> Value {
    merge(grpo(), json!({ "loss": { "aggregate": "sequence_mean_token_mean", "terms": [{ "kind": "geo_mean" }] } }))
}

fn gspo() -> Value {
    merge(grpo(), json!({ "loss": { "aggregate": "sequence_mean_token_mean", "terms": [{ "kind": "gspo" }] } }))
}

/// OPO: takes one optimizer step on fresh rollouts. That is on-policy, so no ratio is ever clipped.
fn opo() -> Value {
    merge(grpo(), json!({ "minibatches": 1, "advantage": { "kind": "opo", "modulations": [] } }))
}

/// REINFORCE++: the baseline is taken over the whole batch, so groups without spread stay.
fn reinforce_plus_plus() -> Value {
    let advantage = json!({ "kind": "discounted_return", "gamma": 1.0, "modulations": [{ "kind": "whiten" }] });
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }], "advantage": advantage }))
}

fn reinforce_plus_plus_baseline() -> Value {
    merge(grpo(), json!({ "advantage": { "scale": "none", "modulations": [{ "kind": "whiten" }] } }))
}

/// ARPO with soft attribution: shared tokens are learned once per branch, with the advantage of that branch.
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

/// GRPO-RoC: no filter drops void turns; as in the source, they are handled by the selection among successes.
fn grpo_roc() -> Value {
    let over = json!({
        "rollout": { "strategy": { "kind": "resample_on_correct" } },
        "filters": [{ "kind": "zero_variance" }],
    });
    merge(grpo(), over)
}

/// GRPO-TCR: aggregation and clip are those of `grpo`. The length penalty is a reward, whose limits must fit those of
/// the rollouts.
fn grpo_tcr() -> Value {
    merge(
        grpo(),
        json!({ "rewards": [{ "kind": "answer" }, { "kind": "length" }], "filters": [{ "kind": "zero_variance" }] }),
    )
}

/// Prefix-RFT: the filter on given tokens comes last, so that it measures only the rollouts left by the others.
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

/// SimpleTIR: trajectories with a void turn are masked as a whole, but still count in their group's accuracy and
/// baseline.
fn simpletir() -> Value {
    merge(
        grpo(),
        json!({ "filters": [{ "kind": "void_turn" }, { "kind": "accuracy_band" }, { "kind": "zero_variance" }] }),
    )
}

fn empg() -> Value {
    merge(grpo(), json!({ "advantage": { "modulations": [{ "kind": "entropy_modulated" }] } }))
}

/// GDPO: rewards with equal sums may differ in their components, so such groups are not dropped.
fn gdpo() -> Value {
    merge(grpo(), json!({ "filters": [{ "kind": "void_turn" }], "advantage": { "kind": "gdpo", "modulations": [] } }))
}

/// IGPO: groups with equal outcomes still differ in the information that their turns gained, so they stay.
fn igpo() -> Value {
    merge(
        grpo(),
        json!({ "filters": [{ "kind": "void_turn" }], "advantage": { "kind": "information_gain", "modulations": [] } }),
    )
}

/// Lite PPO: two techniques on the plain PPO loss. There is no clip-higher and no filter, and groups without spread
/// count in the batch's deviation.
fn lite_ppo() -> Value {
    merge(grpo(), json!({ "filters": [], "advantage": { "scale": "batch" }, "loss": { "terms": [plain_clip()] } }))
}

/// LOOP: every rollout enters the update and is used for several optimizer steps, which the clip keeps in bounds.
fn loop_ppo() -> Value {
    let advantage = json!({ "center": "leave_one_out", "scale": "none" });
    let loss = json!({ "terms": [plain_clip()] });
    merge(grpo(), json!({ "epochs": 2, "minibatches": 4, "filters": [], "advantage": advantage, "loss": loss }))
}

fn stratified_grpo() -> Value {
    merge(grpo(), json!({ "advantage": { "kind": "stratified", "modulations": [] } }))
}

/// Returns PPO's clip with equal bounds.
fn plain_clip() -> Value {
    json!({ "kind": "clip", "clip_low": 0.2, "clip_high": 0.2 })
}

/// Documentation of every composition, below its summary.
const DOC: &str = "A named composition of options of `rl`. Other keys of `rl` are merged over it: maps merge \
key by key, lists replace, another `kind` drops the old one's siblings.";

/// Returns all compositions as parts without options; building one returns its options of `rl`.
pub fn algorithms() -> Family<Value> {
    let member =
        |c: &'static Composition| PartKind::plain(c.name, c.summary, DOC, move |()| Ok(Box::new((c.config)())));
    Family::new("algorithms", "algorithm", COMPOSITIONS.iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LearnParts;
    use crate::compose;
    use trainyard_core::Result;

    fn expand(config: Value) -> Result<Value> {
        compose::expand(&LearnParts::standard(), config)
    }

    #[test]
    fn names_are_sorted_and_differ() {
        assert!(COMPOSITIONS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn published_methods_have_their_parts() {
        let of = |name: &str| expand(json!({ "algorithm": name })).unwrap();
        let kinds = |list: &Value| list.as_array().unwrap().iter().map(|p| p["kind"].clone()).collect::<Vec<_>>();
        for (name, kind) in
            [("gdpo", "gdpo"), ("igpo", "information_gain"), ("stratified_grpo", "stratified"), ("lite_ppo", "group")]
        {
            assert_eq!(of(name)["advantage"]["kind"], kind);
        }
        assert_eq!(kinds(&of("empg")["advantage"]["modulations"]), ["entropy_modulated"]);
        let plain = json!({
            "center": "group", "scale": "batch", "kind": "group", "ddof": 1, "epsilon": 1e-6, "modulations": [],
        });
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
    fn method_may_include_rewards() {
        let method = expand(json!({"algorithm": "grpo_tcr"})).unwrap();
        assert_eq!(method["rewards"], json!([{"kind": "answer"}, {"kind": "length"}]));
        let own = expand(json!({"algorithm": "grpo_tcr", "rewards": [{"kind": "answer"}]})).unwrap();
        assert_eq!(own["rewards"], json!([{"kind": "answer"}]), "a list replaces");
    }
}
