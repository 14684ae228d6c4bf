//! The task between the attempts of one pool and its executor.
//!
//! Attempts that come within a moment are submitted with one request, and all states are asked for with one. The
//! executor may be out of reach: its attempts go on meanwhile, so it is only asked again.

use crate::context::Observer;
use crate::executors::{Control, Executor, Handle, State, Task};
use crate::patience::growing;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{oneshot, watch};
use trainyard_core::{Error, Result};

/// How long a launch waits for others that may go with it. An executor that relays is on this machine, where a request
/// costs nothing, so nothing waits there.
const GATHER: Duration = Duration::from_millis(200);

/// Where an attempt hears of its state; nothing before the first answer.
pub(super) type States = watch::Sender<Option<State>>;

/// What an attempt wants of its driver.
pub(super) enum Order {
    /// Submit it, answer with its handle, and tell its states.
    Submit { task: Box<Task>, answer: oneshot::Sender<Result<Handle>>, states: States },
    /// Tell the states of one that was submitted before.
    Watch { handle: Handle, states: States },
}

pub(super) struct Driver {
    pool: String,
    executor: Arc<dyn Executor>,
    observer: Arc<dyn Observer>,
    orders: UnboundedReceiver<Order>,
    live: Vec<(Handle, States)>,
    /// Looks that failed since the last that did not.
    failures: u32,
}

impl Driver {
    pub fn new(
        pool: &str,
        executor: Arc<dyn Executor>,
        observer: Arc<dyn Observer>,
        orders: UnboundedReceiver<Order>,
    ) -> Self {
        Self { pool: pool.to_string(), executor, observer, orders, live: Vec::new(), failures: 0 }
    }

    /// Drives until nobody can order any more.
    pub async fn run(mut self) {
        let executor = self.executor.clone();
        let mut changed: BoxFuture<'_, ()> = executor.changed();
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.take(order).await,
                    None => break,
                },
                () = &mut changed, if !self.live.is_empty() => {
                    // Made before the look, so that it sees what happens during it.
                    changed = executor.changed();
                    if !self.look().await {
                        let wait = growing(self.failures);
                        changed = Box::pin(tokio::time::sleep(wait));
                    }
                }
            }
        }
        self.leave().await;
    }

    /// Carries out an order and those that come with it.
    async fn take(&mut self, order: Order) {
        let mut submissions = Vec::new();
        self.sort(order, &mut submissions);
        if !submissions.is_empty() && !self.executor.capabilities().relays {
            tokio::time::sleep(GATHER).await;
        }
        while let Ok(order) = self.orders.try_recv() {
            self.sort(order, &mut submissions);
        }
        self.submit(submissions).await;
    }

    fn sort(&mut self, order: Order, submissions: &mut Vec<(Task, oneshot::Sender<Result<Handle>>, States)>) {
        match order {
            Order::Submit { task, answer, states } => submissions.push((*task, answer, states)),
            Order::Watch { handle, states } => self.live.push((handle, states)),
        }
    }

    async fn submit(&mut self, submissions: Vec<(Task, oneshot::Sender<Result<Handle>>, States)>) {
        let (mut tasks, mut waiting) = (Vec::new(), Vec::new());
        // Who does not wait any more was stopped, or belongs to another engine by now.
        for (task, answer, states) in submissions.into_iter().filter(|(_, answer, _)| !answer.is_closed()) {
            tasks.push(task);
            waiting.push((answer, states));
        }
        if tasks.is_empty() {
            return;
        }
        tracing::debug!(pool = self.pool, attempts = tasks.len(), "attempts submitted");
        for (handle, (answer, states)) in self.executor.submit(&tasks).await.into_iter().zip(waiting) {
            if let Ok(handle) = &handle {
                self.live.push((handle.clone(), states));
            }
            // Nobody listens: then nobody takes the states either, and the next look finds that.
            let _ = answer.send(handle);
        }
    }

    /// Asks for all states. Returns whether the executor answered.
    async fn look(&mut self) -> bool {
        self.release().await;
        let handles: Vec<Handle> = self.live.iter().map(|(handle, _)| handle.clone()).collect();
        let answer = match self.executor.poll(&handles).await {
            Ok(states) if states.len() == handles.len() => Ok(states),
            Ok(states) => {
                Err(Error::bug(format!("it was asked for {} states and told {}", handles.len(), states.len())))
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(states) => {
                self.reached();
                self.tell(states);
                true
            }
            Err(error) => {
                self.unreached(&error);
                false
            }
        }
    }

    fn tell(&mut self, states: Vec<State>) {
        let mut states = states.into_iter();
        self.live.retain(|(_, told)| {
            let Some(state) = states.next() else { return true };
            let goes_on = !matches!(state, State::Ended(_));
            let state = Some(state);
            told.send_if_modified(|before| {
                let news = *before != state;
                if news {
                    *before = state;
                }
                news
            });
            goes_on
        });
    }

    fn reached(&mut self) {
        if self.failures > 0 {
            self.observer.note(&format!("pool `{}` answers again", self.pool));
        }
        self.failures = 0;
    }

    fn unreached(&mut self, error: &Error) {
        tracing::info!(pool = self.pool, failures = self.failures, %error, "states are not known");
        if self.failures == 0 {
            let pool = &self.pool;
            self.observer.note(&format!("pool `{pool}` cannot be asked now, its attempts go on: {error}"));
        }
        self.failures += 1;
    }

    /// Forgets attempts that nobody follows any more. They go on only where they outlive the engine.
    async fn release(&mut self) {
        let outlive = self.executor.capabilities().outlives_engine;
        let mut left = Vec::new();
        self.live.retain(|(handle, states)| {
            let followed = !states.is_closed();
            if !followed && !outlive {
                left.push(handle.clone());
            }
            followed
        });
        self.kill(&left).await;
    }

    /// The run is over, or left to another engine.
    async fn leave(mut self) {
        let live = std::mem::take(&mut self.live);
        if !self.executor.capabilities().outlives_engine {
            let handles: Vec<Handle> = live.into_iter().map(|(handle, _)| handle).collect();
            self.kill(&handles).await;
        }
    }

    async fn kill(&self, handles: &[Handle]) {
        for handle in handles {
            if let Err(error) = self.executor.cancel(handle, Control::Kill).await {
                tracing::info!(pool = self.pool, handle = handle.0, %error, "an attempt was not stopped");
            }
        }
    }
}
