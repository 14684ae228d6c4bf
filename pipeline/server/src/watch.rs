//! Follows the journal of a run just far enough to know who writes it and whether it is over.

use crate::schedule::event::Outcome;
use std::time::Duration;
use trainyard_core::event::{Event, Record, RunOutcome};
use trainyard_core::{Result, RunId};
use trainyard_store::{Batch, JournalReader, Store};

/// A run that is being followed.
pub struct Watch {
    journal: JournalReader,
    /// Who writes it; none before its first batch.
    writer: Option<String>,
    finished: Option<Outcome>,
    /// When its journal last grew, by the watcher's monotonic clock.
    grew: Duration,
}

impl Watch {
    /// Begins to follow a run, which may not have begun itself.
    pub fn new(store: &Store, run: &RunId, now: Duration) -> Self {
        Self { journal: JournalReader::new(store, run), writer: None, finished: None, grew: now }
    }
    /// Reads what the journal has got since. Errors: data (damaged), those of the store.
    pub async fn look(&mut self, now: Duration) -> Result<()> {
        while let Some(batch) = self.journal.next().await? {
            self.take(&batch)?;
            self.grew = now;
        }
        Ok(())
    }
    /// The writer of the journal; none if the run has not begun.
    pub fn writer(&self) -> Option<&str> {
        self.writer.as_deref()
    }
    /// How the run ended, if it did.
    pub fn finished(&self) -> Option<Outcome> {
        self.finished
    }
    /// For how long the watcher has seen the journal stand still.
    pub fn still(&self, now: Duration) -> Duration {
        now.saturating_sub(self.grew)
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        self.writer = Some(batch.header.writer.clone());
        for value in &batch.events {
            // All others may be large, and are of no concern.
            match value.get("type").and_then(serde_json::Value::as_str) {
                Some("run_finished") => {
                    if let Event::RunFinished { outcome } = Record::from_value(value)?.event {
                        self.finished = Some(ended(outcome));
                    }
                }
                Some("writer_opened") => self.finished = None,
                _ => {}
            }
        }
        Ok(())
    }
}

fn ended(outcome: RunOutcome) -> Outcome {
    match outcome {
        RunOutcome::Succeeded => Outcome::Succeeded,
        RunOutcome::Failed => Outcome::Failed,
        RunOutcome::Cancelled => Outcome::Cancelled,
    }
}
