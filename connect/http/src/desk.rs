//! Requests from synchronous threads to asynchronous ones.

use crate::address::Address;
use crate::background::Background;
use crate::client::{Call, Client, Limits};
use crate::fault::{Fault, Reach};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tokio::task::AbortHandle;
use trainyard_core::{Error, Result, Secret};

/// Id of a request in flight; ids are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

type Answer = Result<Value, Fault>;

/// Sends requests to one service on separate threads. Requests in flight are cancelled when it is dropped.
pub struct Desk {
    background: Background,
    client: Arc<Client>,
    sender: Sender<(Ticket, Answer)>,
    receiver: Receiver<(Ticket, Answer)>,
    flying: BTreeMap<Ticket, AbortHandle>,
    next: u64,
}

impl Desk {
    /// Creates the desk without sending a request. `key` is the bearer token of every request.
    pub fn open(address: Address, key: Option<Secret>, limits: Limits) -> Result<Self> {
        let background = Background::start()?;
        let (sender, receiver) = channel();
        let client = Arc::new(Client::new(address, key.into(), limits)?);
        Ok(Self { background, client, sender, receiver, flying: BTreeMap::new(), next: 0 })
    }
    /// Sends a request and waits for its response.
    pub fn ask(&self, call: Call) -> Answer {
        self.start(call).recv().unwrap_or_else(|_| Err(gone()))
    }
    /// Sends requests together and waits for all responses, which are in the same order.
    pub fn ask_all(&self, calls: Vec<Call>) -> Vec<Answer> {
        let started: Vec<_> = calls.into_iter().map(|call| self.start(call)).collect();
        started.into_iter().map(|answer| answer.recv().unwrap_or_else(|_| Err(gone()))).collect()
    }
    /// Sends a request whose response [`Desk::next`] returns. `held` is dropped when the request is over.
    pub fn send(&mut self, call: Call, held: impl Send + 'static) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        let (client, sender) = (self.client.clone(), self.sender.clone());
        let handle = self.background.spawn(async move {
            let answer = client.exchange(&call).await;
            drop(held);
            // The receiver is gone if the desk is being dropped.
            sender.send((ticket, answer)).ok();
        });
        if let Some(handle) = handle {
            self.flying.insert(ticket, handle);
        }
        ticket
    }
    /// Returns the next response to a sent request, in the order of arrival, or `None` after `wait`.
    pub fn next(&mut self, wait: Duration) -> Option<(Ticket, Answer)> {
        let (ticket, answer) = self.receiver.recv_timeout(wait).ok()?;
        self.flying.remove(&ticket);
        Some((ticket, answer))
    }
    /// Cancels a request. Its response may have arrived already.
    pub fn forget(&mut self, ticket: Ticket) {
        if let Some(handle) = self.flying.remove(&ticket) {
            handle.abort();
        }
    }

    fn start(&self, call: Call) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        let client = self.client.clone();
        self.background.spawn(async move {
            sender.send(client.exchange(&call).await).ok();
        });
        receiver
    }
}

fn gone() -> Fault {
    Fault { status: None, reach: Reach::Taken, error: Error::bug("a request ended without an answer") }
}
