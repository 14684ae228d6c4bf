//! Writes the journal: collects the engine's events, writes them as one batch, and only then releases the commands that
//! wait for them.
//!
//! While one batch is being written, the next one is collected, so a slow store makes batches larger rather than the
//! run slower. On a fast store, a run of 100,000 small stages would write 30,000 batches, one file each; therefore a
//! batch waits some milliseconds for more while many stages are in progress. An idle writer appends a heartbeat every
//! 10 s. A failed write is retried under the same number as long as the store may be unavailable. Attempts continue
//! meanwhile, but commands that follow from their events wait for the batch.

use crate::context::RunContext;
use crate::retry::{RETRY_DELAYS, RequestTimer};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{Error, ErrorKind};
use trainyard_engine::Command;
use trainyard_store::{AppendError, JournalWriter, Store, WriterFenced};

/// Time between the heartbeats of an idle writer.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Number of records at which a batch is full.
const BATCH: usize = 4_096;
/// How long a batch waits for more records, if more are sure to follow.
const GATHER: Duration = Duration::from_millis(5);

/// Records to write, and the commands that wait for them.
#[derive(Default)]
pub(crate) struct JournalEntry {
    pub records: Vec<EventRecord>,
    pub commands: Vec<Command>,
    /// Number of entries merged into this one, including itself; 0 for a heartbeat.
    pub merged: usize,
    /// Whether so much is in progress that delaying this batch by a few milliseconds does no harm.
    pub more_follows: bool,
}

impl JournalEntry {
    fn add(&mut self, more: Self) {
        self.records.extend(more.records);
        self.commands.extend(more.commands);
        self.merged += more.merged;
        // The last entry has the current value.
        self.more_follows = more.more_follows;
    }
}

/// Report of the writer.
pub(crate) enum JournalAck {
    /// The records are durable, and the commands may be executed. The number is the number of the next batch.
    Durable(JournalEntry, u64),
    /// Another writer took over the run.
    Fenced(WriterFenced),
    /// The store does not accept the journal any more.
    Failed(Error),
}

/// Writes entries until their sender is dropped, another writer fences this one, or a write fails. Reports every entry
/// to `acks`.
pub(crate) async fn write(
    mut writer: JournalWriter,
    context: RunContext,
    mut entries: UnboundedReceiver<JournalEntry>,
    acks: UnboundedSender<JournalAck>,
) {
    loop {
        let mut entry = match tokio::time::timeout(HEARTBEAT, entries.recv()).await {
            Ok(Some(entry)) => entry,
            Ok(None) => return,
            Err(_) => JournalEntry {
                records: vec![EventRecord { at: context.clock.unix_millis(), event: Event::Heartbeat {} }],
                ..JournalEntry::default()
            },
        };
        gather(&mut entry, &mut entries).await;
        let ack = match put(&mut writer, &context.store, &entry.records).await {
            Ok(()) => JournalAck::Durable(entry, writer.position()),
            Err(AppendError::Fenced(fenced)) => JournalAck::Fenced(fenced),
            Err(AppendError::Failed(error)) => JournalAck::Failed(unreachable(error)),
        };
        let ended = !matches!(ack, JournalAck::Durable(..));
        if acks.send(ack).is_err() || ended {
            return;
        }
    }
}

/// Merges queued entries, and waits for more if many are expected.
async fn gather(entry: &mut JournalEntry, entries: &mut UnboundedReceiver<JournalEntry>) {
    let timeout = tokio::time::sleep(GATHER);
    tokio::pin!(timeout);
    while entry.records.len() < BATCH {
        if let Ok(more) = entries.try_recv() {
            entry.add(more);
            continue;
        }
        if !entry.more_follows {
            return;
        }
        tokio::select! {
            more = entries.recv() => match more {
                Some(more) => entry.add(more),
                None => return,
            },
            () = &mut timeout => return,
        }
    }
}

async fn put(writer: &mut JournalWriter, store: &Store, records: &[EventRecord]) -> Result<(), AppendError> {
    if records.is_empty() {
        return Ok(());
    }
    let mut timer = RequestTimer::now(store);
    let mut result = writer.append(records).await.map(|_| ());
    for wait in RETRY_DELAYS {
        match &result {
            Err(AppendError::Failed(error)) if error.kind == ErrorKind::Retryable && !timer.outage_exceeded() => {
                tokio::time::sleep(wait).await;
                timer = RequestTimer::now(store);
                result = writer.flush().await;
            }
            _ => break,
        }
    }
    result
}

/// Converts an error of a journal write to kind `lost`: without a journal, the run cannot use the store for any reason.
fn unreachable(error: Error) -> Error {
    Error { kind: ErrorKind::Lost, ..error.at("writing the run's journal") }
}
