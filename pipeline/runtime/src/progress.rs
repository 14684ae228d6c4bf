//! Stores the last progress of an attempt where other processes can read it, and reads that of a run.

use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::progress::{PROGRESS_INTERVAL, ProgressMeter, ProgressRecord};
use trainyard_core::{AttemptNumber, Clock, Error, ErrorKind, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_engine::pool::IN_PROCESS;
use trainyard_store::Store;

/// Attempts whose progress is read concurrently.
const AT_ONCE: usize = 8;

/// Progress that is not stored yet, and the time of the last write.
#[derive(Debug, Default)]
pub(crate) struct ProgressBuffer {
    meter: ProgressMeter,
    pending: Option<ProgressRecord>,
    written: Option<Duration>,
}

impl ProgressBuffer {
    /// Records a message; ignores those that are not progress.
    pub fn message(&mut self, message: &AttemptMessage, clock: &dyn Clock) {
        if let Some(record) = self.meter.measure(message, clock.monotonic(), clock.unix_millis()) {
            self.pending = Some(record);
        }
    }
    /// Returns the record to write now; `None` without news, or within [`PROGRESS_INTERVAL`] after the last write.
    pub fn take_due(&mut self, now: Duration) -> Option<ProgressRecord> {
        if self.written.is_some_and(|at| now.saturating_sub(at) < PROGRESS_INTERVAL) {
            return None;
        }
        let record = self.pending.take()?;
        self.written = Some(now);
        Some(record)
    }
}

/// Returns the last progress of every stage of the run that an attempt computes now. An unreadable record counts as
/// missing. Errors: those of the store.
pub async fn read_progress(store: &Store, run: &RunId, view: &RunView) -> Result<BTreeMap<StageKey, ProgressRecord>> {
    read_progress_of(store, run, reporting_attempts(view)).await
}

/// Returns the open attempts of a run that may report progress, in the order of its stages.
pub fn reporting_attempts(view: &RunView) -> Vec<(StageKey, AttemptNumber)> {
    let running = view.stages.iter().filter(|stage| view.finished.is_none() && stage.status == StageStatus::Running);
    let open = running.filter_map(|stage| {
        let attempt = stage.attempts.last().filter(|a| a.outcome.is_none() && a.pool != IN_PROCESS)?;
        Some((stage.key().clone(), attempt.number))
    });
    open.collect()
}

/// Returns the last progress of some attempts. An unreadable record counts as missing. Errors: those of the store.
pub async fn read_progress_of(
    store: &Store,
    run: &RunId,
    attempts: Vec<(StageKey, AttemptNumber)>,
) -> Result<BTreeMap<StageKey, ProgressRecord>> {
    let reads = attempts.into_iter().map(|(stage, attempt)| async move {
        let record = readable(store.progress(run, &stage, attempt).await)?;
        Ok::<_, Error>(record.map(|record| (stage, record)))
    });
    let records: Vec<Option<_>> = futures::stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
    Ok(records.into_iter().flatten().collect())
}

fn readable(record: Result<Option<ProgressRecord>>) -> Result<Option<ProgressRecord>> {
    match record {
        Err(error) if error.kind == ErrorKind::Data => Ok(None),
        record => record,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::clock::ManualClock;

    #[test]
    fn progress_is_written_at_most_every_two_seconds() {
        let (clock, mut buffer) = (ManualClock::at_millis(0), ProgressBuffer::default());
        let mut written = Vec::new();
        for done in 0..60u64 {
            let progress = AttemptMessage::Progress { done, total: 60, unit: "steps".into(), metric: None };
            buffer.message(&progress, &clock);
            // A report every 100 ms, on a simulated clock.
            written.extend(buffer.take_due(Duration::from_millis(100 * done)).map(|record| record.done));
        }
        assert_eq!(written, [0, 20, 40]);
        assert_eq!(buffer.take_due(Duration::from_secs(9)).map(|record| record.done), Some(59), "the last one");
        assert_eq!(buffer.take_due(Duration::from_secs(99)), None, "nothing changed");
    }
}
