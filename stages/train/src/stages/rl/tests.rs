use super::*;
use crate::curves::Curves;
use crate::testing::{context_in, digest_of, environment_options, half_trained, input_model, input_problems, outputs, run_stage, sums};
use serde_json::json;
use std::path::Path;
use trainyard_api::report::Report;
use trainyard_api::stage::erase;
use trainyard_core::{Digest, ErrorKind};

fn options(steps: u64) -> Value {
    json!({
        "environment": environment_options(),
        "rollout": {"group_size": 8, "max_turn_tokens": 12, "max_episode_tokens": 96},
        "steps": steps,
        "problems_per_step": 8,
        "validation": {"every": 2, "problems": 9},
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
    // Few large steps on small batches wander; this is many small ones on larger batches. All levels from the start: a level that
    // opens midway would lower the mean.
    let mut calm = options(40);
    calm["curriculum"] = json!("uniform");
    calm["problems_per_step"] = json!(16);
    calm["minibatches"] = json!(1);
    calm["optimizer"] = json!({"learning_rate": 1e-3});
    calm["checkpoint_every"] = json!(0);
    run_stage::<Rl>(calm, &mut context).unwrap();
    let report = Report::read(context.output("report").unwrap()).unwrap();
    let series = |name: &str| {
        let all = report.curves.iter().flat_map(|c| &c.series);
        all.filter(|s| s.name == name).map(|s| s.points.iter().map(|p| p[1]).collect::<Vec<f64>>()).next().unwrap()
    };
    let reward = series("reward");
    let (early, late) = (reward[..5].iter().sum::<f64>() / 5.0, reward[35..].iter().sum::<f64>() / 5.0);
    assert!(late > early + 0.10, "mean reward went from {early} to {late}");
    assert!(context.metrics["validation_accuracy"] >= context.metrics["validation_accuracy_initial"]);
    for name in ["kl", "entropy", "clip_fraction", "grad_norm", "tool_calls", "tokens", "pass_rate_level_1", "reward_answer"] {
        assert!(context.metrics[name].is_finite(), "{name}");
    }
    let declared = Rl::METRICS;
    for name in context.metrics.keys() {
        let known = |d: &&str| d.strip_suffix('*').map_or(*d == name, |p| name.starts_with(p));
        assert!(declared.iter().any(known) || name == "turns", "metric `{name}` is not declared");
    }
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
    assert!(second.metrics["curriculum_level"].is_finite());
}

#[test]
fn compositions_that_contradict_the_stage_are_refused_with_the_reason() {
    let stage = erase::<Rl>();
    let problems = |options: Value| stage.validate(&options);
    let lone = problems(json!({"environment": environment_options(), "rollout": {"group_size": 1}}));
    assert!(lone.iter().any(|p| p.pointer == "/advantage" && p.message.contains("groups")), "{lone:?}");
    assert!(lone.iter().any(|p| p.pointer.starts_with("/filters/")));
    assert!(problems(json!({"algorithm": "gpro"}))[0].help.as_ref().unwrap().contains("grpo"));
    assert!(problems(json!({"filters": [{"kind": "void"}]}))[0].message.contains("filters[0]"));
    assert!(problems(json!({"rollout": {"temperature": 0}})).iter().any(|p| p.pointer == "/rollout/temperature"));
    assert!(problems(json!({"stepz": 3}))[0].message.contains("stepz"));
    assert_eq!(problems(json!({})), []);
}

#[test]
fn the_schema_names_parts_and_options() {
    let schema = Rl::schema();
    let text = schema.to_string();
    for word in ["zero_variance", "clip_high", "promote_at", "leave_one_out", "whiten", "dr_grpo", "word-problems", "truncated"] {
        assert!(text.contains(word), "{word}");
    }
    assert!(schema.get("required").is_none());
}

#[test]
fn curves_are_part_of_the_state() {
    let state = run::State { step: 3, best: Some((2, 0.1 + 0.2)), curves: Curves::default(), ..run::State::default() };
    let copy: run::State = serde_json::from_str(&serde_json::to_string(&state).unwrap()).unwrap();
    assert_eq!(copy.best, state.best);
}
