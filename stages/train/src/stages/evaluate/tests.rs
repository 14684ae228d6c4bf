use super::*;
use crate::results::read_results;
use crate::testing::{
    assert_declared, context_in, digest_of, environment_options, half_trained, input_model, input_problems, outputs,
    run_stage, sums, tiny_model,
};
use serde_json::json;
use std::path::Path;
use trainyard_core::{ErrorKind, WiredInputs};
use trainyard_lm::ModelFolder;
use trainyard_tables::{Message, Problem, read_trajectories};

fn options() -> Value {
    json!({
        "names": ["untrained", "sft"],
        "environment": environment_options(),
        "samples": 4,
        "sampled": ["sft"],
        "sampling": {"max_turn_tokens": 12, "max_episode_tokens": 96},
        "pass_at": [1, 4],
        "keep_rollouts": 5,
    })
}

/// Returns a model with a scoring head of zeros: all scores are one half.
fn flat_prm() -> ModelFolder {
    let base = half_trained();
    let decoder =
        trainyard_lm::Decoder::from_weights(&base.config, base.weights.clone()).unwrap().into_classifier(1).unwrap();
    let mut model = base.with_weights(decoder.weights().unwrap());
    model.config = decoder.config().clone();
    model
}

/// Returns six problems of level 1 and six of level 2.
fn problems() -> Vec<Problem> {
    sums(12, 3, 41).into_iter().enumerate().map(|(i, p)| Problem { level: 1 + i as u32 % 2, ..p }).collect()
}

fn context(folder: &Path, cpus: usize) -> StageContext {
    context_on(&problems(), folder, cpus)
}

fn context_on(problems: &[Problem], folder: &Path, cpus: usize) -> StageContext {
    let mut context = context_in(folder, cpus, None);
    input_model(&mut context, folder, "models", &tiny_model(32, 2, 1));
    input_model(&mut context, folder, "models", half_trained());
    input_model(&mut context, folder, "prm", &flat_prm());
    input_problems(&mut context, folder, "problems", problems);
    outputs(&mut context, folder, &["report", "results", "trajectories"]);
    context
}

#[test]
fn every_number_follows_from_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = context(folder.path(), 2);
    run_stage::<Evaluate>(options(), &mut first).unwrap();
    let rows = read_results(&first.output_parquet("results").unwrap()).unwrap();
    assert_eq!(rows.len(), 12 + 12 + 48);
    let m = &first.metrics;
    let greedy: Vec<bool> =
        rows.iter().filter(|r| r.model == "sft" && r.sample < 0).map(|r| r.correct.unwrap()).collect();
    let accuracy = greedy.iter().filter(|c| **c).count() as f64 / 12.0;
    assert!((m["accuracy_sft"] - accuracy).abs() < 1e-12 && m["accuracy"] == m["accuracy_sft"]);
    assert!((m["difference_sft_untrained"] - (m["accuracy_sft"] - m["accuracy_untrained"])).abs() < 1e-12);
    assert!((m["avg_at_4_sft"] - m["pass_at_1_sft"]).abs() < 1e-12, "avg@n is pass@1");
    assert!(m["pass_at_4_sft"] >= m["avg_at_4_sft"] && m["pass_at_4_sft"] > 0.0);
    assert!((m["best_of_4_last_sft"] - m["avg_at_4_sft"]).abs() < 1e-12, "equal scores choose at random");
    assert!(m["best_of_4_last_over_avg_sft"].abs() < 1e-12 && !m.contains_key("training_twins"));
    assert!((m["likeliest_of_4_over_avg_sft"] - (m["likeliest_of_4_sft"] - m["avg_at_4_sft"])).abs() < 1e-12);
    assert!(!m.contains_key("pass_at_8_sft") && !m.contains_key("avg_at_4_untrained"));
    assert_eq!((m["problems"], m["infrastructure_failures"]), (12.0, 0.0));
    assert_declared::<Evaluate>(&options(), &first);
    for name in [
        "accuracy",
        "avg_at_4",
        "pass_at_4",
        "maj_at_4",
        "weighted_maj_at_4_min",
        "best_of_4_min",
        "tool_calls",
        "tool_errors",
        "tokens",
    ] {
        let of = |suffix: &str| m[&format!("{name}_sft{suffix}")];
        assert!((of("_mean_of_levels") - (of("_level_1") + of("_level_2")) / 2.0).abs() < 1e-12, "{name}");
        assert!((of("_mean_of_levels") - of("")).abs() < 1e-9, "{name}: the levels have equal shares");
    }
    assert!(m.contains_key("tool_calls_untrained_level_2") && !m.contains_key("avg_at_4_untrained_level_2"));
    assert!(
        rows.iter().all(|r| r.reward == r.correct.map(|right| f64::from(u8::from(right)))),
        "the reward is the outcome's"
    );
    let kept = read_trajectories(&first.output_parquet("trajectories").unwrap()).unwrap();
    assert!(kept.len() == 10 && kept.iter().all(|t| t.step_scores.as_ref().unwrap().iter().all(|s| *s == 0.5)));
    let named: Vec<&String> = rows.iter().filter_map(|r| r.rollout.as_ref()).collect();
    assert_eq!(named, kept.iter().map(|t| &t.id).collect::<Vec<_>>(), "a row names its rollout if it is kept");

    let mut second = context(tempfile::tempdir().unwrap().keep().as_path(), 1);
    run_stage::<Evaluate>(options(), &mut second).unwrap();
    for port in ["report", "results", "trajectories"] {
        assert_eq!(
            digest_of(first.output(port).unwrap()),
            digest_of(second.output(port).unwrap()),
            "threads change nothing in `{port}`"
        );
    }
}

