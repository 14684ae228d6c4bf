//! Pins the weights of small trainings, so a change of how pairs are read, matched or resumed is seen.
#![cfg(target_arch = "x86_64")]

use super::Preference;
use crate::pinned_training::{TrainingRows, expect};
use crate::testing::demonstrations;
use serde_json::json;
use trainyard_tables::Trajectory;

/// Returns the chosen rows of all groups, followed by the rejected rows, whose answers are longer.
fn preferences(count: usize, bound: u64, seed: u64) -> Vec<Trajectory> {
    let chosen = demonstrations(count, bound, seed).into_iter().enumerate();
    let chosen: Vec<Trajectory> = chosen
        .map(|(i, row)| Trajectory { group: (count - i) as u32, reward: 1.0, problem_id: format!("p{}", i / 2), ..row })
        .collect();
    let mut rejected = chosen.clone();
    for (i, row) in rejected.iter_mut().enumerate() {
        (row.reward, row.id) = (0.0, format!("{}-wrong", row.id));
        row.messages.last_mut().unwrap().content += &"7".repeat(1 + i % 3);
    }
    [chosen, rejected].concat()
}

#[test]
fn weights_of_several_epochs_with_held_out_problems_are_pinned() {
    let options = json!({
        "epochs": 2, "batch_pairs": 5, "micro_batch_tokens": 200, "validation_share": 0.2, "validate_every": 4,
        "checkpoint_every": 3, "optimizer": {"learning_rate": 1e-2}, "keep": "best", "seed": 3,
    });
    expect::<Preference>(
        &options,
        &TrainingRows { port: "preferences", trains: &[&preferences(30, 5, 2)], held: &[] },
        [
            "bcad5aada8f6ebdce72381a2bca09469f32572eae21479f7609fa87e2533ab49",
            "4de1ad6c2d292176879a7d4c3373ea2dcbe6ede2ec5907364315f5ac2525800d",
        ],
    );
}

#[test]
fn weights_with_a_validation_input_and_omitted_pairs_are_pinned() {
    let options = json!({
        "steps": 12, "batch_pairs": 4, "micro_batch_tokens": 150, "max_tokens": 62, "validate_every": 5,
        "checkpoint_every": 4, "optimizer": {"learning_rate": 1e-2}, "loss": "simpo",
    });
    let mut one = preferences(25, 60, 4);
    one.remove(7);
    let two = preferences(10, 9, 6);
    expect::<Preference>(
        &options,
        &TrainingRows { port: "preferences", trains: &[&one, &two], held: &preferences(8, 9, 8) },
        [
            "8a4a841592970f856b084c3fdc775e4b6630d19a3a61073637fbf1ef1020fd94",
            "e806cd2066bc542180d0155c0c9d60253b55d589297ca52897df6145dd7fe747",
        ],
    );
}
