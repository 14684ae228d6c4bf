//! Follows the journal of a run to know its writer and its outcome.

use crate::schedule::event::TickOutcome;
use std::time::Duration;
use trainyard_core::event::{Event, EventRecord, RunOutcome};
use trainyard_core::{Result, RunId};
use trainyard_store::{JournalBatch, JournalReader, Store};

/// A followed run.
pub struct RunWatcher {
    journal: JournalReader,
    /// Writer of the journal; `None` before its first batch.
    writer: Option<String>,
    finished: Option<TickOutcome>,
    /// Time of the journal's last growth, by the watcher's monotonic clock.
    last_growth: Duration,
}

impl RunWatcher {
    /// Starts following a run, which may not have begun.
    pub fn new(store: &Store, run: &RunId, now: Duration) -> Self {
        Self { journal: JournalReader::new(store, run), writer: None, finished: None, last_growth: now }
    }
    /// Reads new batches of the journal. Errors: data (damaged), those of the store.
    pub async fn poll(&mut self, now: Duration) -> Result<()> {
        while let Some(batch) = self.journal.next().await? {
            self.take(&batch)?;
            self.last_growth = now;
        }
        Ok(())
    }
    /// Returns the writer of the journal; `None` if the run has not begun.
    pub fn writer(&self) -> Option<&str> {
        self.writer.as_deref()
    }
    /// Returns the outcome of the run; `None` if it has not finished, as far as the journal was read.
    pub fn finished(&self) -> Option<TickOutcome> {
        self.finished
    }
    /// Returns for how long the watcher has seen no growth of the journal.
    pub fn idle_time(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_growth)
    }

    fn take(&mut self, batch: &JournalBatch) -> Result<()> {
        self.writer = Some(batch.header.writer.clone());
        for value in &batch.events {
            // All other events are irrelevant here, and may be large, so they are not parsed.
            match value.get("type").and_then(serde_json::Value::as_str) {
                Some("run_finished") => {
                    if let Event::RunFinished { outcome } = EventRecord::from_value(value)?.event {
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

fn ended(outcome: RunOutcome) -> TickOutcome {
    match outcome {
        RunOutcome::Succeeded => TickOutcome::Succeeded,
        RunOutcome::Failed => TickOutcome::Failed,
        RunOutcome::Cancelled => TickOutcome::Cancelled,
    }
}
