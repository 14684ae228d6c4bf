use super::*;
use crate::testing::{
    context_in, demonstrations, digest_of, half_trained, input_model, input_trajectories, outputs, run_stage,
    tiny_model,
};
use serde_json::{Value, json};
use std::path::Path;
use trainyard_core::{Digest, ErrorKind};

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
    let clean = prepare(&model, &rows, true, 999).unwrap();
    let example = &clean.examples[0];
    let learned: Vec<u32> = example.tokens.iter().zip(&example.mask).filter(|(_, m)| **m).map(|(t, _)| *t).collect();
    let text = model.chat.tokenizer().decode(&learned).unwrap();
    let answer = &rows[0].messages.last().unwrap().content;
    assert!(text.ends_with(&format!("</tool_call><|end|>{answer}<|end|>")), "{text}");
    assert!(!text.contains('?'), "the question is not learned: {text}");
    rows[0].tool_errors = 1;
    let n = rows[0].messages.len();
    rows[0].messages[n - 2].content = "error: no".into();
    let failed = prepare(&model, &rows, true, 999).unwrap();
    assert_eq!(failed.masked_turns, 1);
    assert!(failed.examples[0].loss_tokens() < example.loss_tokens());
    assert_eq!(prepare(&model, &rows, false, 999).unwrap().masked_turns, 0);
}

#[test]
fn another_tokenizer_too_long_rows_and_empty_sets_are_refused() {
    let model = tiny_model(16, 1, 1);
    let mut rows = demonstrations(2, 3, 2);
    assert_eq!(prepare(&model, &rows, true, 5).unwrap().too_long, 2);
    rows[0].token_ids = vec![1, 2];
    rows[0].loss_mask = vec![false, true];
    rows[0].turn = vec![0, 0];
    rows[0].tokenizer_digest = "other".into();
    assert!(prepare(&model, &rows, true, 99).unwrap_err().message.contains("demo-sum-0"));
    let folder = tempfile::tempdir().unwrap();
    let mut context = context(folder.path(), 1, None);
    let mut too_small = options();
    too_small["max_tokens"] = json!(3);
    assert_eq!(run_stage::<Sft>(too_small, &mut context).unwrap_err().kind, ErrorKind::Data);
}
