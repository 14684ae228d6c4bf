//! Provides a cluster that relays no messages and outlives engines. Its jobs follow the script of a test and
//! communicate only through the store.

use super::empty_result;
use crate::executors::{AttemptExit, AttemptState, AttemptTask, Capabilities, Control, Executor, Executors, Handle};
use futures::future::{BoxFuture, FutureExt, ready};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use trainyard_core::attempt::{AttemptFailure, AttemptMessage, Heartbeat, Phase};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Clock, Error, Result};

/// Clock that follows the paused time of a test.
pub struct PausedClock(tokio::time::Instant);

impl PausedClock {
    #[expect(clippy::disallowed_methods, reason = "paused time is injected time")]
    pub fn new() -> Self {
        Self(tokio::time::Instant::now())
    }
}

impl Clock for PausedClock {
    fn unix_millis(&self) -> i64 {
        self.monotonic().as_millis() as i64
    }
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

pub async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

type Script = Box<dyn Fn(Job) -> BoxFuture<'static, ()> + Send + Sync>;

/// Machines that no engine owns.
pub struct Cluster {
    script: Script,
    inner: Mutex<Inner>,
}

#[derive(Default)]
pub struct Inner {
    jobs: BTreeMap<Handle, (String, AttemptState)>,
    /// Stages of each submission request.
    pub submissions: Vec<Vec<String>>,
    /// Cancelled handles, with the requested control.
    pub cancels: Vec<(Handle, Control)>,
    /// Handles of reattach requests.
    pub reattached: Vec<Option<Handle>>,
    /// Errors of the next submissions.
    pub refusals: VecDeque<Error>,
    /// Number of polls and reattachments that fail from now on.
    pub away: u32,
    /// Whether submissions are accepted without a response.
    pub mute: bool,
    /// Output of jobs as kept by the cluster.
    pub kept: String,
}

/// Job, as seen by its script.
#[derive(Clone)]
pub struct Job {
    pub cluster: Arc<Cluster>,
    pub task: AttemptTask,
    pub handle: Handle,
}

impl Cluster {
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { script: Box::new(move |job| script(job).boxed()), inner: Mutex::default() })
    }
    /// Creates a cluster whose jobs run for `time` seconds, with heartbeats, and succeed.
    pub fn succeeding_after(time: u64) -> Arc<Self> {
        Self::new(move |job| async move {
            job.runs_for(time).await;
            job.succeeds().await;
        })
    }
    pub fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
    /// Returns the connection of an engine, as the pool `local`.
    pub fn executors(self: &Arc<Self>) -> Executors {
        let remote: Arc<dyn Executor> = Arc::new(FakeRemoteExecutor(self.clone()));
        Executors::new([("local".to_string(), remote)])
    }
    /// Forgets all jobs, like a cluster that was reinstalled.
    pub fn forget(&self) {
        self.inner().jobs.clear();
    }

    fn start(self: &Arc<Self>, task: &AttemptTask) -> Result<Handle> {
        let mut inner = self.inner();
        if let Some(error) = inner.refusals.pop_front() {
            return Err(error);
        }
        let key = task.key();
        assert!(key.len() <= 63 && key.starts_with('t'), "{key}");
        if let Some((handle, _)) = inner.jobs.iter().find(|(_, (other, _))| *other == key) {
            return Ok(handle.clone());
        }
        let handle = Handle(format!("job-{}", inner.jobs.len() + 1));
        inner.jobs.insert(handle.clone(), (key, AttemptState::Pending { why: None }));
        drop(inner);
        tokio::spawn((self.script)(Job { cluster: self.clone(), task: task.clone(), handle: handle.clone() }));
        Ok(handle)
    }
    fn reach(&self) -> Result<()> {
        let mut inner = self.inner();
        if inner.away == 0 {
            return Ok(());
        }
        inner.away -= 1;
        Err(Error::retryable("connection refused"))
    }
}

