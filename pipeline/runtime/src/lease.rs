//! Watches whether an attempt without a parent process may continue, which it may as long as its run has a live writer.
//!
//! A live writer appends a batch to the journal at least every 10 s, so the journal of a live writer grows. A writer
//! that takes over the run continues the numbering of the batches. This process measures silence with its own monotonic
//! clock, as for takeovers. A read that fails or takes long restarts the measurement, because an unavailable store
//! silences every writer.

use std::time::Duration;
use trainyard_core::attempt::{AttemptSpec, ORPHAN_TIMEOUT};
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{Clock, Result};
use trainyard_store::Store;

/// Time between two reads of the journal, unless the timeout is about as short.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Duration of a read after which the store counts as unavailable.
const SLOW: Duration = Duration::from_secs(5);

/// Why the lease of an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The journal of its run has had no writer for this long.
    Orphaned(Duration),
    /// The run has ended.
    RunOver,
}

/// Observations of the journal.
#[derive(Debug, PartialEq)]
struct WriterLease {
    timeout: Duration,
    /// Number of the next batch.
    end: u64,
    /// Time since which the journal has not grown.
    since: Duration,
}

/// One read of the journal: times of request and response, and the end of the journal.
struct JournalProbe {
    requested_at: Duration,
    answered_at: Duration,
    end: Result<u64>,
}

/// Conclusion from a read.
#[derive(Debug, PartialEq)]
enum WriterActivity {
    /// A writer is alive, or may be.
    Alive,
    /// The journal has not grown since the last read.
    Quiet,
    /// The journal has not grown for this long, which exceeds the timeout.
    Silent(Duration),
}

impl WriterLease {
    fn new(timeout: Duration, now: Duration) -> Self {
        Self { timeout, end: 0, since: now }
    }
    fn observe(&mut self, probe: &JournalProbe) -> WriterActivity {
        match probe.end {
            Ok(end) if end > self.end => {
                (self.end, self.since) = (end, probe.answered_at);
                WriterActivity::Alive
            }
            Ok(_) if probe.answered_at.saturating_sub(probe.requested_at) < SLOW => {
                // Measured up to the request: batches written after it count at the next read.
                let silence = probe.requested_at.saturating_sub(self.since);
                if silence >= self.timeout { WriterActivity::Silent(silence) } else { WriterActivity::Quiet }
            }
            _ => {
                self.since = probe.answered_at;
                WriterActivity::Alive
            }
        }
    }
}

/// Watches the run's journal until the attempt must stop, and returns why. `store` should not retry its requests.
pub async fn watch(store: &Store, spec: &AttemptSpec, clock: &dyn Clock) -> LeaseEnd {
    let timeout = spec.orphan_timeout_millis.map_or(ORPHAN_TIMEOUT, Duration::from_millis);
    let mut lease = WriterLease::new(timeout, clock.monotonic());
    // Number after the last batch read; 0 before the first successful read.
    let mut read = 0;
    loop {
        let requested_at = clock.monotonic();
        let end = store.journal_end(&spec.run, lease.end).await;
        let activity = lease.observe(&JournalProbe { requested_at, answered_at: clock.monotonic(), end });
        if let WriterActivity::Silent(silence) = activity {
            return LeaseEnd::Orphaned(silence);
        }
        // The journal of a finished run does not grow. A run that ended before this attempt began is found by the first
        // read.
        if (read == 0 || activity == WriterActivity::Quiet) && read != lease.end {
            match ends_the_run(store, spec, lease.end - 1).await {
                Ok(true) => return LeaseEnd::RunOver,
                Ok(false) => read = lease.end,
                Err(error) => tracing::info!(%error, "the end of the run's journal cannot be read"),
            }
        }
        tokio::time::sleep(POLL_INTERVAL.min(timeout / 2)).await;
    }
}

