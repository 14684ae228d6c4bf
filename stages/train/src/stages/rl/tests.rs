use super::*;
use crate::testing::{
    assert_declared, context_in, demonstrations, digest_of, environment_options, half_trained, input_model,
    input_problems, input_trajectories, outputs, run_stage, sums,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use trainyard_api::curves::LearningCurves;
use trainyard_api::report::StageReport;
use trainyard_api::{Stage, erase};
use trainyard_core::{Digest, ErrorKind};
use trainyard_learn::merge::merge;
use trainyard_tables::Trajectory;

mod refused;

fn options(steps: u64) -> Value {
    json!({
        "environment": environment_options(),
        "rollout": {"group_size": 8, "max_turn_tokens": 12, "max_episode_tokens": 96},
        "steps": steps,
        "problems_per_step": 8,
        "validate_every": 2,
        "validate_problems": 9,
        "checkpoint_every": 2,
        "keep_rollouts": 100,
        "optimizer": {"learning_rate": 2e-3},
        "resample": {"max_draws": 2},
    })
}

fn context(folder: &Path, cpus: usize, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, cpus, cancel_after);
    input_model(&mut context, folder, "model", half_trained());
    input_problems(&mut context, folder, "problems", &sums(40, 3, 21));
    input_problems(&mut context, folder, "validation", &sums(20, 3, 22));
    outputs(&mut context, folder, &["model", "trajectories", "report"]);
    context
}

fn digests(context: &StageContext) -> Vec<Digest> {
    ["model", "trajectories", "report"].iter().map(|p| digest_of(context.output(p).unwrap())).collect()
}

#[test]
fn reward_rises_and_the_best_weights_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 2, None);
    // A few large steps on small batches are noisy, so this test takes many small steps on larger batches. It uses all
    // levels from the start, because a level that opens midway would lower the mean.
    let mut calm = options(40);
    calm["curriculum"] = json!("uniform");
    // Answers count as they are, so that the half-trained model begins with few right ones.
    calm["environment"]["extract"] = json!("none");
    calm["problems_per_step"] = json!(16);
    calm["minibatches"] = json!(1);
    calm["optimizer"] = json!({"learning_rate": 1e-3});
    calm["checkpoint_every"] = json!(0);
    run_stage::<Rl>(calm.clone(), &mut context).unwrap();
    let report = StageReport::read(context.output("report").unwrap()).unwrap();
    let series = |name: &str| {
        let all = report.curves.iter().flat_map(|c| &c.series);
        all.filter(|s| s.name == name).map(|s| s.points.iter().map(|p| p[1]).collect::<Vec<f64>>()).next().unwrap()
    };
    let reward = series("reward");
    let (early, late) = (reward[..5].iter().sum::<f64>() / 5.0, reward[35..].iter().sum::<f64>() / 5.0);
    assert!(late > early + 0.10, "mean reward went from {early} to {late}");
    assert!(context.metrics["validation_accuracy"] >= context.metrics["validation_accuracy_initial"]);
    for name in
        ["kl", "entropy", "clip.fraction", "grad_norm", "tool_calls", "tokens", "pass_rate_level_1", "rewards.answer"]
    {
        assert!(context.metrics[name].is_finite(), "{name}");
    }
    assert_declared::<Rl>(&calm, &context);
}

