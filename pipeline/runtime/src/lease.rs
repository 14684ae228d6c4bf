//! An attempt that nobody holds goes on as long as its run has a living writer.
//!
//! A writer that lives puts a batch into the journal every 10 s at least, so a journal that grows is the sign; whoever
//! took the run over goes on with the same numbers. As where a run is taken over, silence is what this process has seen
//! itself by its own clock, and a look that fails or takes long says nothing: a store that is away silences everybody.

use std::time::Duration;
use trainyard_core::attempt::{AttemptSpec, ORPHAN_TIMEOUT};
use trainyard_core::event::{Event, Record};
use trainyard_core::{Clock, Result};
use trainyard_store::Store;

/// Time between two looks at the journal, unless the timeout is about as short.
const LOOK: Duration = Duration::from_secs(30);
/// Time of a look after which the store must have been away.
const SLOW: Duration = Duration::from_secs(5);

/// Why an attempt is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwanted {
    /// Nobody has written its run's journal for this long.
    Orphaned(Duration),
    /// Its run has ended.
    RunOver,
}

/// What has been seen of the journal.
#[derive(Debug, PartialEq)]
struct Lease {
    timeout: Duration,
    /// Number of the batch that comes next.
    end: u64,
    /// From when on the journal did not grow.
    since: Duration,
}

/// One look at the journal: when it was asked, when it answered, and its end.
struct Look {
    asked: Duration,
    answered: Duration,
    end: Result<u64>,
}

/// What a look says.
#[derive(Debug, PartialEq)]
enum Seen {
    /// A writer lives, or nobody can tell.
    Alive,
    /// Nothing was written since the last look.
    Quiet,
    /// Nothing was written for this long, which is too long.
    Silent(Duration),
}

impl Lease {
    fn new(timeout: Duration, now: Duration) -> Self {
        Self { timeout, end: 0, since: now }
    }
    fn see(&mut self, look: &Look) -> Seen {
        match look.end {
            Ok(end) if end > self.end => {
                (self.end, self.since) = (end, look.answered);
                Seen::Alive
            }
            Ok(_) if look.answered.saturating_sub(look.asked) < SLOW => {
                // Up to the question: what was written after it counts at the next one.
                let silence = look.asked.saturating_sub(self.since);
                if silence >= self.timeout { Seen::Silent(silence) } else { Seen::Quiet }
            }
            _ => {
                self.since = look.answered;
                Seen::Alive
            }
        }
    }
}

/// Watches until the attempt has to stop, and says why. The store should not be waited for.
pub async fn watch(store: &Store, spec: &AttemptSpec, clock: &dyn Clock) -> Unwanted {
    let timeout = spec.orphan_timeout_millis.map_or(ORPHAN_TIMEOUT, Duration::from_millis);
    let mut lease = Lease::new(timeout, clock.monotonic());
    // The batch in front of this number was read; none before the first look that is answered.
    let mut read = 0;
    loop {
        let asked = clock.monotonic();
        let end = store.journal_end(&spec.run, lease.end).await;
        let seen = lease.see(&Look { asked, answered: clock.monotonic(), end });
        if let Seen::Silent(silence) = seen {
            return Unwanted::Orphaned(silence);
        }
        // A run that is over writes nothing more. One that ended before this attempt began is known after the first
        // look.
        if (read == 0 || seen == Seen::Quiet) && read != lease.end {
            match ends_the_run(store, spec, lease.end - 1).await {
                Ok(true) => return Unwanted::RunOver,
                Ok(false) => read = lease.end,
                Err(error) => tracing::info!(%error, "the end of the run's journal cannot be read"),
            }
        }
        tokio::time::sleep(LOOK.min(timeout / 2)).await;
    }
}

