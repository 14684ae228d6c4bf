//! Simulates the executor of an engine's machine. The executor holds the pipes of its attempts, which therefore end
//! with the engine.

use super::attempt::run_on_pipes;
use super::process::Process;
use super::world::World;
use crate::executors::{AttemptExit, AttemptState, AttemptTask, Capabilities, Control, Executor, Handle};
use futures::future::{BoxFuture, FutureExt, ready};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind, Result};

/// Maximum time that an attempt outlives its engine, in milliseconds.
const ORPHANED: u64 = 2_000;

pub struct InProcessExecutor {
    world: Arc<World>,
    engine: Arc<Process>,
    table: Arc<Table>,
}

#[derive(Default)]
struct Table {
    attempts: Mutex<BTreeMap<Handle, (AttemptState, watch::Sender<Control>)>>,
    changed: Notify,
}

impl InProcessExecutor {
    pub fn new(world: &Arc<World>, engine: &Arc<Process>) -> Self {
        Self { world: world.clone(), engine: engine.clone(), table: Arc::default() }
    }

    fn start(&self, task: &AttemptTask) -> Handle {
        let (handle, process) = (Handle(task.key()), self.world.population.born(self.engine.host));
        let (control, controls) = watch::channel(Control::Run);
        {
            let mut ledger = self.world.server.ledger.lock().unwrap();
            let mut found = ledger.submits(&self.engine, &task.spec);
            found.extend(ledger.starts(&process, &task.folder));
            found.into_iter().for_each(|what| self.world.complain(what));
        }
        self.world.trace.count("attempts started");
        self.world
            .trace
            .record(self.engine.name(), format_args!("starts {} of {}", task.spec.attempt, task.spec.stage));
        self.table.attempts.lock().unwrap().insert(handle.clone(), (AttemptState::Started, control));
        let (world, engine, table, own) = (self.world.clone(), self.engine.clone(), self.table.clone(), handle.clone());
        let task = task.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                biased;
                () = orphaned(&world, &engine) => None,
                ended = carry(&world, &process, &task, controls) => Some(ended),
            };
            process.end();
            if let Some(ended) = ended {
                if let Some((state, _)) = table.attempts.lock().unwrap().get_mut(&own) {
                    *state = AttemptState::Ended(ended);
                }
                table.changed.notify_one();
            }
        });
        handle
    }
}

/// Waits until the engine has ended, and a moment longer until its attempts have ended too.
async fn orphaned(world: &World, engine: &Process) {
    engine.until_it_ends().await;
    let after = world.draw("orphaned").below(ORPHANED);
    tokio::time::sleep(Duration::from_millis(after)).await;
}

async fn carry(
    world: &Arc<World>,
    process: &Arc<Process>,
    task: &AttemptTask,
    mut control: watch::Receiver<Control>,
) -> AttemptExit {
    let mut draw = world.draw("near");
    let dies = world.goes_wrong(&mut draw, world.setting.lost_machines / 2);
    let after = if dies { Duration::from_millis(draw.below(10_000)) } else { Duration::MAX };
    let store = world.store_of(process, task.store.options().outage).await;
    let reports = task.reports.clone();
    let name = process.name();
    let limit = task.timeout.unwrap_or(Duration::MAX);
    let stopped = async {
        if control.wait_for(|wanted| *wanted > Control::Run).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = stopped => AttemptExit::cancelled(),
        () = tokio::time::sleep(after) => {
            world.trace.count("attempts killed");
            AttemptExit::with_error(AttemptOutcome::Lost, Error::lost("ended with signal 9"))
        }
        () = tokio::time::sleep(limit) => AttemptExit::timed_out(task.timeout),
        result = run_on_pipes(world, &store, &task.spec, &name, |message| reports.message(message)) => match result {
            Ok(result) => AttemptExit::succeeded(result),
            Err(error) if error.kind == ErrorKind::Lost => AttemptExit::with_error(AttemptOutcome::Lost, error),
            Err(error) => AttemptExit::with_error(AttemptOutcome::Failed, error),
        },
    }
}

impl Executor for InProcessExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: true, outlives_engine: false, shares_files: true }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        async move {
            self.engine.goes_on().await;
            tasks.iter().map(|task| Ok(self.start(task))).collect()
        }
        .boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        let attempts = self.table.attempts.lock().unwrap();
        let lost = || {
            AttemptState::Ended(AttemptExit::with_error(AttemptOutcome::Lost, Error::lost("there is no such process")))
        };
        let state = |handle: &Handle| attempts.get(handle).map_or_else(lost, |(state, _)| state.clone());
        ready(Ok(handles.iter().map(state).collect())).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        if let Some((_, wanted)) = self.table.attempts.lock().unwrap().get(handle) {
            wanted.send_replace(control);
        }
        ready(Ok(())).boxed()
    }
    fn reattach<'a>(&'a self, _: &'a AttemptTask, _: Option<&'a Handle>) -> BoxFuture<'a, Result<Option<Handle>>> {
        ready(Ok(None)).boxed()
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        self.table.changed.notified().boxed()
    }
}
