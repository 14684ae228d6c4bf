//! Cancelling a run from another process.
//!
//! The request is an object in the store that the run's writer looks for. If the writer is gone, or silent long enough
//! for a takeover, the end of the run is written in its place, which fences the writer should it still live.

use crate::context::RunContext;
use crate::resume::{WriterState, writer_name, writer_state};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use trainyard_core::event::{Event, Record, RunOutcome};
use trainyard_core::{Chance, Clock, Epoch, Error, Result, RunId};
use trainyard_engine::Input;
use trainyard_store::{JournalWriter, Store, layout};

/// How often a writer looks for a request: a disk is cheap to ask, a bucket is not.
const LOOK_LOCAL: Duration = Duration::from_secs(1);
const LOOK_REMOTE: Duration = Duration::from_secs(10);

/// What a request to cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// The writer will see the request within seconds.
    Requested,
    /// The writer was gone or silent; the run is ended.
    Ended,
    /// The run had finished before.
    AlreadyFinished,
}

/// Asks a run to stop. Errors: invalid (no such run), those of the store.
pub async fn cancel_run(store: &Store, run: &RunId, clock: &dyn Clock, chance: &Chance) -> Result<Cancelled> {
    let view = crate::resume::read_run(store, run).await?;
    if view.finished.is_some() {
        return Ok(Cancelled::AlreadyFinished);
    }
    if let WriterState::Alive(_) = writer_state(&view.writer, clock) {
        // The request is for this writer alone: if the run is resumed, the next one starts without it.
        store.create(&layout::cancel(run, view.writer.epoch), Bytes::from_static(b"{}\n")).await?;
        return Ok(Cancelled::Requested);
    }
    let name = writer_name(clock, chance);
    let record = |event| Record { at: clock.unix_millis(), event }.to_value();
    let opened = |epoch| record(Event::WriterOpened { epoch, writer: name.clone() }).unwrap_or_default();
    let (mut writer, _) = JournalWriter::open(store, run, &name, opened).await?;
    let events = [
        record(Event::CancelRequested { why: "asked for by another process".into() })?,
        record(Event::RunFinished { outcome: RunOutcome::Cancelled })?,
    ];
    writer.append(&events).await.map_err(Error::from)?;
    Ok(Cancelled::Ended)
}

/// Looks for a request until there is one or the run is over.
pub(crate) async fn watch(context: RunContext, run: RunId, epoch: Epoch, happened: UnboundedSender<Input>) {
    let every = if context.store.local_root().is_some() { LOOK_LOCAL } else { LOOK_REMOTE };
    let path = layout::cancel(&run, epoch);
    while !happened.is_closed() {
        tokio::time::sleep(every).await;
        // If the store cannot be read, look again later; the journal notices if it is gone for good.
        if let Ok(Some(_)) = context.store.get(&path).await {
            let _ = happened.send(Input::Cancel { why: "asked for by another process".into() });
            return;
        }
    }
}