#[test]
fn rows_name_their_rollouts_and_subsets_are_sampled_alike() {
    let run = |limit: Option<usize>| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context(folder.path(), 2);
        let mut o = options();
        o["keep_rollouts"] = Value::Null;
        o["problems_limit"] = json!(limit);
        run_stage::<Evaluate>(o, &mut context).unwrap();
        let rows = read_results(&context.output_parquet("results").unwrap()).unwrap();
        (rows, read_trajectories(&context.output_parquet("trajectories").unwrap()).unwrap())
    };
    let (rows, rollouts) = run(None);
    assert_eq!((rows.len(), rollouts.len()), (72, 72));
    for (row, rollout) in rows.iter().zip(&rollouts) {
        assert_eq!(
            (row.rollout.as_ref(), &row.problem_id, &row.answer),
            (Some(&rollout.id), &rollout.problem_id, &rollout.answer)
        );
    }
    let (fewer, _) = run(Some(4));
    assert_eq!(fewer.len(), 24);
    assert!(fewer.iter().all(|row| rows.contains(row)), "the problems that are left have the samples that they had");
}

#[test]
fn training_problems_are_compared_with_the_tested_ones() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1);
    let unlike = Problem { messages: vec![Message::new("user", "How much is two and two?")], ..problems()[0].clone() };
    input_problems(&mut context, folder.path(), "training", &[unlike]);
    run_stage::<Evaluate>(
        json!({"names": ["a", "b"], "environment": environment_options(), "samples": 0}),
        &mut context,
    )
    .unwrap();
    let m = &context.metrics;
    assert_eq!(m["training_twins"], 0.0);
    let equal = problems().iter().filter(|p| p.canonical == problems()[0].canonical).count();
    assert!((m["training_repeats"] - equal as f64 / 12.0).abs() < 1e-12);
    assert_eq!(m["accuracy_without_twins_b"], m["accuracy_b"]);
    assert!((m["difference_without_twins_b_a"] - m["difference_b_a"]).abs() < 1e-12);
}

#[test]
fn problems_of_another_environment_are_refused_before_the_first_episode() {
    let folder = tempfile::tempdir().unwrap();
    let foreign: Vec<Problem> =
        problems().into_iter().map(|p| Problem { environment: "countdown".into(), ..p }).collect();
    let e = run_stage::<Evaluate>(options(), &mut context_on(&foreign, folder.path(), 1)).unwrap_err();
    assert!(e.kind == ErrorKind::Invalid && e.message.contains("made for `countdown`"), "{e}");
}

