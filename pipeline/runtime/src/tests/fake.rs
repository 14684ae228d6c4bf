//! Provides an executor without processes that relays messages. Its attempts act as the test defines.

use super::empty_result;
use crate::executors::{AttemptExit, AttemptState, AttemptTask, Capabilities, Control, Executor, Executors, Handle};
use futures::future::{BoxFuture, FutureExt, ready};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, watch};
use trainyard_core::attempt::{AttemptMessage, AttemptSpec};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, Result};

#[derive(Clone)]
pub enum FakeBehavior {
    Succeed,
    Fail(Error),
    /// Stores the checkpoint of this step, then fails.
    FailAfter(u64, Error),
    /// Runs until it is requested to stop.
    Hang,
    /// Waits for the gate, then succeeds.
    WaitFor(watch::Receiver<bool>),
    /// Waits for the gate, then fails.
    FailWhen(watch::Receiver<bool>, Error),
}

struct Fake {
    act: Box<dyn Fn(&AttemptSpec) -> FakeBehavior + Send + Sync>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    running: Mutex<HashMap<Handle, watch::Sender<Control>>>,
    ended: Mutex<HashMap<Handle, AttemptExit>>,
    changed: Notify,
}

/// Creates the executor of the pool `local`.
pub fn fake(act: impl Fn(&AttemptSpec) -> FakeBehavior + Send + Sync + 'static) -> Executors {
    let fake: Arc<dyn Executor> = Arc::new(Fake { act: Box::new(act), shared: Arc::default() });
    Executors::new([("local".to_string(), fake)])
}

impl Executor for Fake {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: true, outlives_engine: false, shares_files: true }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        let submit = |task: &AttemptTask| {
            let (control, controls) = watch::channel(Control::Run);
            let (handle, shared) = (Handle(task.key()), self.shared.clone());
            shared.running.lock().unwrap().insert(handle.clone(), control);
            let (act, task, own) = ((self.act)(&task.spec), task.clone(), handle.clone());
            tokio::spawn(async move {
                let ended = carry(act, task, controls).await;
                shared.ended.lock().unwrap().insert(own, ended);
                shared.changed.notify_one();
            });
            Ok(handle)
        };
        ready(tasks.iter().map(submit).collect()).boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        let mut ended = self.shared.ended.lock().unwrap();
        let mut state = |handle: &Handle| ended.remove(handle).map_or(AttemptState::Started, AttemptState::Ended);
        ready(Ok(handles.iter().map(&mut state).collect())).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        self.shared.running.lock().unwrap()[handle].send_replace(control);
        ready(Ok(())).boxed()
    }
    fn reattach<'a>(&'a self, _: &'a AttemptTask, _: Option<&'a Handle>) -> BoxFuture<'a, Result<Option<Handle>>> {
        ready(Ok(None)).boxed()
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        self.shared.changed.notified().boxed()
    }
}

async fn carry(act: FakeBehavior, task: AttemptTask, mut control: watch::Receiver<Control>) -> AttemptExit {
    task.reports.message(AttemptMessage::Metric { name: "loss".into(), step: 1, value: 0.5 });
    task.reports.raw("hello");
    match act {
        FakeBehavior::Fail(error) => return AttemptExit::with_error(AttemptOutcome::Failed, error),
        FakeBehavior::FailAfter(step, error) => {
            task.reports.message(AttemptMessage::Checkpoint { step });
            return AttemptExit::with_error(AttemptOutcome::Failed, error);
        }
        FakeBehavior::Hang => {
            let _ = control.wait_for(|w| *w > Control::Run).await;
            return AttemptExit::with_error(AttemptOutcome::Cancelled, Error::cancelled("stopped"));
        }
        FakeBehavior::FailWhen(mut gate, error) => {
            let _ = gate.wait_for(|open| *open).await;
            return AttemptExit::with_error(AttemptOutcome::Failed, error);
        }
        FakeBehavior::WaitFor(mut gate) => {
            if gate.wait_for(|open| *open).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        FakeBehavior::Succeed => {}
    }
    let result = empty_result(&task.spec);
    task.store.put_result(&result).await.unwrap();
    AttemptExit::succeeded(result)
}
