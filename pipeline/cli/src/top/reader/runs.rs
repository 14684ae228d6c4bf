//! Reads the list of runs. Live runs are followed; others are read once, and then again one per turn, since a run may
//! be resumed.

use crate::top::model::RunLine;
use std::collections::BTreeMap;
use trainyard_core::{Clock, Error, ErrorKind, Result, RunId};
use trainyard_engine::fold::{RunView, StageStatus, Totals};
use trainyard_runtime::progress::{read_progress_of, reporting_attempts};
use trainyard_runtime::resume;
use trainyard_runtime::summary::{LoadedSummary, read_summary};
use trainyard_store::{JournalReader, Store};
use trainyard_views::status::{DAMAGED, elapsed_millis, outcome_name, stages_over, state};

/// Maximum runs shown, the newest.
const MAX_RUNS: usize = 200;
/// Runs read for the first time in one turn.
const NEW_PER_TURN: usize = 8;
/// Maximum live runs that are followed; further ones are read again like those that are over.
const MAX_FOLLOWED: usize = 16;

/// List of runs, kept between turns.
#[derive(Default)]
pub struct RunList {
    known: BTreeMap<RunId, KnownRun>,
    /// Run that was read again last.
    last_again: Option<RunId>,
}

/// Run that was read.
struct KnownRun {
    line: RunLine,
    /// Journal of a live run.
    followed: Option<(Box<RunView>, JournalReader)>,
}

impl RunList {
    /// Reads what is new. Errors: those of reaching the store.
    pub async fn turn(&mut self, store: &Store, clock: &dyn Clock) -> Result<Vec<RunLine>> {
        let mut all = store.list_runs().await?;
        let shown = all.split_off(all.len().saturating_sub(MAX_RUNS));
        self.known.retain(|run, _| shown.binary_search(run).is_ok());
        let unknown: Vec<&RunId> = shown.iter().rev().filter(|run| !self.known.contains_key(run)).collect();
        for run in unknown.into_iter().take(NEW_PER_TURN) {
            self.read(store, clock, run).await?;
        }
        self.follow(store, clock).await?;
        self.read_again(store, clock).await?;
        Ok(shown
            .iter()
            .map(|run| self.known.get(run).map_or_else(|| unread(run), |known| known.line.clone()))
            .collect())
    }

    /// Reads a run that is not followed.
    async fn read(&mut self, store: &Store, clock: &dyn Clock, run: &RunId) -> Result<()> {
        let line = match read_summary(store, run).await {
            Ok(LoadedSummary::Totals(totals)) => line_of(run, outcome_name(totals.outcome), &totals),
            Ok(LoadedSummary::View(view)) => view_line(run, &view, clock),
            Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
            Err(error) => damaged(run, &error),
        };
        let count = self.known.values().filter(|known| known.followed.is_some()).count();
        let followed = if line.is_live() && count < MAX_FOLLOWED {
            let (view, journal) = resume::open_run(store, run).await?;
            Some((Box::new(view), journal))
        } else {
            None
        };
        self.known.insert(run.clone(), KnownRun { line, followed });
        Ok(())
    }

    async fn follow(&mut self, store: &Store, clock: &dyn Clock) -> Result<()> {
        for (run, known) in &mut self.known {
            let Some((view, journal)) = &mut known.followed else { continue };
            match resume::follow(journal, view).await {
                Ok(_) => known.line = view_line(run, view, clock),
                Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
                Err(error) => known.line = damaged(run, &error),
            }
            if !known.line.is_live() {
                known.followed = None;
                continue;
            }
            let first: Vec<_> = reporting_attempts(view).into_iter().take(1).collect();
            known.line.progress = read_progress_of(store, run, first).await?.into_values().next();
        }
        Ok(())
    }

    /// Reads the next run that is not followed.
    async fn read_again(&mut self, store: &Store, clock: &dyn Clock) -> Result<()> {
        let rest = || self.known.iter().filter(|(_, known)| known.followed.is_none()).map(|(run, _)| run);
        let next = rest().find(|run| self.last_again.as_ref().is_none_or(|last| *run > last)).or_else(|| rest().next());
        let Some(run) = next.cloned() else { return Ok(()) };
        self.last_again = Some(run.clone());
        self.read(store, clock, &run).await
    }
}

fn unread(run: &RunId) -> RunLine {
    RunLine {
        run: run.clone(),
        workflow: String::new(),
        status: "reading",
        elapsed: None,
        done: 0,
        total: 0,
        progress: None,
        why: None,
    }
}

fn damaged(run: &RunId, error: &Error) -> RunLine {
    RunLine { status: DAMAGED, why: Some(error.to_string()), ..unread(run) }
}

fn line_of(run: &RunId, status: &'static str, totals: &Totals) -> RunLine {
    let done = totals.stages.iter().filter(|(status, _)| status.is_final()).map(|(_, count)| count).sum();
    RunLine {
        workflow: totals.workflow.clone(),
        status,
        elapsed: Some(totals.until - totals.created),
        done,
        total: totals.all() - totals.of(StageStatus::Expanded),
        ..unread(run)
    }
}

/// Returns the line of a run, without progress.
pub fn view_line(run: &RunId, view: &RunView, clock: &dyn Clock) -> RunLine {
    let (done, total) = stages_over(view);
    RunLine {
        workflow: view.workflow.clone(),
        status: state(view, clock),
        elapsed: Some(elapsed_millis(view, clock)),
        done,
        total,
        ..unread(run)
    }
}