/// Whether the run ended in this batch.
async fn ends_the_run(store: &Store, spec: &AttemptSpec, number: u64) -> Result<bool> {
    let Some(batch) = store.journal_batch(&spec.run, number).await? else { return Ok(false) };
    let ends = |event| matches!(Record::from_value(event), Ok(Record { event: Event::RunFinished { .. }, .. }));
    Ok(batch.events.iter().any(ends))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::Digest;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::event::RunOutcome;
    use trainyard_core::{Error, SystemClock};
    use trainyard_store::{JournalWriter, StoreOptions};

    /// Looks as (asked, answered, end), in seconds; no end is a look that failed.
    fn seen(timeout: u64, looks: &[(u64, u64, Option<u64>)]) -> Vec<Seen> {
        let mut lease = Lease::new(Duration::from_secs(timeout), Duration::ZERO);
        let look = |&(asked, answered, end): &(u64, u64, Option<u64>)| Look {
            asked: Duration::from_secs(asked),
            answered: Duration::from_secs(answered),
            end: end.ok_or_else(|| Error::retryable("503")),
        };
        looks.iter().map(|l| lease.see(&look(l))).collect()
    }
    fn silent(seconds: u64) -> Seen {
        Seen::Silent(Duration::from_secs(seconds))
    }

    #[test]
    fn a_journal_that_stands_still_for_the_whole_time_is_silent() {
        let looks = [(0, 0, Some(3)), (30, 30, Some(3)), (60, 60, Some(3)), (61, 61, Some(3))];
        assert_eq!(seen(61, &looks), [Seen::Alive, Seen::Quiet, Seen::Quiet, silent(61)]);
        let looks = [(0, 0, Some(3)), (30, 30, Some(4)), (60, 60, Some(4)), (90, 90, Some(4))];
        assert_eq!(seen(60, &looks), [Seen::Alive, Seen::Alive, Seen::Quiet, silent(60)]);
    }

    #[test]
    fn a_run_without_a_journal_is_silent_too() {
        assert_eq!(seen(10, &[(0, 0, Some(0)), (10, 10, Some(0))]), [Seen::Quiet, silent(10)]);
    }

    #[test]
    fn a_store_that_is_away_or_slow_is_no_silence() {
        let looks = [(0, 0, Some(3)), (50, 52, None), (60, 60, Some(3)), (111, 111, Some(3)), (112, 112, Some(3))];
        assert_eq!(seen(60, &looks), [Seen::Alive, Seen::Alive, Seen::Quiet, Seen::Quiet, silent(60)]);
        let looks = [(0, 0, Some(3)), (50, 80, Some(3)), (139, 139, Some(3)), (140, 140, Some(3))];
        assert_eq!(seen(60, &looks), [Seen::Alive, Seen::Alive, Seen::Quiet, silent(60)]);
    }

    #[test]
    fn a_journal_that_seems_to_shrink_did_not_grow() {
        assert_eq!(seen(60, &[(0, 0, Some(9)), (30, 30, Some(2)), (60, 60, Some(9))])[1..], [Seen::Quiet, silent(60)]);
    }

    fn spec() -> AttemptSpec {
        let spec = json!({
            "format": 1, "workflow": "w", "run": "20261121-000000-000000", "stage": "a", "attempt": 1,
            "stage_digest": Digest::of(b"a"), "kind": "test", "kind_version": 1, "config": null, "inputs": {},
            "outputs": {}, "resources": {"cpus": 1},
        });
        serde_json::from_value(spec).unwrap()
    }

    async fn watched(store: &Store, spec: &AttemptSpec, clock: &dyn Clock) -> Option<Unwanted> {
        // Whoever watches a living run never ends.
        tokio::time::timeout(Duration::from_millis(300), watch(store, spec, clock)).await.ok()
    }

    #[tokio::test]
    async fn a_run_that_is_over_is_noticed_at_the_first_look_and_one_that_goes_on_is_left_alone() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let value = |event| Record { at: 0, event }.to_value().unwrap();
        let spec = spec();
        let opened = |epoch| value(Event::WriterOpened { epoch, writer: "w".into() });
        let (mut writer, _) = JournalWriter::open(&store, &spec.run, "w", opened).await.unwrap();
        writer.append(&[value(Event::Heartbeat {})]).await.unwrap();
        let still = ManualClock::at_millis(0);
        assert_eq!(watched(&store, &spec, &still).await, None);
        let finished = Event::RunFinished { outcome: RunOutcome::Cancelled };
        writer.append(&[value(Event::CancelRequested { why: "x".into() }), value(finished)]).await.unwrap();
        assert_eq!(watched(&store, &spec, &still).await, Some(Unwanted::RunOver));
        // Somebody resumed it.
        writer.append(&[value(Event::Heartbeat {})]).await.unwrap();
        assert_eq!(watched(&store, &spec, &still).await, None);
    }

    #[tokio::test]
    async fn the_spec_says_how_long_a_writer_may_be_silent() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let spec = AttemptSpec { orphan_timeout_millis: Some(20), ..spec() };
        let stop = watched(&store, &spec, &SystemClock::new()).await;
        assert!(matches!(stop, Some(Unwanted::Orphaned(silence)) if silence >= Duration::from_millis(20)), "{stop:?}");
    }
}
