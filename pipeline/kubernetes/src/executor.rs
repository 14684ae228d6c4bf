//! Implements the executor `kubernetes`: sends requests to the API server in order, and reports states of attempts to
//! the engine.

use crate::connection::KubeConnection;
use crate::explain;
use crate::manifest::{self, JobSubmission};
use crate::observation::JobObservation;
use crate::options::KubernetesOptions;
use crate::requests::{ATTEMPTS, ClusterObjects};
use crate::settings::KubernetesSettings;
use crate::tracker::AttemptTracker;
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;
use trainyard_core::clock::Clock;
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{
    AttemptState, AttemptTask, Capabilities, Control, Executor, ExecutorContext, Handle,
};

/// Number of Jobs created concurrently.
const CREATIONS: usize = 16;
/// Maximum number of Pods of an attempt whose output and events are shown.
const PODS: usize = 4;

/// The executor `kubernetes`: one Job per attempt.
pub struct KubernetesExecutor {
    settings: KubernetesSettings,
    connection: OnceCell<KubeConnection>,
    tracker: Mutex<AttemptTracker>,
    clock: Arc<dyn Clock>,
}

impl KubernetesExecutor {
    /// Name in pool definitions.
    pub const NAME: &str = "kubernetes";

    /// Creates the executor of a pool without contacting the cluster. Errors: invalid (the options).
    pub fn new(context: &ExecutorContext, options: KubernetesOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let settings = KubernetesSettings::new(context, options)?;
        Ok(Self { settings, connection: OnceCell::new(), tracker: Mutex::default(), clock })
    }

    async fn connection(&self) -> Result<&KubeConnection> {
        self.connection.get_or_try_init(|| KubeConnection::open(&self.settings.options)).await
    }
    async fn create(&self, task: &AttemptTask) -> Result<Handle> {
        self.reachable(task)?;
        let submission = JobSubmission::of(task);
        self.connection().await?.create(&manifest::job(&self.settings, &submission)).await?;
        Ok(Handle(submission.key))
    }
    /// Checks that Pods can open the store.
    fn reachable(&self, task: &AttemptTask) -> Result<()> {
        let unreachable = match task.store.local_root() {
            Some(folder) => !self.settings.mounts(folder),
            None => task.store.url().starts_with("memory:"),
        };
        if !unreachable {
            return Ok(());
        }
        let message = format!("Kubernetes: Pods cannot reach the store {}, which is on this machine", task.store.url());
        Err(Error::invalid(message).help(
            "use a store in a bucket, or mount its folder under the same path with the pool's option `volumes` and set \
             `shared_filesystem: true`",
        ))
    }
    async fn poll_states(&self, handles: &[Handle]) -> Result<Vec<AttemptState>> {
        let connection = self.connection().await?;
        let mut observations = Vec::with_capacity(handles.len());
        for batch in handles.chunks(ATTEMPTS) {
            let objects = connection.find(batch).await?;
            observations.extend(batch.iter().map(|handle| objects.observe(handle)));
        }
        let no_pod = observations.contains(&JobObservation::NoPod);
        let events = if no_pod { connection.events(explain::NO_POD).await } else { Vec::new() };
        // No failure is allowed from here on: `judge` forgets an attempt once it has returned the final state.
        let mut states = Vec::with_capacity(handles.len());
        for (handle, observation) in handles.iter().zip(observations) {
            let reason = if observation == JobObservation::NoPod { explain::no_pod(&handle.0, &events) } else { None };
            let mut result = self.judge(handle, observation);
            if result.delete
                && let Err(error) = connection.delete(&handle.0).await
            {
                tracing::warn!("cannot delete the Job of an attempt that cannot start, trying again: {error}");
            }
            if let (Some(reason), AttemptState::Pending { why }) = (reason, &mut result.state) {
                *why = Some(reason.to_string());
            }
            states.push(result.state);
        }
        Ok(states)
    }
    fn judge(&self, handle: &Handle, observation: JobObservation) -> crate::tracker::PollResult {
        let mut tracker = self.tracker.lock().unwrap_or_else(PoisonError::into_inner);
        tracker.judge(handle, observation, self.clock.monotonic())
    }
    async fn end(&self, handle: &Handle, control: Control) -> Result<()> {
        if control == Control::Run {
            return Ok(());
        }
        let connection = self.connection().await?;
        connection.delete(&handle.0).await?;
        if control == Control::Kill { connection.kill(handle).await } else { Ok(()) }
    }
    async fn find_submitted(&self, task: &AttemptTask, handle: Option<&Handle>) -> Result<Option<Handle>> {
        let handle = handle.cloned().unwrap_or_else(|| Handle(task.key()));
        Ok(self.connection().await?.job(&handle.0).await?.map(|_| handle))
    }
    async fn output(&self, handle: &Handle) -> Result<String> {
        let connection = self.connection().await?;
        let pods = connection.find(std::slice::from_ref(handle)).await?.pods;
        let mut text = String::new();
        for name in pods.iter().take(PODS).map(crate::pods::name) {
            if pods.len() > 1 {
                text += &format!("Pod {name}:\n");
            }
            text += &connection.log(name).await?;
        }
        Ok(text)
    }
    async fn report(&self, handle: &Handle) -> Result<Option<String>> {
        let connection = self.connection().await?;
        let ClusterObjects { jobs, pods } = connection.find(std::slice::from_ref(handle)).await?;
        let job = jobs.first();
        let workloads = match job.and_then(|job| job.metadata.uid.as_deref()) {
            Some(uid) if self.settings.options.queue.is_some() => connection.workloads(uid).await,
            _ => Vec::new(),
        };
        let mut events = Vec::new();
        for name in [handle.0.as_str()].into_iter().chain(pods.iter().take(PODS).map(crate::pods::name)) {
            events.extend(connection.events(&format!("involvedObject.name={name}")).await);
        }
        Ok(explain::report(job, &pods, &workloads, &events))
    }
}

impl Executor for KubernetesExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: self.settings.options.shared_filesystem }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        stream::iter(tasks).map(|task| self.create(task)).buffered(CREATIONS).collect().boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        self.poll_states(handles).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        self.end(handle, control).boxed()
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        self.find_submitted(task, handle).boxed()
    }
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        self.output(handle).boxed()
    }
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        self.report(handle).boxed()
    }
}
