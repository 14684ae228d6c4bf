use super::*;
use crate::testing::{
    assert_declared, context_in, demonstrations, digest_of, environment_options, half_trained, input, input_model,
    input_problems, input_trajectories, outputs, run_stage, sums, tiny_model,
};
use serde_json::{Value, json};
use std::path::Path;
use trainyard_api::PreparedOptions as _;
use trainyard_core::{ArtifactKind, Digest, ErrorKind};
use trainyard_lm::ModelFolder;
use trainyard_lm::examples::{expect_same_text, tokenize};
use trainyard_lm::stages::tokenize::Tokenize;
use trainyard_tables::{Problem, Trajectory, rows_as_json};

fn context(folder: &Path, cpus: usize, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, cpus, cancel_after);
    input_model(&mut context, folder, "model", &tiny_model(16, 1, 1));
    input_trajectories(&mut context, folder, "trajectories", &demonstrations(64, 3, 2));
    outputs(&mut context, folder, &["model", "report"]);
    context
}

fn options() -> Value {
    json!({
        "steps": 12, "batch_tokens": 512, "micro_batch_tokens": 256, "validation_share": 0.1, "validate_every": 4,
        "checkpoint_every": 5, "optimizer": {"learning_rate": 1e-2},
    })
}

fn digests(context: &StageContext) -> Vec<Digest> {
    ["model", "report"].iter().map(|p| digest_of(context.output(p).unwrap())).collect()
}

fn prepared(model: &ModelFolder, rows: &[Trajectory], mask: bool, most: usize) -> SftExamples {
    let folder = tempfile::tempdir().unwrap();
    let mut examples = SftExamples::create(&folder.path().join("examples")).unwrap();
    tokenize(model, rows, mask).into_iter().for_each(|row| examples.push(&row.unwrap(), most).unwrap());
    examples
}

/// Tokenizes the rows of [`context`] with `data/tokenize` and adds the result to the inputs of a training.
fn input_tokens(context: &mut StageContext, folder: &Path, options: Value) {
    let mut making = context_in(&folder.join("tokens"), 2, None);
    input_model(&mut making, &folder.join("tokens"), "model", &tiny_model(16, 1, 1));
    input_trajectories(&mut making, &folder.join("tokens"), "trajectories", &demonstrations(64, 3, 2));
    outputs(&mut making, &folder.join("tokens"), &["tokenized", "quarantine"]);
    run_stage::<Tokenize>(options, &mut making).unwrap();
    assert_declared::<Tokenize>(&json!({}), &making);
    let made = making.output("tokenized").unwrap().join("data.parquet");
    input(context, folder, "tokenized", ArtifactKind::Table, |path| {
        std::fs::copy(&made, path.join("data.parquet")).unwrap();
    });
    let artifact = context.inputs.get_mut("tokenized").unwrap().last_mut().unwrap();
    artifact.metadata = making.metadata["tokenized"].clone();
}

fn on_tokens(folder: &Path, tokens: Value) -> StageContext {
    let mut context = context_in(folder, 1, None);
    input_model(&mut context, folder, "model", &tiny_model(16, 1, 1));
    input_tokens(&mut context, folder, tokens);
    outputs(&mut context, folder, &["model", "report"]);
    context
}

#[test]
fn tokens_made_beforehand_end_in_the_same_bytes() {
    let (plain, packed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut direct = context(plain.path(), 1, None);
    run_stage::<Sft>(options(), &mut direct).unwrap();
    let mut tokens = on_tokens(packed.path(), json!({"pack_tokens": 100}));
    run_stage::<Sft>(options(), &mut tokens).unwrap();
    assert_eq!(digests(&direct), digests(&tokens));
    assert_eq!(direct.metrics, tokens.metrics);
}

#[test]
fn tokens_of_another_model_or_option_are_refused() {
    let refused = |change: fn(&mut StageContext), options: Value, word: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = on_tokens(folder.path(), json!({}));
        change(&mut context);
        let error = run_stage::<Sft>(options, &mut context).unwrap_err();
        assert!(error.kind == ErrorKind::Invalid && error.message.contains(word), "{error}");
    };
    fn forge(context: &mut StageContext, key: &str) {
        context.inputs.get_mut("tokenized").unwrap()[0].metadata.insert(key.into(), json!("other"));
    }
    refused(|c| forge(c, "tokenizer_digest"), options(), "another tokenizer");
    refused(|c| forge(c, "rendering_digest"), options(), "other template options");
    let mut unmasked = options();
    unmasked["mask_errored_turns"] = json!(false);
    refused(|_| {}, unmasked, "another value of `mask_errored_turns`");
    let folder = tempfile::tempdir().unwrap();
    let mut both = on_tokens(folder.path(), json!({}));
    input_trajectories(&mut both, folder.path(), "trajectories", &demonstrations(2, 3, 2));
    assert!(run_stage::<Sft>(options(), &mut both).unwrap_err().message.contains("both wired"));
}

