//! Pins the weights of small trainings, so a change of how rows are read, packed or resumed is seen.
#![cfg(target_arch = "x86_64")]

use super::Sft;
use crate::pinned_training::{TrainingRows, expect};
use crate::testing::demonstrations;
use serde_json::json;

#[test]
fn weights_of_several_epochs_with_held_out_problems_are_pinned() {
    let options = json!({
        "epochs": 3, "batch_tokens": 300, "micro_batch_tokens": 100, "validation_share": 0.2, "validate_every": 7,
        "checkpoint_every": 5, "optimizer": {"learning_rate": 1e-2}, "seed": 3,
    });
    expect::<Sft>(
        &options,
        &TrainingRows { port: "trajectories", trains: &[&demonstrations(70, 5, 2)], held: &[] },
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
    expect::<Sft>(
        &options,
        &TrainingRows { port: "trajectories", trains: &[&one, &two], held: &demonstrations(12, 9, 8) },
        [
            "a56d590ea9b56245ff3e7de012c3f0a975db3a594afed4ac6d1046d24562b32d",
            "4bb666c1323d5f26f006e2dbf9e6d7b0eab2cf05050bb73d8d8900a590ea160f",
        ],
    );
}
