//! Detects whether a writer of another host still writes.
//!
//! The times in the journal come from the clock of the writer's host, which may differ from the clock of this host by
//! any amount. This process therefore measures silence itself: the journal must not grow while 30 s pass on the local
//! monotonic clock. An unavailable store silences every writer, so after a slow read the 30 s start again.

use crate::retry::{SHORT_RETRY_DELAYS, with_retries};
use std::time::Duration;
use trainyard_core::{Clock, Result};
use trainyard_store::{JournalReader, Store};

/// Silence after which a writer may be replaced. A live writer appends a heartbeat every 10 s.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Time between two reads of the journal.
const LOOK: Duration = Duration::from_millis(500);
/// Duration of a read after which the store counts as unavailable.
const SLOW: Duration = Duration::from_secs(5);

/// Waits until the journal grows past this position (`false`), or [`SILENCE`] has passed (`true`).
pub(crate) async fn is_silent(store: &Store, reader: &JournalReader, clock: &dyn Clock) -> Result<bool> {
    let mut silent_since = clock.monotonic();
    loop {
        // Taken before the read, so that the last read starts only after [`SILENCE`] has passed.
        let requested_at = clock.monotonic();
        let has_grown = with_retries(store, &SHORT_RETRY_DELAYS, || {
            let mut probe = reader.clone();
            async move { Ok(probe.next().await?.is_some()) }
        });
        if has_grown.await? {
            return Ok(false);
        }
        let answered_at = clock.monotonic();
        if answered_at.saturating_sub(requested_at) >= SLOW {
            silent_since = answered_at;
        } else if requested_at.saturating_sub(silent_since) >= SILENCE {
            return Ok(true);
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use trainyard_core::RunId;
    use trainyard_core::event::{Event, EventRecord};
    use trainyard_store::{JournalWriter, StoreOptions};

    /// Clock on which the first read takes 40 s, and which does not advance afterwards.
    #[derive(Default)]
    struct StalledClock(AtomicU64);
    impl Clock for StalledClock {
        fn unix_millis(&self) -> i64 {
            0
        }
        fn monotonic(&self) -> Duration {
            Duration::from_secs(if self.0.fetch_add(1, Ordering::SeqCst) < 2 { 0 } else { 40 })
        }
    }

    #[tokio::test]
    async fn store_outage_does_not_count_as_silence() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let run = RunId("20261121-000000-000000".into());
        let event = |event| EventRecord { at: 0, event }.to_value().unwrap();
        let opened = |epoch| event(Event::WriterOpened { epoch, writer: "elsewhere".into() });
        let (mut writer, _) = JournalWriter::open(&store, &run, "elsewhere", opened).await.unwrap();
        let mut reader = JournalReader::new(&store, &run);
        while reader.next().await.unwrap().is_some() {}
        let clock = Arc::new(StalledClock::default());
        let check = {
            let (store, clock) = (store.clone(), clock.clone());
            tokio::spawn(async move { is_silent(&store, &reader, clock.as_ref()).await })
        };
        // Several reads later the writer, which waited for the store as well, continues.
        while clock.0.load(Ordering::SeqCst) < 9 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!check.is_finished(), "it was taken for silent");
        }
        writer.append(&[event(Event::Heartbeat {})]).await.unwrap();
        assert!(!check.await.unwrap().unwrap());
    }
}
