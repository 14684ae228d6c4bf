//! Implements the executor `ray`, which submits every attempt as a job of a Ray cluster through the Ray Jobs API of the
//! cluster's dashboard.
//!
//! A job's submission id is the attempt's key, so Ray itself refuses a second submission. Ray behaves unexpectedly in
//! three ways. Ray keeps a job that fits no node pending without a message, so the nodes are queried first. Ray queues
//! a request to stop a pending job until it starts the job, and then ends the job at once. Such an attempt therefore
//! counts as over; a running attempt is over only when the status of its job is final, regardless of Ray's response to
//! the stop request. Ray fails a job that waits for a node longer than 15 minutes, unless its head is configured
//! otherwise.

mod client;
mod job;
mod nodes;
mod options;
mod outcome;
mod resources;
#[cfg(test)]
mod tests;

pub use options::RayOptions;

use super::{AttemptState, AttemptTask, BoxFuture, Capabilities, Control, Executor, Handle, Launcher};
use client::{RayClient, SubmitResult};
use futures::stream::{self, StreamExt as _};
use job::{RayJob, RayJobRequest, RayJobStatus, RayJobTemplate};
use nodes::RayNode;
use resources::RayResources;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;
/// Maximum number of attempts that are polled one by one.
const FEW: usize = 8;
/// Number of jobs that Ray lists in the time of one query for a single job (measured: 0.35 ms per listed job, 6 ms per
/// query). Ray's list contains every job ever submitted.
const LISTED_FOR_ONE: usize = 16;

/// The executor `ray`: jobs of one Ray cluster.
pub struct RayExecutor {
    api: RayClient,
    template: RayJobTemplate,
    /// Resources of every attempt in addition to its share.
    custom: RayResources,
    autoscaling: bool,
    shares_files: bool,
    interval: Duration,
    /// Number of jobs in Ray's list when it was last read.
    listed: AtomicUsize,
    /// Jobs that were requested to stop, and whether Ray has forwarded the request. A later engine does not know them.
    stops: Mutex<BTreeMap<Handle, bool>>,
}

impl RayExecutor {
    /// Name in pool definitions.
    pub const NAME: &str = "ray";

