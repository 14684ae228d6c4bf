//! Pins the weights of small trainings, so a change of how rows are read, packed or resumed is seen.
//!
//! The digests are those of machines with AVX-512: other machines may round sums in another order.
#![cfg(target_arch = "x86_64")]

use super::Sft;
use crate::testing::{context_in, demonstrations, input_model, input_trajectories, outputs, run_stage, tiny_model};
use serde_json::{Value, json};
use std::path::Path;
use trainyard_api::StageContext;
use trainyard_core::{Digest, ErrorKind};
use trainyard_tables::Trajectory;

fn context(folder: &Path, trains: &[&[Trajectory]], held: &[Trajectory], cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, 1, cancel_after);
    input_model(&mut context, folder, "model", &tiny_model(16, 1, 1));
    trains.iter().for_each(|rows| input_trajectories(&mut context, folder, "trajectories", rows));
    if !held.is_empty() {
        input_trajectories(&mut context, folder, "validation", held);
    }
    outputs(&mut context, folder, &["model", "report"]);
    context
}

/// Returns the digests of the weights and of the metrics.
fn digests(context: &StageContext) -> [String; 2] {
    let weights = std::fs::read(context.output("model").unwrap().join("model.safetensors")).unwrap();
    let metrics = Digest::of_json(&context.metrics).unwrap();
    [Digest::of(&weights), metrics].map(|digest| digest.as_str().to_string())
}

/// Trains in one attempt, and in two with a resume, and checks that both end in the pinned digests.
fn expect(options: &Value, trains: &[&[Trajectory]], held: &[Trajectory], pinned: [&str; 2]) {
    let whole = tempfile::tempdir().unwrap();
    let mut uninterrupted = context(whole.path(), trains, held, None);
    run_stage::<Sft>(options.clone(), &mut uninterrupted).unwrap();
    let killed = tempfile::tempdir().unwrap();
    let mut first = context(killed.path(), trains, held, Some(2));
    assert_eq!(run_stage::<Sft>(options.clone(), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = context(killed.path(), trains, held, None);
    run_stage::<Sft>(options.clone(), &mut second).unwrap();
    assert_eq!(digests(&uninterrupted), digests(&second));
    if is_x86_feature_detected!("avx512f") {
        assert_eq!(digests(&uninterrupted), pinned, "{:?}", uninterrupted.metrics);
    }
}

#[test]
fn weights_of_several_epochs_with_held_out_problems_are_pinned() {
    let options = json!({
        "epochs": 3, "batch_tokens": 300, "micro_batch_tokens": 100, "validation_share": 0.2, "validate_every": 7,
        "checkpoint_every": 5, "optimizer": {"learning_rate": 1e-2}, "seed": 3,
    });
    expect(
        &options,
        &[&demonstrations(70, 5, 2)],
        &[],
        [
            "8a400779d3aa33c23151862f142217a69399ce08b5a137a1afea2cba53087c6c",
            "76d313c651d1a11a8c2a47685b1ff3e5a396a2defdd72cab493c79d36c365335",
        ],
    );
}

#[test]
fn weights_with_a_validation_input_and_omitted_rows_are_pinned() {
    let options = json!({
        "tokens": 4000, "batch_tokens": 200, "micro_batch_tokens": 120, "max_tokens": 60, "validate_every": 3,
        "checkpoint_every": 4, "optimizer": {"learning_rate": 1e-2},
    });
    let (mut one, two) = (demonstrations(40, 60, 4), demonstrations(30, 9, 6));
    one[3].tool_errors = 1;
    let result = one[3].messages.len() - 2;
    one[3].messages[result].content = "error: no".into();
    one[7].messages.retain(|message| message.role != "assistant");
    expect(
        &options,
        &[&one, &two],
        &demonstrations(12, 9, 8),
        [
            "a56d590ea9b56245ff3e7de012c3f0a975db3a594afed4ac6d1046d24562b32d",
            "4bb666c1323d5f26f006e2dbf9e6d7b0eab2cf05050bb73d8d8900a590ea160f",
        ],
    );
}
