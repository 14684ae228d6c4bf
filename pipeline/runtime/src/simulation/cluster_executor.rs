//! Simulates the connection of one engine to the cluster. Requests take time; requests and responses get lost, and some
//! requests arrive late.

use super::process::Process;
use super::world::World;
use crate::executors::{AttemptState, AttemptTask, Capabilities, Control, Executor, Handle};
use futures::future::{BoxFuture, FutureExt};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Error, Result};

/// Connection of an engine to the cluster.
pub struct ClusterExecutor {
    pub world: Arc<World>,
    pub process: Arc<Process>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ExecutorRequestOutcome {
    Arrives,
    LostRequest,
    LostAnswer,
    /// The error is returned at once, and the request arrives after this time.
    Late(Duration),
}

impl ClusterExecutor {
    async fn travel(&self, draw: &mut PhiloxRng) {
        let slow = self.world.goes_wrong(draw, self.world.setting.executor_faults / 4);
        let millis = if slow { draw.below(30_000) } else { 1 + draw.below(60) };
        tokio::time::sleep(Duration::from_millis(millis)).await;
        self.process.goes_on().await;
    }
    fn fate(&self, draw: &mut PhiloxRng) -> ExecutorRequestOutcome {
        if !self.world.goes_wrong(draw, self.world.setting.executor_faults) {
            return ExecutorRequestOutcome::Arrives;
        }
        let (fate, name) = match draw.below(4) {
            0 | 1 => (ExecutorRequestOutcome::LostRequest, "requests to an executor lost"),
            2 => (ExecutorRequestOutcome::LostAnswer, "answers of an executor lost"),
            _ => (
                ExecutorRequestOutcome::Late(Duration::from_millis(draw.below(30_000))),
                "requests to an executor that arrived late",
            ),
        };
        self.world.trace.count(name);
        fate
    }
    /// Sends a request, executes it, and returns the response.
    async fn request<T>(&self, does: impl FnOnce(&Arc<World>) -> T + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
    {
        self.process.goes_on().await;
        let mut draw = self.world.draw("executor");
        self.travel(&mut draw).await;
        let answer = match self.fate(&mut draw) {
            ExecutorRequestOutcome::Arrives => Ok(does(&self.world)),
            ExecutorRequestOutcome::LostRequest => Err(unreachable()),
            ExecutorRequestOutcome::LostAnswer => {
                does(&self.world);
                Err(unreachable())
            }
            ExecutorRequestOutcome::Late(after) => {
                let world = self.world.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(after).await;
                    does(&world);
                });
                Err(unreachable())
            }
        };
        self.travel(&mut draw).await;
        answer
    }
}

fn unreachable() -> Error {
    Error::retryable("the cluster does not answer")
}

impl Executor for ClusterExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: true }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        let (owned, process) = (tasks.to_vec(), self.process.clone());
        let submit = move |world: &Arc<World>| {
            let one = |task: &AttemptTask| {
                let found = world.server.ledger.lock().unwrap().submits(&process, &task.spec);
                found.into_iter().for_each(|what| world.complain(what));
                world.cluster.submit(world, task)
            };
            owned.iter().map(one).collect::<Vec<Handle>>()
        };
        async move {
            match self.request(submit).await {
                Ok(handles) => handles.into_iter().map(Ok).collect(),
                Err(error) => tasks.iter().map(|_| Err(error.clone())).collect(),
            }
        }
        .boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        let handles = handles.to_vec();
        self.request(move |world| handles.iter().map(|handle| world.cluster.state(handle)).collect()).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        let handle = handle.clone();
        self.request(move |world| world.cluster.control(&handle, control)).boxed()
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        let (key, handle) = (task.key(), handle.cloned());
        self.request(move |world| world.cluster.find(&key, handle.as_ref())).boxed()
    }
}
