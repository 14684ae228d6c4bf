//! Reads the store for the screens, in a separate thread. A turn reads a bounded number of objects: new events of the
//! journal, the progress of some running stages, and new chunks of the selected stage's log and curves.

mod runs;
mod stage;
mod streams;
mod tail;

use super::model::ReadRequest;
use super::state::TopEvent;
use runs::RunList;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use tail::RunTail;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use trainyard_core::{Clock, Error, Result};
use trainyard_store::Store;

/// Interval between two turns.
const EVERY: Duration = Duration::from_secs(1);

/// Reader of a store.
pub struct Reader<'a> {
    store: &'a Store,
    clock: &'a (dyn Clock + Sync),
    list: RunList,
    open: Option<RunTail>,
}

impl<'a> Reader<'a> {
    pub fn new(store: &'a Store, clock: &'a (dyn Clock + Sync)) -> Self {
        Self { store, clock, list: RunList::default(), open: None }
    }

    /// Reads what the screen requests, until the sender of requests is gone or `quit` is notified.
    pub fn run(mut self, handle: &Handle, requests: &Receiver<ReadRequest>, events: &Sender<TopEvent>, quit: &Notify) {
        let mut request = ReadRequest::default();
        loop {
            match requests.recv_timeout(EVERY) {
                Ok(next) => request = requests.try_iter().last().unwrap_or(next),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let turn = async {
                tokio::select! {
                    event = self.turn(&request) => Some(event),
                    () = quit.notified() => None,
                }
            };
            let Some(event) = handle.block_on(turn) else { return };
            let event = event.unwrap_or_else(|error| TopEvent::ReadFailed(format!("cannot read the store: {error}")));
            if events.send(event).is_err() {
                return;
            }
        }
    }

    /// Reads what is new for a screen.
    pub async fn turn(&mut self, request: &ReadRequest) -> Result<TopEvent> {
        require_folder(self.store)?;
        let Some(run) = &request.run else {
            // The list holds its own views of live runs.
            self.open = None;
            return Ok(TopEvent::Runs(self.list.turn(self.store, self.clock).await?));
        };
        let mut tail = match self.open.take().filter(|tail| tail.run == *run) {
            Some(tail) => tail,
            None => RunTail::open(self.store, run).await?,
        };
        let model = tail.turn(self.store, self.clock, request.stage.as_ref()).await;
        // Kept after an error, too: the next turn continues where this one stopped.
        self.open = Some(tail);
        Ok(TopEvent::Run(Box::new(model?)))
    }
}

/// Requires that the folder of a local store exists, since a listing of a missing folder is empty.
fn require_folder(store: &Store) -> Result<()> {
    match store.local_root() {
        Some(root) if !root.is_dir() => Err(Error::lost(format!("the folder {} is missing", root.display()))),
        _ => Ok(()),
    }
}