#[test]
fn a_killed_run_ends_in_the_same_bytes_and_threads_do_not_matter() {
    let whole = tempfile::tempdir().unwrap();
    let mut uninterrupted = context(whole.path(), 1, None);
    run_stage::<Rl>(options(6), &mut uninterrupted).unwrap();
    let killed = tempfile::tempdir().unwrap();
    let mut first = context(killed.path(), 2, Some(1));
    assert_eq!(run_stage::<Rl>(options(6), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = context(killed.path(), 2, None);
    run_stage::<Rl>(options(6), &mut second).unwrap();
    assert_eq!(digests(&uninterrupted), digests(&second));
    assert_eq!(uninterrupted.metrics, second.metrics);
    assert!(second.metrics["levels.unlocked"].is_finite());
}

/// Runs these parts briefly on the half-trained model, with demonstrations of its problems.
fn short(folder: &Path, options: Value, cpus: usize, cancel_after: Option<usize>) -> Result<StageContext> {
    let mut context = context(folder, cpus, cancel_after);
    input_trajectories(&mut context, folder, "demonstrations", &demonstrations(40, 3, 21));
    run_stage::<Rl>(options, &mut context).map(|()| context)
}
fn with(mut options: Value, over: Value) -> Value {
    options = merge(options, over);
    options["validate_every"] = json!(0);
    options["validate_problems"] = json!(1);
    options
}

#[test]
fn every_composition_trains() {
    for name in trainyard_learn::LearnParts::standard().algorithms.names() {
        let folder = tempfile::tempdir().unwrap();
        let o = with(options(3), json!({"algorithm": name, "checkpoint_every": 0, "problems_per_step": 6}));
        let context = short(folder.path(), o.clone(), 2, None).unwrap_or_else(|e| panic!("{}: {e}", name));
        assert!(context.metrics["empty_steps"] < 3.0, "{}", name);
        assert_declared::<Rl>(&o, &context);
    }
}

#[test]
fn two_terms_of_one_kind_report_apart() {
    let folder = tempfile::tempdir().unwrap();
    let (tight, wide) = (json!({"clip_high": 0.0, "clip_low": 0.0}), json!({"clip_high": 100.0, "clip_low": 0.99}));
    let terms = [tight, wide].map(|bounds| merge(json!({"kind": "clip"}), bounds));
    let over = json!({
        "filters": [], "loss": {"terms": terms}, "epochs": 2, "checkpoint_every": 0, "rewards": ["answer", "answer"],
    });
    let o = with(options(2), over);
    let context = short(folder.path(), o.clone(), 2, None).unwrap();
    let m = &context.metrics;
    assert!(m["clip.fraction"] > 0.0 && m["clip_2.fraction"] == 0.0, "{m:?}");
    assert_eq!(m["rewards.answer"], m["rewards.answer_2"]);
    assert_declared::<Rl>(&o, &context);
}

#[test]
fn names_of_different_parts_do_not_collide() {
    let declared = Rl::default().metrics();
    let mut names: Vec<&str> = declared.metrics.iter().map(|m| m.name.as_str()).collect();
    names.sort_unstable();
    let twice: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

#[test]
fn parts_with_state_resume_exactly() {
    let parts = [
        json!({"algorithm": "arpo"}),
        json!({
            "algorithm": "epo", "replay": {"kind": "self_imitation", "warmup": 2},
            "rewards": [{"kind": "tool_efficiency", "form": "optimal"}],
        }),
        json!({"algorithm": "prefix_rft"}),
        json!({
            "curriculum": {"kind": "learnable"}, "advantage": {"kind": "gae"}, "filters": [],
            "loss": {"terms": [{"kind": "clip"}, {"kind": "value"}]},
        }),
    ];
    for over in parts {
        let whole = tempfile::tempdir().unwrap();
        let uninterrupted = short(whole.path(), with(options(4), over.clone()), 1, None).unwrap();
        let killed = tempfile::tempdir().unwrap();
        assert_eq!(
            short(killed.path(), with(options(4), over.clone()), 2, Some(1)).err().unwrap().kind,
            ErrorKind::Cancelled
        );
        let second = short(killed.path(), with(options(4), over.clone()), 2, None).unwrap();
        assert_eq!(digests(&uninterrupted), digests(&second), "{over}");
        assert_eq!(uninterrupted.metrics, second.metrics);
    }
}

fn rollouts_of(context: &StageContext) -> Vec<Trajectory> {
    read_trajectories(&context.output("trajectories").unwrap().join("data.parquet")).unwrap()
}

#[test]
fn a_rollout_names_the_demonstration_that_it_begins_with() {
    let folder = tempfile::tempdir().unwrap();
    let over = json!({"algorithm": "prefix_rft", "filters": [], "checkpoint_every": 0});
    let rollouts = rollouts_of(&short(folder.path(), with(options(1), over), 2, None).unwrap());
    assert!(rollouts.iter().filter(|row| row.sample == 0).count() >= 8, "one of every group");
    for row in &rollouts {
        let problem = row.problem_id.clone();
        let demonstration = format!("demo-{problem}");
        let made_from = if row.sample == 0 { vec![problem, demonstration] } else { vec![problem] };
        assert_eq!(row.parents, made_from, "{}", row.id);
    }
}

#[test]
fn passes_over_the_problems_span_steps() {
    let folder = tempfile::tempdir().unwrap();
    let over = json!({
        "curriculum": "uniform", "filters": [], "rollout": {"group_size": 2}, "checkpoint_every": 0,
        "keep_rollouts": 1000,
    });
    let context = short(folder.path(), with(options(5), over), 2, None).unwrap();
    let problems: BTreeSet<String> = rollouts_of(&context).into_iter().map(|t| t.problem_id).collect();
    assert_eq!(problems.len(), 40, "five steps of eight problems are one pass over forty");
}

#[test]
fn a_problem_that_comes_twice_in_a_draw_is_sampled_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context_in(folder.path(), 2, None);
    input_model(&mut context, folder.path(), "model", half_trained());
    input_problems(&mut context, folder.path(), "problems", &sums(1, 3, 21));
    outputs(&mut context, folder.path(), &["model", "trajectories", "report"]);
    let over = json!({"curriculum": "uniform", "filters": [], "problems_per_step": 2, "checkpoint_every": 0});
    run_stage::<Rl>(with(options(1), over), &mut context).unwrap();
    let rollouts = rollouts_of(&context);
    assert_eq!(rollouts.iter().map(|t| &t.id).collect::<BTreeSet<_>>().len(), 16, "every rollout has an id of its own");
    let tokens = |group: u32| rollouts.iter().filter(|t| t.group == group).map(|t| &t.token_ids).collect::<Vec<_>>();
    assert_ne!(tokens(0), tokens(1));
}

#[test]
fn two_problems_of_one_id_are_refused() {
    for port in ["problems", "validation"] {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context_in(folder.path(), 1, None);
        input_model(&mut context, folder.path(), "model", half_trained());
        for name in ["problems", "validation"] {
            let mut rows = sums(4, 3, 21);
            rows.extend((name == port).then(|| rows[1].clone()));
            input_problems(&mut context, folder.path(), name, &rows);
        }
        outputs(&mut context, folder.path(), &["model", "trajectories", "report"]);
        let e = run_stage::<Rl>(options(1), &mut context).unwrap_err();
        assert!(
            e.kind == ErrorKind::Data && e.message.contains(&format!("`{port}` holds problem `sum-1` twice")),
            "{e}"
        );
    }
}

#[test]
fn groups_dropped_by_reward_spread_are_not_drawn_again() {
    let folder = tempfile::tempdir().unwrap();
    let over = json!({
        "filters": [{"kind": "reward_spread", "share": 0.5}], "checkpoint_every": 0, "resample": {"max_draws": 3},
    });
    let context = short(folder.path(), with(options(1), over), 2, None).unwrap();
    assert_eq!((context.metrics["sampled_rollouts"], context.metrics["kept_groups_share"]), (64.0, 0.5));
}

#[test]
fn rows_have_their_update_and_filter_verdicts() {
    let folder = tempfile::tempdir().unwrap();
    let filters =
        json!(["void_turn", {"kind": "reward_spread", "share": 0.5}, {"kind": "reward_spread", "share": 0.5}]);
    let over = json!({"filters": filters, "checkpoint_every": 0, "resample": {"max_draws": 1}, "keep_rollouts": 1000});
    let context = short(folder.path(), with(options(2), over), 2, None).unwrap();
    let rows = rollouts_of(&context);
    assert_eq!(rows.iter().map(|t| t.update).collect::<BTreeSet<_>>(), [Some(0), Some(1)].into());
    assert!(rows.iter().all(|t| t.id.starts_with(&format!("rl/{}/", t.update.unwrap()))));
    let rules: BTreeSet<&str> = rows.iter().flat_map(|t| &t.verdicts).map(|v| v.rule.as_str()).collect();
    assert!(rules.is_subset(&["reward_spread", "reward_spread_2", "void_turn"].into()), "{rules:?}");
    assert!(rules.contains("reward_spread") && rules.contains("reward_spread_2"), "{rules:?}");
    let learned = rows.iter().filter(|t| t.advantages.is_some()).count();
    assert!(learned > 0 && learned < rows.len(), "{learned} of {}", rows.len());
    assert!(
        rows.iter().all(|t| t.advantages.is_some() || t.verdicts.iter().any(|v| !v.keep)),
        "or a rule says why not"
    );
}

#[test]
fn replayed_rollouts_have_targets_for_the_critic() {
    let folder = tempfile::tempdir().unwrap();
    let over = json!({
        "advantage": {"kind": "gae"}, "filters": [],
        "loss": {"terms": [{"kind": "clip"}, {"kind": "value"}]}, "minibatches": 1,
        "replay": {"kind": "self_imitation", "warmup": 1}, "checkpoint_every": 0,
    });
    let context = short(folder.path(), with(options(2), over), 2, None).unwrap();
    assert!(context.metrics["self_imitation.replayed"] > 0.0 && context.metrics["value.loss"].is_finite());
}

#[test]
fn critic_learns_expected_rewards() {
    let run = |steps: u64| {
        let folder = tempfile::tempdir().unwrap();
        let ppo = json!({
            "advantage": {"kind": "gae", "lambda": 0.95}, "filters": [], "curriculum": "uniform", "checkpoint_every": 0,
            "loss": {"terms": [{"kind": "clip"}, {"kind": "value", "weight": 1.0}]},
            "critic": {"optimizer": {"learning_rate": 3e-3}},
            "optimizer": {"learning_rate": 1e-9}, "problems_per_step": 16,
        });
        short(folder.path(), with(options(steps), ppo), 2, None).unwrap().metrics
    };
    // A tenth of the rollouts passes, so the best constant would reach nine tenths of the first loss.
    let (first, later) = (run(1), run(60));
    assert!(
        first["value.loss"] > 0.0 && later["value.loss"] < 0.88 * first["value.loss"],
        "{} then {}",
        first["value.loss"],
        later["value.loss"]
    );
    assert!(later["advantage_in_rollout"] > 0.0, "tokens of one rollout get credit of their own");
}

#[test]
fn asynchronous_rollouts_keep_their_bound_and_repeat_from_their_record() {
    let asynchronous = json!({
        "rollout": {"asynchronous": {"max_staleness": 1}}, "loss": {"correction": {"kind": "truncated"}},
        "keep_rollouts": 100_000, "checkpoint_every": 0,
    });
    let first = tempfile::tempdir().unwrap();
    let made = short(first.path(), with(options(6), asynchronous.clone()), 2, None).unwrap();
    assert_eq!(made.metrics["optimizer_steps"], 2.0);
    assert!(made.metrics["staleness"] <= 1.0);
    let record = read_trajectories(&made.output("trajectories").unwrap().join("data.parquet")).unwrap();
    let step = |t: &Trajectory| t.update.unwrap();
    assert!(record.iter().all(|t| t.id.starts_with(&format!("rl/{}/{}/", step(t), t.group))));
    for t in &record {
        let oldest =
            t.weights_version.as_ref().unwrap().iter().zip(&t.loss_mask).filter(|(_, m)| **m).map(|(v, _)| *v).min();
        assert!(oldest.is_none_or(|v| step(t) - v <= 1), "{}", t.id);
    }
    assert!(
        record.iter().any(|t| t.weights_version.as_ref().unwrap().iter().any(|v| *v < step(t))),
        "some tokens are older than their update"
    );
    let again = tempfile::tempdir().unwrap();
    let mut context = context(again.path(), 1, None);
    input_trajectories(&mut context, again.path(), "record", &record);
    run_stage::<Rl>(with(options(6), asynchronous), &mut context).unwrap();
    assert_eq!(digest_of(context.output("model").unwrap()), digest_of(made.output("model").unwrap()), "the same bits");
    for (repeated, recorded) in rollouts_of(&context).iter().zip(&record) {
        assert_eq!(repeated, recorded);
    }
    assert_eq!(digest_of(context.output("trajectories").unwrap()), digest_of(made.output("trajectories").unwrap()));
}

#[test]
fn killed_asynchronous_run_is_cancelled_and_resumes() {
    let folder = tempfile::tempdir().unwrap();
    let asynchronous = json!({"asynchronous": {"max_staleness": 1}});
    let over = json!({"rollout": asynchronous, "loss": {"correction": {"kind": "truncated"}}, "checkpoint_every": 1});
    assert_eq!(
        short(folder.path(), with(options(4), over.clone()), 2, Some(1)).err().unwrap().kind,
        ErrorKind::Cancelled
    );
    assert_eq!(short(folder.path(), with(options(4), over), 2, None).unwrap().metrics["steps"], 4.0);
}

#[test]
fn a_record_that_is_cut_or_not_asynchronous_is_refused() {
    let over = json!({
        "rollout": {"asynchronous": {"max_staleness": 1}, "strategy": {"kind": "resample_on_correct"}},
        "loss": {"correction": {"kind": "truncated"}},
        "keep_rollouts": 100_000, "checkpoint_every": 0,
    });
    let folder = tempfile::tempdir().unwrap();
    let record = rollouts_of(&short(folder.path(), with(options(1), over.clone()), 2, None).unwrap());
    let refused = |record: &[Trajectory], options: Value| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context(folder.path(), 1, None);
        input_trajectories(&mut context, folder.path(), "record", record);
        run_stage::<Rl>(options, &mut context).unwrap_err().message
    };
    // Sixteen rollouts are sampled for a group of eight, so fifteen are incomplete.
    assert!(refused(&record[1..], with(options(1), over)).contains("update 0"));
    assert!(refused(&record, with(options(1), json!({}))).contains("rollout.asynchronous"));
}