    /// Creates the executor of the cluster in the options without sending a request. Errors: invalid (the options).
    pub fn new(launcher: &Launcher, options: &RayOptions) -> Result<Self> {
        Ok(Self {
            api: RayClient::new(options)?,
            template: RayJobTemplate::new(launcher, options)?,
            custom: options.custom_resources()?,
            autoscaling: options.autoscaling,
            shares_files: options.shared_filesystem,
            interval: options.interval()?,
            listed: AtomicUsize::new(0),
            stops: Mutex::default(),
        })
    }
    async fn submit_all(&self, tasks: &[AttemptTask]) -> Vec<Result<Handle>> {
        // Without a response every task is accepted; if Ray is unreachable, the submissions will fail.
        let nodes = self.api.nodes().await.ok().flatten().unwrap_or_default();
        let submissions: Vec<_> = tasks.iter().map(|task| self.submit_one(task, &nodes)).collect();
        stream::iter(submissions).buffered(AT_ONCE).collect().await
    }
    async fn submit_one(&self, task: &AttemptTask, nodes: &[RayNode]) -> Result<Handle> {
        let [share] = task.grant.shares.as_slice() else {
            let error = Error::invalid(format!(
                "the executor `ray` cannot start an attempt on {} nodes",
                task.grant.shares.len()
            ));
            return Err(error.help("set `nodes: 1`, or use a pool with another executor"));
        };
        let request = RayResources::of(share, &self.custom);
        if let Some(reason) = nodes::infeasible_reason(nodes, &request)
            && !self.autoscaling
        {
            let error = Error::invalid(format!("the Ray cluster at {} cannot run this: {reason}", self.api.address()));
            return Err(
                error.help("request less, correct the pool, or set its `autoscaling: true` if nodes can be added")
            );
        }
        let submission = RayJobRequest::new(&self.template, task, &request);
        let submitted = self.api.submit(&submission).await?;
        tracing::debug!(
            job = submission.submission_id,
            before = submitted == SubmitResult::Existing,
            "submitted to Ray"
        );
        Ok(Handle(submission.submission_id))
    }
    async fn states(&self, handles: &[Handle]) -> Result<Vec<AttemptState>> {
        let jobs = self.jobs(handles).await?;
        self.repeat_stops(handles, &jobs).await;
        let pending = jobs.iter().flatten().any(|job| job.status == RayJobStatus::Pending);
        // A failure to find the reason why a job waits is ignored.
        let nodes = if pending { self.api.nodes().await.ok().flatten() } else { None }.unwrap_or_default();
        let stops = self.stops();
        let state = |(handle, job): (&Handle, &Option<RayJob>)| match job {
            Some(job) => job.state(stops.get(handle).copied(), &nodes),
            None => AttemptState::Ended(outcome::unknown_job(&handle.0)),
        };
        Ok(handles.iter().zip(&jobs).map(state).collect())
    }
    /// Returns these jobs as known to Ray, in order.
    async fn jobs(&self, handles: &[Handle]) -> Result<Vec<Option<RayJob>>> {
        let use_list = handles.len() > FEW && self.listed.load(Ordering::Relaxed) <= handles.len() * LISTED_FOR_ONE;
        let listed = if use_list { self.list().await? } else { Vec::new() };
        let by_id = listed.into_iter().filter_map(|job| Some((job.submission_id.clone()?, job)));
        let mut known: BTreeMap<String, RayJob> = by_id.collect();
        let found: Vec<_> = handles.iter().map(|handle| self.confirm(handle, known.remove(&handle.0))).collect();
        stream::iter(found).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
    }
    /// Returns a job from the list. A job missing from the list is queried separately before it counts as lost.
    async fn confirm(&self, handle: &Handle, listed: Option<RayJob>) -> Result<Option<RayJob>> {
        match listed {
            Some(job) => Ok(Some(job)),
            None => self.api.job(&handle.0).await,
        }
    }
    /// Lists all jobs; the result is empty if the list exceeds the limit, and from then on jobs are queried one by one.
    async fn list(&self) -> Result<Vec<RayJob>> {
        let jobs = self.api.jobs().await?;
        self.listed.store(jobs.as_ref().map_or(usize::MAX, Vec::len), Ordering::Relaxed);
        Ok(jobs.unwrap_or_default())
    }
    /// Repeats the stop requests of jobs that are still pending or running.
    async fn repeat_stops(&self, handles: &[Handle], jobs: &[Option<RayJob>]) {
        let requested = self.stops().clone();
        let is_active = |job: &Option<RayJob>| job.as_ref().is_some_and(RayJob::is_active);
        let unstopped =
            handles.iter().zip(jobs).filter(|(handle, job)| requested.contains_key(handle) && is_active(job));
        let requests: Vec<_> = unstopped.map(|(handle, _)| self.stop(handle)).collect();
        // Failed requests are retried at the next poll.
        stream::iter(requests).buffered(AT_ONCE).for_each(|_| async {}).await;
    }
    async fn stop(&self, handle: &Handle) -> Result<()> {
        self.stops().entry(handle.clone()).or_insert(false);
        let forwarded = self.api.stop(&handle.0).await?;
        if forwarded {
            self.stops().insert(handle.clone(), true);
        }
        Ok(())
    }
    fn stops(&self) -> MutexGuard<'_, BTreeMap<Handle, bool>> {
        self.stops.lock().unwrap_or_else(PoisonError::into_inner)
    }
    async fn explanation(&self, handle: &Handle) -> Result<Option<String>> {
        let Some(job) = self.api.job(&handle.0).await? else { return Ok(None) };
        let mut lines = vec![format!("Ray job {}, {}: {}", handle.0, job.status.name(), job.message_text())];
        let nodes = self.api.nodes().await.ok().flatten().unwrap_or_default();
        if let Some(request) = job.request() {
            lines.push(format!("requests {request}"));
            lines.extend(nodes::infeasible_reason(&nodes, &request));
        }
        lines.extend(nodes.iter().map(|node| format!("node {} has {}", node.name, node.total)));
        lines.extend(self.api.usage().await.ok().flatten());
        Ok(Some(lines.join("\n")))
    }
}

impl Executor for RayExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: self.shares_files }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        Box::pin(self.submit_all(tasks))
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        Box::pin(self.states(handles))
    }
    /// Ray sends SIGTERM and, RAY_JOB_STOP_WAIT_TIME_S later (3 s), SIGKILL; the API has no harder kill.
    fn cancel<'a>(&'a self, handle: &'a Handle, _: Control) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.stop(handle))
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        Box::pin(async move {
            let handle = handle.cloned().unwrap_or_else(|| Handle(task.key()));
            Ok(self.api.job(&handle.0).await?.map(|_| handle))
        })
    }
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        Box::pin(self.api.output(&handle.0))
    }
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(self.explanation(handle))
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(self.interval))
    }
}
