//! Tests the auditors with mutants, each of which breaks a component on purpose and must be detected.

use super::scenario::simulate;
use super::setting::{Mutant, Setting};
use std::time::Duration;

/// Number of seeds within which a mutant must be detected.
const SEEDS: u64 = 40;

/// Returns the first seed for which the auditors report this violation of a mutant.
fn noticed(mutant: Mutant, complaint_part: &str) -> Option<u64> {
    (0..SEEDS).find(|seed| {
        // The chaos is short, so that runs are in progress when it ends.
        let chaos = Duration::from_secs(10 + 3 * seed);
        let setting = Setting { mutant, chaos, cancels: true, operators: 2, ..Setting::of(*seed) };
        simulate(&setting).complaints.iter().any(|complaint| complaint.contains(complaint_part))
    })
}

#[test]
fn every_mutant_is_detected() {
    for (mutant, complaint_part) in [
        (Mutant::StoreOverwrites, "wrote over runs/"),
        (Mutant::StoreForgets, "which is not durable"),
        (Mutant::StoreLies, "which is not durable"),
        (Mutant::ExecutorDoubles, "runs twice at one time"),
        (Mutant::EngineIsDeaf, "which was requested to stop"),
        (Mutant::StagesAreFickle, "does not end as it should"),
    ] {
        let seed = noticed(mutant, complaint_part);
        println!("{mutant:?}: noticed at seed {seed:?}");
        assert!(seed.is_some(), "no auditor reports `{complaint_part}` for {mutant:?} within {SEEDS} seeds");
    }
}
