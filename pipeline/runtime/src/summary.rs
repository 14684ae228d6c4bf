//! Reads and stores summaries of runs, for lists.
//!
//! To list runs without reading long journals, the totals of a finished run with a long journal are stored next to it,
//! under the number of the next batch. Once that batch exists (the run was resumed), they are invalid. Totals are only
//! a copy: if they are missing, [`read_summary`] reads the journal.

use crate::resume::{fold_rest, no_such_run};
use crate::totals;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Error, ErrorKind, Result, RunId};
use trainyard_engine::fold::{RunView, Totals};
use trainyard_store::{JournalReader, Store};

/// Number of batches that one read of a journal returns; a shorter journal needs no summary.
const SHORT: u64 = 16;

/// Known state of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadedSummary {
    /// Totals of a finished run.
    Totals(Totals),
    /// Fold of the journal.
    View(Box<RunView>),
}

/// Reads a short journal, or else the summary, or else the long journal. Errors: those of [`crate::resume::read_run`].
pub async fn read_summary(store: &Store, run: &RunId) -> Result<LoadedSummary> {
    let (mut journal, mut view) = (JournalReader::new(store, run), RunView::default());
    let (batches, is_end) = journal.read_some().await?;
    if !is_end && let Some(totals) = totals::read(store, run).await? {
        return Ok(LoadedSummary::Totals(totals));
    }
    view.apply_values(batches.iter().flat_map(|batch| &batch.events))?;
    if !is_end {
        fold_rest(&mut journal, &mut view).await?;
    }
    if view.writer.epoch == 0 {
        return Err(no_such_run(store, run));
    }
    Ok(LoadedSummary::View(Box::new(view)))
}

/// Returns the newest run that succeeded, if any; damaged runs are skipped. Errors: those of reaching the store.
pub async fn latest_success(store: &Store) -> Result<Option<RunId>> {
    for run in store.list_runs().await?.into_iter().rev() {
        let outcome = match read_summary(store, &run).await {
            Ok(LoadedSummary::Totals(totals)) => totals.outcome,
            Ok(LoadedSummary::View(view)) => view.finished.map(|(_, outcome)| outcome),
            Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
            Err(_) => None,
        };
        if outcome == Some(RunOutcome::Succeeded) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Stores the totals of a run whose journal ends before batch `end`. Without them lists are only slower.
pub(crate) async fn store_summary(store: &Store, run: &RunId, end: u64, view: &RunView) {
    if end < SHORT {
        return;
    }
    let put = async {
        let bytes =
            serde_json::to_vec(&view.totals()).map_err(|e| Error::bug("totals have no JSON form").caused_by(&e))?;
        store.put_summary(run, end, bytes.into()).await
    };
    if let Err(error) = put.await {
        tracing::info!(%error, "cannot store the summary of the run");
    }
}