#[test]
fn a_repeated_problem_is_refused_before_the_first_episode() {
    let folder = tempfile::tempdir().unwrap();
    let mut repeated = problems();
    repeated.push(repeated[2].clone());
    let e = run_stage::<Evaluate>(options(), &mut context_on(&repeated, folder.path(), 1)).unwrap_err();
    assert!(e.kind == ErrorKind::Data && e.message.contains("`sum-2` twice, in rows 3 and 13"), "{e}");
}

#[test]
fn contradictory_options_are_rejected_at_check() {
    let stage = trainyard_api::erase(Evaluate::default());
    let places = |options: Value| stage.validate(&options).into_iter().map(|p| p.pointer).collect::<Vec<_>>();
    assert_eq!(places(json!({"pass_at": [0, 4, 9]})), ["/pass_at/0", "/pass_at/2"]);
    assert_eq!(places(json!({"samples": 0, "pass_at": [1]})), ["/pass_at/0"]);
    assert_eq!(places(json!({"samples": 5})), [""; 0]);
    let wired = |options: Value, models: usize| {
        let inputs = WiredInputs::from([("models".to_string(), models), ("problems".to_string(), 1)]);
        stage.prepare(&options).unwrap().problems_with(&inputs).into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    assert_eq!(wired(json!({"sampled": ["model_2", "sft"]}), 2), ["/sampled/1"]);
    assert_eq!(wired(json!({"sampled": ["model_3"]}), 2), ["/sampled/0"]);
    assert_eq!(wired(json!({"names": ["base", "sft"], "sampled": ["sft"]}), 2), [""; 0]);
    assert_eq!(wired(json!({"names": ["base", "sft"]}), 3), ["/names"]);
    assert_eq!(wired(json!({}), 0), ["/models"]);
    let ks = |options: Value| serde_json::from_value::<EvaluateConfig>(options).unwrap().ks();
    assert_eq!(
        (ks(json!({})), ks(json!({"samples": 5})), ks(json!({"samples": 0}))),
        (vec![2, 4, 8], vec![2, 4], vec![])
    );
    assert_eq!(ks(json!({"pass_at": [8, 2, 2]})), [2, 8]);
}

#[test]
fn names_and_models_must_match() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1);
    let e =
        run_stage::<Evaluate>(json!({"names": ["a", "b", "c"], "environment": environment_options()}), &mut context)
            .unwrap_err();
    assert!(e.message.contains("2 models, but 3 names"), "{e}");
    let stage = trainyard_api::erase(Evaluate::default());
    let pointers: Vec<String> = stage
        .validate(&json!({"names": ["a b", "x", "x"], "sampled": ["y"], "sampling": {"temperature": 0}}))
        .into_iter()
        .map(|p| p.pointer)
        .collect();
    assert_eq!(pointers, ["/names/0", "/names", "/sampled/0", "/sampling/temperature"]);
}

#[test]
fn a_killed_evaluation_ends_in_the_same_bytes() {
    let mut options = options();
    // More problems than one call runs, and a resume point after every call.
    options["checkpoint_every"] = json!(1);
    options["keep_rollouts"] = json!(null);
    options["samples"] = json!(2);
    options["pass_at"] = json!([2]);
    let problems: Vec<Problem> = sums(150, 3, 41);
    let run = |folder: &Path, cancel_after: Option<usize>| {
        let mut context = context_on(&problems, folder, 2);
        let checkpoints = context_in(folder, 2, cancel_after);
        (context.checkpoints, context.cancel) = (checkpoints.checkpoints, checkpoints.cancel);
        run_stage::<Evaluate>(options.clone(), &mut context).map(|()| context)
    };
    let whole = tempfile::tempdir().unwrap();
    let straight = run(whole.path(), None).unwrap();
    for kills in [1, 3] {
        let killed = tempfile::tempdir().unwrap();
        assert_eq!(run(killed.path(), Some(kills)).err().unwrap().kind, ErrorKind::Cancelled);
        let second = run(killed.path(), None).unwrap();
        assert_eq!(straight.metrics, second.metrics);
        for port in ["report", "results", "trajectories"] {
            assert_eq!(
                digest_of(straight.output(port).unwrap()),
                digest_of(second.output(port).unwrap()),
                "`{port}` after {kills} resume points"
            );
        }
    }
}
