//! Lists the holders of the resources for which a stage waits. Attempts of the same run come from the journal, those of
//! other runs of this user from the locked files of this machine.

use trainyard_core::event::GrantSummary;
use trainyard_core::{Clock, Result};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_runtime::slots::Slots;
use trainyard_views::explain::{amounts, holders, named};

/// Returns one line for each pool that other stages of the run use, and one line for other runs on this machine.
/// Returns no line unless the stage is queued or waiting.
pub fn lines(view: &RunView, stage: &StageView, run: &str, slots: Option<&Slots>, clock: &dyn Clock) -> Vec<String> {
    if !matches!(stage.status, StageStatus::Queued | StageStatus::Waiting) {
        return Vec::new();
    }
    let mut lines = holders(view, stage);
    match slots.map(|slots| other_runs(slots, run, clock)) {
        Some(Ok(Some(line))) => lines.push(line),
        Some(Err(error)) => {
            lines.push(format!("the resources that other runs hold on this machine cannot be read: {error}"))
        }
        Some(Ok(None)) | None => {}
    }
    lines
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
    Ok((!names.is_empty()).then(|| format!("other runs hold on this machine: {}", named(&names))))
}
