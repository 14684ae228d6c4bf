//! Cancels a run from another process.
//!
//! The request is an object in the store, which the run's writer polls. If the writer is dead, or silent long enough
//! for a takeover, this process writes the end of the run to the journal instead. That batch fences the writer if it is
//! still alive.

use crate::context::RunContext;
use crate::resume::{LocalMachine, MachineProcesses, SILENCE, is_silent, open_run, writer_name};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use trainyard_core::event::{Event, EventRecord, RunOutcome};
use trainyard_core::{Chance, Clock, Epoch, Result, RunId};
use trainyard_engine::Input;
use trainyard_store::{AppendError, JournalReader, Store, layout};

/// Poll interval of a writer for cancel requests: a local disk is cheap to poll, a bucket is not.
const POLL_LOCAL: Duration = Duration::from_secs(1);
const POLL_REMOTE: Duration = Duration::from_secs(10);

/// Result of a cancel request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The writer will see the request within seconds.
    Requested,
    /// The writer was dead or silent, so this process ended the run.
    Ended,
    /// The run had finished before.
    AlreadyFinished,
}

/// Requests the cancellation of a run, and ends the run itself if the writer is dead. If the writer is on another host,
/// calls `note` and then watches the journal until the writer writes again, or was silent long enough for a takeover.
/// Errors: invalid (no such run), those of the store.
pub async fn cancel_run(
    store: &Store,
    run: &RunId,
    clock: &dyn Clock,
    chance: &Chance,
    note: impl Fn(&str),
) -> Result<CancelOutcome> {
    cancel_run_from(store, run, (&LocalMachine, clock, chance), note).await
}

/// Like [`cancel_run`], with the caller's view of the processes of its machine.
pub(crate) async fn cancel_run_from(
    store: &Store,
    run: &RunId,
    (processes, clock, chance): (&dyn MachineProcesses, &dyn Clock, &Chance),
    note: impl Fn(&str),
) -> Result<CancelOutcome> {
    let (view, reader) = open_run(store, run).await?;
    if view.finished.is_some() {
        return Ok(CancelOutcome::AlreadyFinished);
    }
    let alive = processes.is_alive(&view.writer.name);
    if alive != Some(false) {
        // The request is for this writer only: if the run is resumed, the next writer ignores it.
        store.create(&layout::cancel(run, view.writer.epoch), Bytes::from_static(b"{}\n")).await?;
        if alive == Some(true) {
            return Ok(CancelOutcome::Requested);
        }
        note(&format!(
            "requested run {run} to stop; its writer {} is on another host: waiting for {} s to see whether it still \
             writes",
            view.writer.name,
            SILENCE.as_secs()
        ));
        if !is_silent(store, &reader, clock).await? {
            return Ok(CancelOutcome::Requested);
        }
    }
    match end(reader, &writer_name(processes, clock, chance), clock, "requested by another process").await {
        Ok(()) => Ok(CancelOutcome::Ended),
        // The writer is alive after all and finds the request, or another process resumes the run.
        Err(AppendError::Fenced(_)) if alive.is_none() => Ok(CancelOutcome::Requested),
        Err(error) => Err(error.into()),
    }
}

/// Ends a run that has not begun, so that it never will: its journal gets a single first batch. `writer` is a unique
/// name. Returns false if the run has begun. Errors: those of the store.
pub async fn cancel_unstarted(store: &Store, run: &RunId, clock: &dyn Clock, writer: &str, why: &str) -> Result<bool> {
    match end(JournalReader::new(store, run), writer, clock, why).await {
        Ok(()) => Ok(true),
        Err(AppendError::Fenced(_)) => Ok(false),
        Err(AppendError::Failed(error)) => Err(error),
    }
}

/// Opens a writer after the batches that were read, and ends the run.
async fn end(reader: JournalReader, name: &str, clock: &dyn Clock, why: &str) -> Result<(), AppendError> {
    let record = |event| EventRecord { at: clock.unix_millis(), event }.to_value();
    let opened = |epoch| record(Event::WriterOpened { epoch, writer: name.to_string() }).unwrap_or_default();
    let mut writer = reader.open_writer(name, opened).await?;
    let events = [Event::CancelRequested { why: why.into() }, Event::RunFinished { outcome: RunOutcome::Cancelled }];
    let events = events.map(record).into_iter().collect::<Result<Vec<_>>>().map_err(AppendError::Failed)?;
    writer.append(&events).await.map(|_| ())
}

/// Polls for a cancel request until the run is over. On the first request, sends [`Input::Cancel`] and returns.
pub(crate) async fn watch(context: RunContext, run: RunId, epoch: Epoch, inputs: UnboundedSender<Input>) {
    let every = if context.store.local_root().is_some() { POLL_LOCAL } else { POLL_REMOTE };
    let path = layout::cancel(&run, epoch);
    while !inputs.is_closed() {
        tokio::time::sleep(every).await;
        // If the store cannot be read, retry later; the journal notices if it stays unavailable.
        if let Ok(Some(_)) = context.store.get(&path).await {
            let _ = inputs.send(Input::Cancel { why: "requested by another process".into() });
            return;
        }
    }
}
