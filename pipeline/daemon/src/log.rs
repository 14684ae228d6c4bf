//! Reads and writes the log of a schedule in the store. The log consists of numbered create-only records, and of
//! periodic snapshots of the state, so that a long log need not be read from its beginning.

use crate::schedule::event::{ScheduleEvent, ScheduleRecord};
use crate::schedule::state::ScheduleState;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use std::ops::Range;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_store::{CreateOutcome, Store, layout};

/// Records between two snapshots.
const STATE_EVERY: u64 = 64;
/// Records that are read concurrently.
const READS_AT_ONCE: usize = 32;

/// A schedule's log, read up to some record.
#[derive(Debug, Clone)]
pub struct ScheduleLog {
    store: Store,
    name: String,
    state: ScheduleState,
}

impl ScheduleLog {
    /// Reads the log of a schedule to its end; the log may be empty. Errors: data (a record is damaged), those of the
    /// store.
    pub async fn open(store: &Store, name: &str) -> Result<Self> {
        let state = read_snapshot(store, name).await?;
        let mut log = Self { store: store.clone(), name: name.to_string(), state };
        log.refresh().await?;
        Ok(log)
    }
    /// Returns the schedule's name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns the state after the records read.
    pub fn state(&self) -> &ScheduleState {
        &self.state
    }
    /// Reads new records and applies them to the state. Errors: those of [`ScheduleLog::open`].
    pub async fn refresh(&mut self) -> Result<()> {
        loop {
            let path = layout::schedule_record(&self.name, self.state.next);
            let Some(bytes) = self.store.get(&path).await? else { return Ok(()) };
            self.accept(&path, &bytes)?;
        }
    }
    /// Returns the records of these numbers that exist, in order. Errors: those of [`ScheduleLog::open`].
    pub async fn records(&self, numbers: Range<u64>) -> Result<Vec<(u64, ScheduleRecord)>> {
        let numbers = numbers.start..numbers.end.min(self.state.next);
        let reads = numbers.map(|number| async move { Ok::<_, Error>((number, self.record(number).await?)) });
        let read: Vec<(u64, Option<ScheduleRecord>)> =
            futures::stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
        Ok(read.into_iter().filter_map(|(number, record)| Some((number, record?))).collect())
    }
    /// Returns the number of the first record at or after a time in Unix milliseconds, by a binary search. The clocks
    /// of several daemons may differ a little, so records next to it may belong to its other side.
    pub async fn first_at(&self, unix_millis: i64) -> Result<u64> {
        let (mut low, mut high) = (0, self.state.next);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.record(middle).await? {
                Some(record) if record.at >= unix_millis => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(low)
    }
    async fn record(&self, number: u64) -> Result<Option<ScheduleRecord>> {
        let path = layout::schedule_record(&self.name, number);
        let Some(bytes) = self.store.get(&path).await? else { return Ok(None) };
        self.parse(&path, &bytes).map(Some)
    }
    /// Appends the event that `decide` returns for the current state; if another process appends first, `decide` is
    /// called again. Returns the appended event, or `None` once `decide` returns `None`. `by` is unique to the process.
    ///
    /// Errors: those of [`ScheduleLog::open`]. The record may have been stored in spite of the error; the next refresh
    /// then reads it.
    pub async fn append(
        &mut self,
        at: i64,
        by: &str,
        mut decide: impl FnMut(&ScheduleState) -> Option<ScheduleEvent>,
    ) -> Result<Option<ScheduleEvent>> {
        self.refresh().await?;
        loop {
            let Some(event) = decide(&self.state) else { return Ok(None) };
            let record = ScheduleRecord { at, by: by.to_string(), event };
            let path = layout::schedule_record(&self.name, self.state.next);
            let bytes = encode(&path, &record)?;
            match self.store.create(&path, bytes.clone()).await.at(format!("schedule `{}`", self.name))? {
                CreateOutcome::Ours => {
                    self.accept(&path, &bytes)?;
                    self.write_snapshot().await;
                    return Ok(Some(record.event));
                }
                CreateOutcome::Theirs(bytes) => self.accept(&path, &bytes)?,
            }
        }
    }

    fn accept(&mut self, path: &str, bytes: &Bytes) -> Result<()> {
        let record = self.parse(path, bytes)?;
        self.state.apply(&record);
        Ok(())
    }
    fn parse(&self, path: &str, bytes: &Bytes) -> Result<ScheduleRecord> {
        serde_json::from_slice(bytes).map_err(|e| Error::data(format!("{}/{path} is damaged: {e}", self.store.url())))
    }
    /// Writes a snapshot after every [`STATE_EVERY`] records. If the write fails, the next reader only reads more
    /// records.
    async fn write_snapshot(&self) {
        if !self.state.next.is_multiple_of(STATE_EVERY) {
            return;
        }
        let path = layout::schedule_state(&self.name, self.state.next);
        let put = async { self.store.create(&path, encode(&path, &self.state)?).await };
        if let Err(error) = put.await {
            tracing::info!(schedule = self.name, %error, "cannot store the state of a schedule");
        }
    }
}

/// Returns the last snapshot; the empty state if there is no snapshot or the last one cannot be parsed.
async fn read_snapshot(store: &Store, name: &str) -> Result<ScheduleState> {
    let names = store.list(&layout::schedule_states(name)).await?;
    let Some(newest) = names.last() else { return Ok(ScheduleState::default()) };
    let bytes = store.get(newest).await?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
}

fn encode(path: &str, value: &impl serde::Serialize) -> Result<Bytes> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|e| Error::bug(format!("{path}: no JSON form: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_store::StoreOptions;

    async fn store() -> Store {
        Store::open("memory://", StoreOptions::default()).await.unwrap()
    }

    fn paused() -> ScheduleEvent {
        ScheduleEvent::Paused { why: None }
    }

    #[tokio::test]
    async fn concurrent_equal_decisions_are_recorded_once() {
        let store = store().await;
        let mut first = ScheduleLog::open(&store, "nightly").await.unwrap();
        let mut second = first.clone();
        let pause = |state: &ScheduleState| state.paused.is_none().then(paused);
        assert_eq!(first.append(1, "a", pause).await.unwrap(), Some(paused()));
        assert_eq!(second.append(2, "b", pause).await.unwrap(), None);
        assert_eq!(second.state().paused.as_ref().unwrap().by, "a");
    }

    #[tokio::test]
    async fn long_log_is_read_from_its_last_snapshot() {
        let store = store().await;
        let mut log = ScheduleLog::open(&store, "nightly").await.unwrap();
        for i in 0..i64::try_from(2 * STATE_EVERY + 3).unwrap() {
            let event = if i % 2 == 0 { paused() } else { ScheduleEvent::Resumed {} };
            log.append(i, "a", |_| Some(event.clone())).await.unwrap();
        }
        assert_eq!(store.list("schedules/nightly/state").await.unwrap().len(), 2);
        let again = ScheduleLog::open(&store, "nightly").await.unwrap();
        assert_eq!(again.state(), log.state());
        let full_log = {
            let mut log = ScheduleLog { store: store.clone(), name: "nightly".into(), state: ScheduleState::default() };
            log.refresh().await.unwrap();
            log
        };
        assert_eq!(full_log.state(), log.state(), "the fold depends on nothing but the records");
    }

    #[tokio::test]
    async fn records_are_found_by_number_and_by_time() {
        let mut log = ScheduleLog::open(&store().await, "nightly").await.unwrap();
        for at in [10, 20, 20, 30] {
            log.append(at, "a", |_| Some(paused())).await.unwrap();
        }
        let mut found = Vec::new();
        for at in [0, 10, 11, 20, 30, 31] {
            found.push(log.first_at(at).await.unwrap());
        }
        assert_eq!(found, [0, 0, 1, 1, 3, 4]);
        let records = log.records(2..9).await.unwrap();
        assert_eq!(records.iter().map(|(number, record)| (*number, record.at)).collect::<Vec<_>>(), [(2, 20), (3, 30)]);
    }

    #[tokio::test]
    async fn damaged_record_is_reported() {
        let store = store().await;
        store.create("schedules/nightly/log/0000000000", "{".into()).await.unwrap();
        let error = ScheduleLog::open(&store, "nightly").await.unwrap_err();
        assert!(error.message.contains("schedules/nightly/log/0000000000"), "{error}");
    }
}