#[test]
fn rows_that_cannot_be_encoded_are_quarantined() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = demonstrations(8, 3, 2);
    rows[3].messages[1].content = "\u{4e2d}".into();
    let making = |share: f64| {
        let mut context = context_in(folder.path(), 2, None);
        input_model(&mut context, folder.path(), "model", &tiny_model(16, 1, 1));
        input_trajectories(&mut context, folder.path(), "trajectories", &rows);
        outputs(&mut context, folder.path(), &["tokenized", "quarantine"]);
        run_stage::<Tokenize>(json!({"max_quarantined": share}), &mut context).map(|()| context)
    };
    let error = making(0.1).err().unwrap();
    assert!(error.message.contains("1 of 8") && error.message.contains(&rows[3].id), "{error}");
    let context = making(0.2).unwrap();
    assert_eq!((context.metrics["rows"], context.metrics["quarantined"]), (7.0, 1.0));
    let refused = rows_as_json(&context.output_parquet("quarantine").unwrap(), 0, 9).unwrap();
    assert_eq!((refused.len(), &refused[0]["trajectory"]), (1, &json!(rows[3].id)));
}

#[test]
fn the_loss_falls() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 2, None);
    run_stage::<Sft>(options(), &mut context).unwrap();
    let m = &context.metrics;
    assert!(m["validation_loss"] < 0.8 * m["validation_loss_initial"], "{m:?}");
    assert!(m["loss"] > 0.0 && m["rows"] > 50.0 && m["steps"] == 12.0);
    assert!(context.metadata["model"].contains_key("tokenizer_digest"));
    assert_eq!(half_trained().config.hidden_size, 32);
}

#[test]
fn the_initial_loss_is_that_of_the_input_model() {
    let initial = |steps: u64| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = context(folder.path(), 1, None);
        let mut o = options();
        o["steps"] = json!(steps);
        run_stage::<Sft>(o, &mut context).unwrap();
        context.metrics["validation_loss_initial"]
    };
    assert_eq!(initial(1), initial(12), "it is measured before the first step, however many follow");
}

#[test]
fn a_killed_run_ends_in_the_same_bytes() {
    let whole = tempfile::tempdir().unwrap();
    let mut uninterrupted = context(whole.path(), 1, None);
    run_stage::<Sft>(options(), &mut uninterrupted).unwrap();
    let killed = tempfile::tempdir().unwrap();
    let mut first = context(killed.path(), 2, Some(1));
    assert_eq!(run_stage::<Sft>(options(), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = context(killed.path(), 2, None);
    run_stage::<Sft>(options(), &mut second).unwrap();
    assert_eq!(digests(&uninterrupted), digests(&second));
    assert_eq!(uninterrupted.metrics, second.metrics);
}

#[test]
fn only_the_agents_tokens_are_learned_and_failed_turns_are_context() {
    let model = tiny_model(16, 1, 1);
    let mut rows = demonstrations(1, 3, 2);
    let clean = prepared(&model, &rows, true, 999);
    let example = clean.examples.get(0).unwrap();
    let learned: Vec<u32> = example.tokens.iter().zip(&example.mask).filter(|(_, m)| **m).map(|(t, _)| *t).collect();
    let text = model.chat.tokenizer().decode(&learned).unwrap();
    let answer = &rows[0].messages.last().unwrap().content;
    assert!(text.ends_with(&format!("</tool_call><|end|>{answer}<|end|>")), "{text}");
    assert!(!text.contains('?'), "the question is not learned: {text}");
    rows[0].tool_errors = 1;
    let n = rows[0].messages.len();
    rows[0].messages[n - 2].content = "error: no".into();
    let failed = prepared(&model, &rows, true, 999);
    assert_eq!(failed.masked_turns, 1);
    assert!(failed.examples.get(0).unwrap().loss_tokens() < example.loss_tokens());
    assert_eq!(prepared(&model, &rows, false, 999).masked_turns, 0);
}

#[test]
fn another_tokenizer_too_long_rows_and_empty_sets_are_refused() {
    let model = tiny_model(16, 1, 1);
    let mut rows = demonstrations(2, 3, 2);
    assert_eq!(prepared(&model, &rows, true, 5).too_long, 2);
    rows[0].token_ids = vec![1, 2];
    rows[0].loss_mask = vec![false, true];
    rows[0].turn = vec![0, 0];
    rows[0].tokenizer_digest = "other".into();
    assert!(expect_same_text(&model, &rows, "`trajectories`").unwrap_err().message.contains("demo-sum-0"));
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1, None);
    let mut too_small = options();
    too_small["max_tokens"] = json!(3);
    assert_eq!(run_stage::<Sft>(too_small, &mut context).unwrap_err().kind, ErrorKind::Data);
}

/// Creates a context like [`context`], with problems on which episodes are played.
fn playing(folder: &Path, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, 1, cancel_after);
    input_model(&mut context, folder, "model", &tiny_model(16, 1, 1));
    input_trajectories(&mut context, folder, "trajectories", &demonstrations(64, 3, 2));
    input_problems(&mut context, folder, "problems", &sums(12, 3, 2));
    outputs(&mut context, folder, &["model", "report"]);
    context
}

