//! Lists the holders of the resources for which a stage waits. Attempts of the same run come from the journal, those of
//! other runs of this user from the locked files of this machine.

use std::collections::BTreeSet;
use trainyard_core::event::GrantSummary;
use trainyard_core::units::format_size;
use trainyard_core::{Clock, Result};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_runtime::slots::Slots;

/// Maximum number of holders that are named; further holders are counted.
const NAMED: usize = 8;

/// Returns one line for each pool that other stages of the run use, and one line for other runs on this machine.
/// Returns no line unless the stage is queued or waiting.
pub fn lines(view: &RunView, stage: &StageView, run: &str, slots: Option<&Slots>, clock: &dyn Clock) -> Vec<String> {
    if !matches!(stage.status, StageStatus::Queued | StageStatus::Waiting) {
        return Vec::new();
    }
    let mut lines = by_pool(view, stage);
    match slots.map(|slots| other_runs(slots, run, clock)) {
        Some(Ok(Some(line))) => lines.push(line),
        Some(Err(error)) => {
            lines.push(format!("the resources that other runs hold on this machine cannot be read: {error}"))
        }
        Some(Ok(None)) | None => {}
    }
    lines
}

/// Returns one line for each pool that other stages of the run use.
fn by_pool(view: &RunView, waiting: &StageView) -> Vec<String> {
    let held: Vec<(&str, String)> = view
        .stages
        .iter()
        .filter(|stage| stage.key() != waiting.key())
        .filter_map(|stage| stage.attempts.last().map(|attempt| (stage, attempt)))
        .filter(|(_, attempt)| attempt.outcome.is_none() && attempt.pool != trainyard_engine::pool::IN_PROCESS)
        .map(|(stage, attempt)| (attempt.pool.as_str(), format!("{} ({})", stage.key(), amounts(&attempt.grant))))
        .collect();
    let pools: BTreeSet<&str> = held.iter().map(|(pool, _)| *pool).collect();
    let line = |pool: &str| {
        let names: Vec<String> = held.iter().filter(|(of, _)| *of == pool).map(|(_, name)| name.clone()).collect();
        format!("pool {pool} is held by {}", list(&names))
    };
    pools.into_iter().map(line).collect()
}

/// Returns a line with the resources that other runs hold on this machine, or `None` if they hold none.
fn other_runs(slots: &Slots, run: &str, clock: &dyn Clock) -> Result<Option<String>> {
    let now = clock.unix_millis();
    let one = |holding: &trainyard_runtime::slots::SlotRecord| {
        let (cpus, memory, gpus) = (holding.cpus, holding.memory, holding.gpus.clone());
        let grant = GrantSummary { cpus, memory, gpus, machines: Vec::new() };
        format!("{}: {}", holding.describe(now), amounts(&grant))
    };
    let names: Vec<String> = slots.holdings()?.iter().filter(|h| h.holder.run != run).map(one).collect();
    Ok((!names.is_empty()).then(|| format!("other runs hold on this machine: {}", list(&names))))
}

fn list(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Formats amounts: `2 CPUs, 8.0 GiB, GPUs 0 1, on 4 machines`.
fn amounts(grant: &GrantSummary) -> String {
    let mut parts = vec![format!("{} CPU{}", grant.cpus, if grant.cpus == 1 { "" } else { "s" })];
    if grant.memory > 0 {
        parts.push(format_size(grant.memory));
    }
    if !grant.gpus.is_empty() {
        let gpus: Vec<String> = grant.gpus.iter().map(u32::to_string).collect();
        parts.push(format!("GPU{} {}", if gpus.len() == 1 { "" } else { "s" }, gpus.join(" ")));
    }
    if grant.machines.len() > 1 {
        parts.push(format!("on {} machines", grant.machines.len()));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_holders_are_formatted() {
        let grant = |cpus, memory, gpus: &[u32], machines: usize| GrantSummary {
            cpus,
            memory,
            gpus: gpus.to_vec(),
            machines: (0..machines).map(|n| n.to_string()).collect(),
        };
        assert_eq!(amounts(&grant(1, 0, &[], 1)), "1 CPU");
        assert_eq!(amounts(&grant(2, 8 << 30, &[0, 3], 4)), "2 CPUs, 8.0 GiB, GPUs 0 3, on 4 machines");
        let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(list(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
