//! Simulates seed after seed, and proves that a seed repeats itself.

use super::scenario::{Report, simulate};
use super::setting::Setting;
use std::collections::BTreeMap;

/// Seeds of the test suite.
const SEEDS: u64 = 200;

/// What an idle play would lack.
const MUST_HAPPEN: [&str; 17] = [
    "answers lost",
    "answers of an executor lost",
    "attempts forgotten by the cluster",
    "attempts killed",
    "attempts preempted",
    "attempts started again",
    "clocks set",
    "engines fenced",
    "engines interrupted",
    "engines killed at a write to the journal",
    "engines whose run was cancelled",
    "machines cut off",
    "machines lost",
    "machines lost in silence",
    "puts that arrived late",
    "puts that succeeded and reported failure",
    "takeovers",
];

fn number(name: &str) -> Option<u64> {
    std::env::var(format!("TRAINYARD_SIMULATION_{name}")).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let first = number("FIRST").unwrap_or(0);
            first..first + number("SEEDS").unwrap_or(SEEDS)
        }
    }
}

fn complaint(seed: u64, report: &Report) -> Option<String> {
    if report.complaints.is_empty() {
        return None;
    }
    Some(format!(
        "seed {seed}:\n  {}\nrepeat it: TRAINYARD_SIMULATION_SEED={seed} TRAINYARD_SIMULATION_TRACE=1 cargo test \
         --release --package trainyard-runtime simulation::seeds::nothing_is_lost -- --nocapture",
        report.complaints.join("\n  ")
    ))
}

#[test]
fn nothing_is_lost_whatever_happens_to_engines_attempts_clocks_and_the_store() {
    let (mut counts, mut complaints) = (BTreeMap::<&str, u64>::new(), Vec::new());
    let seeds = seeds();
    for seed in seeds.clone() {
        let report = simulate(&Setting::of(seed));
        for (what, count) in &report.counts {
            *counts.entry(*what).or_default() += count;
        }
        complaints.extend(complaint(seed, &report).inspect(|text| println!("{text}")));
    }
    println!("{} seeds: {counts:#?}", seeds.end - seeds.start);
    if seeds.end - seeds.start >= SEEDS {
        let rare: Vec<_> = MUST_HAPPEN.iter().filter(|what| counts.get(**what).is_none_or(|n| *n < 5)).collect();
        assert!(rare.is_empty(), "hardly ever happened: {rare:?}");
    }
    assert!(complaints.is_empty(), "{} seeds failed:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn a_seed_repeats_itself() {
    for seed in 0..8 {
        let setting = Setting::of(seed);
        assert_eq!(simulate(&setting), simulate(&setting), "seed {seed}");
    }
}