fn stopping(accuracy: f64, more: Value) -> Value {
    let mut options = json!({
        "steps": 400, "batch_tokens": 512, "validation_share": 0.0, "validate_every": null, "checkpoint_every": 15,
        "optimizer": {"learning_rate": 1e-2},
        "stop_at": {
            "accuracy": accuracy, "every": 10, "episodes": 24, "environment": environment_options(),
            "sampling": {"max_turn_tokens": 24, "max_episode_tokens": 96},
        },
    });
    let stop = options["stop_at"].as_object_mut().unwrap();
    stop.extend(more.as_object().unwrap().clone());
    options
}

#[test]
fn training_ends_at_the_pass_rate_and_resumes_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let mut whole = playing(folder.path(), None);
    run_stage::<Sft>(stopping(0.3, json!({})), &mut whole).unwrap();
    let (reached, steps) = (whole.metrics["stop_accuracy"], whole.metrics["steps"]);
    assert!(reached >= 0.3 && steps < 400.0 && steps % 10.0 == 0.0, "{reached} after {steps}");
    assert_declared::<Sft>(&stopping(0.3, json!({})), &whole);
    let cut = tempfile::tempdir().unwrap();
    let mut first = playing(cut.path(), Some(1));
    assert_eq!(run_stage::<Sft>(stopping(0.3, json!({})), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = playing(cut.path(), None);
    run_stage::<Sft>(stopping(0.3, json!({})), &mut second).unwrap();
    assert_eq!(digests(&second), digests(&whole));
}

#[test]
fn a_pass_rate_that_is_never_reached_fails_or_is_accepted() {
    let short = |more: Value| {
        let mut options = stopping(1.0, more);
        options["steps"] = json!(4);
        options
    };
    let folder = tempfile::tempdir().unwrap();
    let mut context = playing(folder.path(), None);
    let error = run_stage::<Sft>(short(json!({})), &mut context).unwrap_err();
    assert!(error.message.contains("`stop_at.accuracy` is 1, but after 4 steps"), "{error}");
    let accepted = tempfile::tempdir().unwrap();
    let mut context = playing(accepted.path(), None);
    run_stage::<Sft>(short(json!({"on_miss": "continue"})), &mut context).unwrap();
    assert_eq!(context.metrics["steps"], 4.0);
}

#[test]
fn test_split_is_rejected_for_stop_at() {
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1, None);
    let tested: Vec<Problem> = sums(4, 3, 2).into_iter().map(|p| Problem { split: "test".into(), ..p }).collect();
    input_problems(&mut context, folder.path(), "problems", &tested);
    let error = run_stage::<Sft>(stopping(0.3, json!({})), &mut context).unwrap_err();
    assert!(error.message.contains("of the split `test`"), "{error}");
}

#[test]
fn contradictions_with_a_pass_rate_are_found_before_the_run() {
    let sft = Sft::default();
    let pointers = |options: Value| {
        let prepared = sft.prepare(options).unwrap();
        prepared.problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    assert_eq!(pointers(stopping(0.3, json!({}))), [""; 0]);
    assert_eq!(pointers(stopping(1.5, json!({"every": 0}))), ["/stop_at/accuracy", "/stop_at/every"]);
    let mut patient = stopping(0.3, json!({}));
    patient["patience"] = json!(2);
    patient["validation_share"] = json!(0.1);
    assert_eq!(pointers(patient), ["/patience"]);
    let wiring = |options: Value, problems: usize| {
        let inputs = [("problems".to_string(), problems)].into_iter().collect();
        let found = sft.prepare(options).unwrap().problems_with(&inputs);
        found.into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    assert_eq!(wiring(stopping(0.3, json!({})), 0), ["/stop_at"]);
    assert_eq!(wiring(options(), 1), ["/problems"]);
    assert_eq!(wiring(stopping(0.3, json!({})), 1), [""; 0]);
}