impl Job {
    pub fn is(&self, state: AttemptState) {
        if let Some((_, now)) = self.cluster.inner().jobs.get_mut(&self.handle) {
            *now = state;
        }
    }
    pub fn waits(&self, why: &str) {
        self.is(AttemptState::Pending { why: Some(why.into()) });
    }
    pub fn starts(&self) {
        self.is(AttemptState::Started);
    }
    pub fn ends(&self, ended: AttemptExit) {
        self.is(AttemptState::Ended(ended));
    }
    pub async fn beats(&self, beat: u64, done: u64, checkpoint: Option<u64>) {
        let progress = Some(AttemptMessage::Progress { done, total: 9, unit: "steps".into(), metric: None });
        let (host, phase) = ("node-1".to_string(), Phase::Running);
        let heartbeat = Heartbeat { format: 1, beat, at: 0, host, phase, progress, checkpoint };
        // If the store is unavailable, the heartbeat is lost, as for a real attempt.
        let _ = self.task.store.put_heartbeat(&self.task.spec, &heartbeat).await;
    }
    /// Runs for `time` seconds, with heartbeats.
    pub async fn runs_for(&self, time: u64) {
        self.starts();
        for beat in 0..time / 10 {
            self.beats(beat + 1, 0, None).await;
            seconds(10).await;
        }
    }
    pub async fn leaves_its_result(&self) {
        self.task.store.put_result(&empty_result(&self.task.spec)).await.unwrap();
    }
    pub async fn leaves_a_failure(&self, outcome: AttemptOutcome, error: Error) {
        self.leaves(AttemptFailure { unwanted: false, ..self.failure(outcome, error) }).await;
    }
    /// Ends like an attempt whose run has no live writer.
    pub async fn is_unwanted(&self) {
        let failure = self.failure(AttemptOutcome::Lost, Error::lost("its run has had no living writer for 1h"));
        self.leaves(failure).await;
        self.ends(AttemptExit::with_error(AttemptOutcome::Failed, Error::bug("ended with exit code 1")));
    }
    fn failure(&self, outcome: AttemptOutcome, error: Error) -> AttemptFailure {
        let spec = &self.task.spec;
        let (run, stage, attempt) = (spec.run.clone(), spec.stage.clone(), spec.attempt);
        AttemptFailure { format: 1, run, stage, attempt, outcome, error, unwanted: true }
    }
    async fn leaves(&self, failure: AttemptFailure) {
        self.task.store.put_failure(&failure).await.unwrap();
    }
    pub async fn succeeds(&self) {
        self.leaves_its_result().await;
        self.ends(AttemptExit::succeeded_unread());
    }
}

struct FakeRemoteExecutor(Arc<Cluster>);

impl Executor for FakeRemoteExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: false }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        async move {
            let names = tasks.iter().map(|task| task.spec.stage.0.clone()).collect();
            self.0.inner().submissions.push(names);
            let handles = tasks.iter().map(|task| self.0.start(task)).collect();
            let mute = self.0.inner().mute;
            if mute { std::future::pending().await } else { handles }
        }
        .boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        let states = self.0.reach().map(|()| {
            let inner = self.0.inner();
            let lost = || {
                AttemptState::Ended(AttemptExit::with_error(
                    AttemptOutcome::Lost,
                    Error::lost("the cluster does not know it"),
                ))
            };
            handles.iter().map(|handle| inner.jobs.get(handle).map_or_else(lost, |(_, state)| state.clone())).collect()
        });
        ready(states).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        let mut inner = self.0.inner();
        inner.cancels.push((handle.clone(), control));
        if control == Control::Kill
            && let Some((_, state)) = inner.jobs.get_mut(handle)
        {
            *state = AttemptState::Ended(AttemptExit::with_error(
                AttemptOutcome::Cancelled,
                Error::cancelled("cancelled by its user"),
            ));
        }
        ready(Ok(())).boxed()
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        let found = self.0.reach().map(|()| {
            let mut inner = self.0.inner();
            inner.reattached.push(handle.cloned());
            let known =
                |(other, (key, _)): &(&Handle, &(String, AttemptState))| Some(*other) == handle || *key == task.key();
            inner.jobs.iter().find(known).map(|(handle, _)| handle.clone())
        });
        ready(found).boxed()
    }
    fn logs<'a>(&'a self, _: &'a Handle) -> BoxFuture<'a, Result<String>> {
        ready(Ok(self.0.inner().kept.clone())).boxed()
    }
}
