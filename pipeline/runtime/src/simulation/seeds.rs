//! Simulates many seeds, and tests that a seed is reproducible.

use super::scenario::{Report, simulate};
use super::setting::Setting;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

/// Real time after which a seed is given up; most take less than a tenth of a second.
const STUCK: Duration = Duration::from_secs(120);
/// Seeds that found a bug.
const FOUND: [u64; 1] = [1475];
/// Number of seeds in the test suite.
const SEEDS: u64 = 200;

/// Events that must occur, so that an idle simulation fails.
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

/// Returns the command that repeats a seed.
fn again(seed: u64) -> String {
    format!(
        "repeat it: TRAINYARD_SIMULATION_SEED={seed} TRAINYARD_SIMULATION_TRACE=1 cargo test --release --package \
         trainyard-runtime simulation::seeds::nothing_is_lost -- --nocapture"
    )
}

fn complaint(seed: u64, report: &Report) -> Option<String> {
    let complaints = report.complaints.join("\n  ");
    (!complaints.is_empty()).then(|| format!("seed {seed}:\n  {complaints}\n{}", again(seed)))
}

/// Simulates a seed with a limit of real time, because simulated time does not advance and no auditor runs if tasks
/// keep each other busy.
fn watched(seed: u64) -> Report {
    let (done, ends) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ends.recv_timeout(STUCK) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("seed {seed} does not come to its end\n{}", again(seed));
            std::process::exit(1);
        }
    });
    let report = simulate(&Setting::of(seed));
    drop(done);
    report
}

#[test]
fn nothing_is_lost_under_faults() {
    let (mut counts, mut complaints) = (BTreeMap::<&str, u64>::new(), Vec::new());
    let seeds = seeds();
    for seed in seeds.clone() {
        let report = watched(seed);
        for (what, count) in &report.counts {
            *counts.entry(*what).or_default() += count;
        }
        complaints.extend(complaint(seed, &report).inspect(|text| println!("{text}")));
    }
    println!("{} seeds: {counts:#?}", seeds.end - seeds.start);
    if seeds.end - seeds.start >= SEEDS {
        let rare: Vec<_> = MUST_HAPPEN.iter().filter(|what| !counts.contains_key(**what)).collect();
        assert!(rare.is_empty(), "never happened: {rare:?}");
    }
    assert!(complaints.is_empty(), "{} seeds failed:\n{}", complaints.len(), complaints.join("\n"));
}

#[test]
fn regression_seeds_pass() {
    for seed in FOUND {
        assert_eq!(complaint(seed, &watched(seed)), None);
    }
}

#[test]
fn seed_is_reproducible() {
    for seed in 0..8 {
        let setting = Setting::of(seed);
        assert_eq!(simulate(&setting), simulate(&setting), "seed {seed}");
    }
}