/// Returns whether the run ended in this batch.
async fn ends_the_run(store: &Store, spec: &AttemptSpec, number: u64) -> Result<bool> {
    let Some(batch) = store.journal_batch(&spec.run, number).await? else { return Ok(false) };
    let ends =
        |event| matches!(EventRecord::from_value(event), Ok(EventRecord { event: Event::RunFinished { .. }, .. }));
    Ok(batch.events.iter().any(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::attempt_spec;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::event::RunOutcome;
    use trainyard_core::{Error, SystemClock};
    use trainyard_store::{JournalWriter, StoreOptions};

    /// Returns the conclusions from reads given as (request, response, end), in seconds; without an end the read fails.
    fn seen(timeout: u64, probes: &[(u64, u64, Option<u64>)]) -> Vec<WriterActivity> {
        let mut lease = WriterLease::new(Duration::from_secs(timeout), Duration::ZERO);
        let probe = |&(request, response, end): &(u64, u64, Option<u64>)| JournalProbe {
            requested_at: Duration::from_secs(request),
            answered_at: Duration::from_secs(response),
            end: end.ok_or_else(|| Error::retryable("503")),
        };
        probes.iter().map(|l| lease.observe(&probe(l))).collect()
    }
    fn silent(seconds: u64) -> WriterActivity {
        WriterActivity::Silent(Duration::from_secs(seconds))
    }

    #[test]
    fn journal_without_growth_is_silent() {
        let looks = [(0, 0, Some(3)), (30, 30, Some(3)), (60, 60, Some(3)), (61, 61, Some(3))];
        assert_eq!(seen(61, &looks), [WriterActivity::Alive, WriterActivity::Quiet, WriterActivity::Quiet, silent(61)]);
        let looks = [(0, 0, Some(3)), (30, 30, Some(4)), (60, 60, Some(4)), (90, 90, Some(4))];
        assert_eq!(seen(60, &looks), [WriterActivity::Alive, WriterActivity::Alive, WriterActivity::Quiet, silent(60)]);
    }

    #[test]
    fn run_without_a_journal_is_silent() {
        assert_eq!(seen(10, &[(0, 0, Some(0)), (10, 10, Some(0))]), [WriterActivity::Quiet, silent(10)]);
    }

    #[test]
    fn unavailable_or_slow_store_is_not_silence() {
        let looks = [(0, 0, Some(3)), (50, 52, None), (60, 60, Some(3)), (111, 111, Some(3)), (112, 112, Some(3))];
        assert_eq!(
            seen(60, &looks),
            [WriterActivity::Alive, WriterActivity::Alive, WriterActivity::Quiet, WriterActivity::Quiet, silent(60)]
        );
        let looks = [(0, 0, Some(3)), (50, 80, Some(3)), (139, 139, Some(3)), (140, 140, Some(3))];
        assert_eq!(seen(60, &looks), [WriterActivity::Alive, WriterActivity::Alive, WriterActivity::Quiet, silent(60)]);
    }

    #[test]
    fn shrinking_journal_does_not_count_as_growth() {
        assert_eq!(
            seen(60, &[(0, 0, Some(9)), (30, 30, Some(2)), (60, 60, Some(9))])[1..],
            [WriterActivity::Quiet, silent(60)]
        );
    }

    async fn watched(store: &Store, spec: &AttemptSpec, clock: &dyn Clock) -> Option<LeaseEnd> {
        // Watching a live run never ends.
        tokio::time::timeout(Duration::from_millis(300), watch(store, spec, clock)).await.ok()
    }

    #[tokio::test]
    async fn finished_run_ends_the_lease_at_the_first_read() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let value = |event| EventRecord { at: 0, event }.to_value().unwrap();
        let spec = attempt_spec();
        let opened = |epoch| value(Event::WriterOpened { epoch, writer: "w".into() });
        let (mut writer, _) = JournalWriter::open(&store, &spec.run, "w", opened).await.unwrap();
        writer.append(&[value(Event::Heartbeat {})]).await.unwrap();
        let still = ManualClock::at_millis(0);
        assert_eq!(watched(&store, &spec, &still).await, None);
        let finished = Event::RunFinished { outcome: RunOutcome::Cancelled };
        writer.append(&[value(Event::CancelRequested { why: "x".into() }), value(finished)]).await.unwrap();
        assert_eq!(watched(&store, &spec, &still).await, Some(LeaseEnd::RunOver));
        // The run is resumed.
        writer.append(&[value(Event::Heartbeat {})]).await.unwrap();
        assert_eq!(watched(&store, &spec, &still).await, None);
    }

    #[tokio::test]
    async fn orphan_timeout_comes_from_the_spec() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let spec = AttemptSpec { orphan_timeout_millis: Some(20), ..attempt_spec() };
        let stop = watched(&store, &spec, &SystemClock::new()).await;
        assert!(matches!(stop, Some(LeaseEnd::Orphaned(silence)) if silence >= Duration::from_millis(20)), "{stop:?}");
    }
}
