//! Checks the pinned digests of small trainings for the tests of stages that train on rows.
//!
//! The digests are those of machines with AVX-512: other machines may round sums in another order.
#![cfg(target_arch = "x86_64")]

use crate::testing::{context_in, input_model, input_trajectories, outputs, run_stage, tiny_model};
use serde_json::Value;
use std::path::Path;
use trainyard_api::{Stage, StageContext};
use trainyard_core::{Digest, ErrorKind};
use trainyard_tables::Trajectory;

/// Rows at the ports of a training.
pub struct TrainingRows<'a> {
    /// Port of the rows to train on.
    pub port: &'a str,
    /// Tables at that port.
    pub trains: &'a [&'a [Trajectory]],
    /// Table at the port `validation`; empty = not wired.
    pub held: &'a [Trajectory],
}

/// Trains in one attempt, and in two with a resume, and checks that both end in the pinned digests.
pub fn expect<S: Stage + Default>(options: &Value, rows: &TrainingRows<'_>, pinned: [&str; 2]) {
    let whole = tempfile::tempdir().unwrap();
    let mut uninterrupted = context(whole.path(), rows, None);
    run_stage::<S>(options.clone(), &mut uninterrupted).unwrap();
    let killed = tempfile::tempdir().unwrap();
    let mut first = context(killed.path(), rows, Some(2));
    assert_eq!(run_stage::<S>(options.clone(), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = context(killed.path(), rows, None);
    run_stage::<S>(options.clone(), &mut second).unwrap();
    assert_eq!(digests(&uninterrupted), digests(&second));
    if is_x86_feature_detected!("avx512f") {
        assert_eq!(digests(&uninterrupted), pinned, "{:?}", uninterrupted.metrics);
    }
}

fn context(folder: &Path, rows: &TrainingRows<'_>, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, 1, cancel_after);
    input_model(&mut context, folder, "model", &tiny_model(16, 1, 1));
    rows.trains.iter().for_each(|table| input_trajectories(&mut context, folder, rows.port, table));
    if !rows.held.is_empty() {
        input_trajectories(&mut context, folder, "validation", rows.held);
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
