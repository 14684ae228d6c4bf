use super::*;
use crate::results::read_results;
use crate::testing::{
    context_in, digest_of, environment_options, half_trained, input_model, input_problems, outputs, run_stage, sums, tiny_model,
};
use serde_json::json;
use std::path::Path;
use trainyard_lm::ModelFolder;
use trainyard_tables::read_trajectories;

fn options() -> Value {
    json!({
        "names": ["untrained", "sft"],
        "environment": environment_options(),
        "samples": 4,
        "sampled": ["sft"],
        "sampling": {"max_turn_tokens": 12, "max_episode_tokens": 96},
        "pass_at": [1, 4, 8],
        "keep_rollouts": 5,
    })
}

/// A scoring head of zeros: all scores are one half.
fn flat_prm() -> ModelFolder {
    let base = half_trained();
    let decoder = trainyard_lm::Decoder::from_weights(&base.config, base.weights.clone()).unwrap().into_classifier(1).unwrap();
    let mut model = base.with_weights(decoder.weights().unwrap());
    model.config = decoder.config().clone();
    model
}

fn context(folder: &Path, cpus: usize) -> StageContext {
    let mut context = context_in(folder, cpus, None);
    input_model(&mut context, folder, "models", &tiny_model(32, 2, 1));
    input_model(&mut context, folder, "models", half_trained());
    input_model(&mut context, folder, "prm", &flat_prm());
    input_problems(&mut context, folder, "problems", &sums(12, 3, 41));
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
    let greedy: Vec<bool> = rows.iter().filter(|r| r.model == "sft" && r.sample < 0).map(|r| r.correct.unwrap()).collect();
    let accuracy = greedy.iter().filter(|c| **c).count() as f64 / 12.0;
    assert!((m["accuracy_sft"] - accuracy).abs() < 1e-12 && m["accuracy"] == m["accuracy_sft"]);
    assert!((m["difference_sft_untrained"] - (m["accuracy_sft"] - m["accuracy_untrained"])).abs() < 1e-12);
    assert!((m["avg_at_4_sft"] - m["pass_at_1_sft"]).abs() < 1e-12, "avg@n is pass@1");
    assert!(m["pass_at_4_sft"] >= m["avg_at_4_sft"] && m["pass_at_4_sft"] > 0.0);
    assert!((m["best_of_4_last_sft"] - m["avg_at_4_sft"]).abs() < 1e-12, "equal scores choose at random");
    assert!(!m.contains_key("pass_at_8_sft") && !m.contains_key("avg_at_4_untrained"));
    assert_eq!((m["problems"], m["infrastructure_failures"]), (12.0, 0.0));
    for name in m.keys() {
        let known = |d: &&str| d.strip_suffix('*').map_or(*d == name, |p| name.starts_with(p));
        assert!(Evaluate::METRICS.iter().any(known), "metric `{name}` is not declared");
    }
    let kept = read_trajectories(&first.output_parquet("trajectories").unwrap()).unwrap();
    assert!(kept.len() == 10 && kept.iter().all(|t| t.step_scores.as_ref().unwrap().iter().all(|s| *s == 0.5)));

    let mut second = context(tempfile::tempdir().unwrap().keep().as_path(), 1);
    run_stage::<Evaluate>(options(), &mut second).unwrap();
    for port in ["report", "results", "trajectories"] {
        assert_eq!(digest_of(first.output(port).unwrap()), digest_of(second.output(port).unwrap()), "threads change nothing in `{port}`");
    }
}

#[test]
fn names_and_models_must_match() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1);
    let e = run_stage::<Evaluate>(json!({"names": ["a", "b", "c"], "environment": environment_options()}), &mut context).unwrap_err();
    assert!(e.message.contains("2 models, but 3 names"), "{e}");
    let stage = trainyard_api::stage::erase::<Evaluate>();
    let pointers: Vec<String> = stage
        .validate(&json!({"names": ["a b", "x", "x"], "sampled": ["y"], "sampling": {"temperature": 0}}))
        .into_iter()
        .map(|p| p.pointer)
        .collect();
    assert_eq!(pointers, ["/names/0", "/names", "/sampled/0", "/sampling/temperature"]);
}
