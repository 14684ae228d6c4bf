//! The executor: requests to the API server, and nothing that could be a pure function.

use crate::answers::{Request, exists, is_absent, refusal};
use crate::connection::Connection;
use crate::explain;
use crate::manifest::{self, Submission};
use crate::memory::{Judged, Memory};
use crate::names;
use crate::options::KubernetesOptions;
use crate::settings::Settings;
use crate::state::{Sight, sight};
use futures::future::{BoxFuture, FutureExt};
use futures::{StreamExt, TryFutureExt, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use trainyard_core::clock::Clock;
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{Capabilities, Control, Executor, Handle, State, Task};

/// Jobs that are created at the same time.
const CREATIONS: usize = 16;
/// Attempts that one list asks for: their keys stand in the address, which proxies cut at 8 KiB.
const ATTEMPTS: usize = 100;
/// Seconds that a Pod gets to die when its attempt is killed. With 0, the API server forgets the Pod at once, whether it
/// still runs or not.
const KILL_SECONDS: u32 = 1;
/// What is shown of a Pod's output.
const LOG_LINES: i64 = 200;
const LOG_BYTES: i64 = 256 * 1024;
/// Pods of an attempt whose output is shown.
const LOG_PODS: usize = 4;
/// Versions of Kueue's API, newest first.
const KUEUE: [&str; 2] = ["v1beta2", "v1beta1"];

/// The executor `kubernetes`: one Job for each attempt.
pub struct Kubernetes {
    settings: Settings,
    connection: OnceCell<Connection>,
    memory: Mutex<Memory>,
    clock: Arc<dyn Clock>,
}

impl Kubernetes {
    /// As pools name it.
    pub const NAME: &str = "kubernetes";

    /// The executor of a pool. Nothing is asked of the cluster yet. Errors: invalid (the options).
    pub fn new(pool: &str, options: KubernetesOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let settings = Settings::new(pool, options)?;
        Ok(Self { settings, connection: OnceCell::new(), memory: Mutex::default(), clock })
    }

    async fn connection(&self) -> Result<&Connection> {
        self.connection.get_or_try_init(|| Connection::open(&self.settings.options)).await
    }
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn create(&self, task: &Task) -> Result<Handle> {
        self.reachable(task)?;
        let connection = self.connection().await?;
        let submission = Submission::of(task);
        let job = manifest::job(&self.settings, &submission);
        match connection.api::<Job>().create(&PostParams::default(), &job).await {
            Err(e) if !exists(&e) => Err(refusal(connection.request("create", "jobs"), &e)),
            _ => Ok(Handle(submission.key)),
        }
    }
    /// Whether a Pod can open the store.
    fn reachable(&self, task: &Task) -> Result<()> {
        let apart = match task.store.local_root() {
            Some(folder) => !self.settings.sees(folder),
            None => task.store.url().starts_with("memory:"),
        };
        if !apart {
            return Ok(());
        }
        let message = format!("Kubernetes: Pods cannot see the store {}, which is on this machine", task.store.url());
        Err(Error::invalid(message).help(
            "use a store in a bucket, or mount the folder by the pool's option `volumes` under the same path and set \
             `shared_filesystem`",
        ))
    }

    /// Jobs and Pods of these attempts.
    async fn find(&self, handles: &[Handle]) -> Result<Found> {
        let connection = self.connection().await?;
        let keys: Vec<&str> = handles.iter().map(|handle| handle.0.as_str()).collect();
        let wanted = ListParams::default().labels(&format!("{} in ({})", names::KEY, keys.join(",")));
        let (job_api, pod_api) = (connection.api::<Job>(), connection.api::<Pod>());
        let jobs = job_api.list(&wanted).map_err(|e| refusal(connection.request("list", "jobs"), &e));
        let pods = pod_api.list(&wanted).map_err(|e| refusal(connection.request("list", "pods"), &e));
        let (jobs, pods) = futures::try_join!(jobs, pods)?;
        Ok(Found { jobs: jobs.items, pods: pods.items })
    }
    async fn look(&self, handles: &[Handle]) -> Result<Vec<State>> {
        let mut states = Vec::with_capacity(handles.len());
        for some in handles.chunks(ATTEMPTS) {
            let found = self.find(some).await?;
            let sights: Vec<Sight> = some.iter().map(|handle| found.sight(handle)).collect();
            let events = if sights.contains(&Sight::NoPod) { self.refused_pods().await } else { Vec::new() };
            for (handle, sight) in some.iter().zip(sights) {
                let without_pod = sight == Sight::NoPod;
                let Judged { mut state, delete } = self.memory().judge(handle, sight, self.clock.monotonic());
                if delete {
                    self.delete(handle, Control::Cancel).await?;
                }
                if without_pod
                    && let Some(words) = explain::no_pod(&handle.0, &events)
                    && let State::Pending { why } = &mut state
                {
                    *why = Some(words.to_string());
                }
                states.push(state);
            }
        }
        Ok(states)
    }
    /// Events about Pods that were not made. They are only words, so an account that may not read them does without.
    async fn refused_pods(&self) -> Vec<Event> {
        self.events("reason=FailedCreate,involvedObject.kind=Job").await
    }
    async fn events(&self, fields: &str) -> Vec<Event> {
        let Ok(connection) = self.connection().await else { return Vec::new() };
        let wanted = ListParams::default().fields(fields).limit(500);
        let found = connection.api::<Event>().list(&wanted).await;
        found.map(|list| list.items).inspect_err(|e| tracing::debug!("no events: {e}")).unwrap_or_default()
    }
    async fn delete(&self, handle: &Handle, control: Control) -> Result<()> {
        let connection = self.connection().await?;
        // In the foreground, so that the Job is there until its Pods are gone.
        let found = connection.api::<Job>().delete(&handle.0, &DeleteParams::foreground()).await;
        absent_is_fine(found, connection.request("delete", "jobs"))?;
        if control < Control::Kill {
            return Ok(());
        }
        let pods = connection.api::<Pod>();
        for pod in self.find(std::slice::from_ref(handle)).await?.pods {
            let now = DeleteParams::default().grace_period(KILL_SECONDS);
            let found = pods.delete(crate::pods::name(&pod), &now).await;
            absent_is_fine(found, connection.request("delete", "pods"))?;
        }
        Ok(())
    }
    async fn output(&self, handle: &Handle) -> Result<String> {
        let connection = self.connection().await?;
        let pods = self.find(std::slice::from_ref(handle)).await?.pods;
        let wanted = LogParams {
            container: Some(names::CONTAINER.into()),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let mut text = String::new();
        for pod in pods.iter().take(LOG_PODS) {
            let name = crate::pods::name(pod);
            if pods.len() > 1 {
                text += &format!("Pod {name}:\n");
            }
            match connection.api::<Pod>().logs(name, &wanted).await {
                Ok(log) => text += &log,
                // It has not started, or its node is gone; the words say which.
                Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => {
                    text += &format!("{}\n", status.message);
                }
                Err(e) => return Err(refusal(connection.request("get", "pods/log"), &e)),
            }
        }
        Ok(text)
    }
    async fn report(&self, handle: &Handle) -> Result<Option<String>> {
        let Found { jobs, pods } = self.find(std::slice::from_ref(handle)).await?;
        let job = jobs.first();
        let workloads = match job.and_then(|job| job.metadata.uid.as_deref()) {
            Some(uid) if self.settings.options.queue.is_some() => self.workloads(uid).await,
            _ => Vec::new(),
        };
        let mut events = self.events(&format!("involvedObject.name={}", handle.0)).await;
        for pod in pods.iter().take(LOG_PODS) {
            events.extend(self.events(&format!("involvedObject.name={}", crate::pods::name(pod))).await);
        }
        Ok(explain::report(job, &pods, &workloads, &events))
    }
    /// What Kueue says of the Job; nothing if it does not answer.
    async fn workloads(&self, uid: &str) -> Vec<Value> {
        let Ok(connection) = self.connection().await else { return Vec::new() };
        let wanted = ListParams::default().labels(&format!("kueue.x-k8s.io/job-uid={uid}"));
        for version in KUEUE {
            let path = format!("/apis/kueue.x-k8s.io/{version}/namespaces/{}/workloads", connection.namespace);
            let Ok(request) = kube::core::Request::new(path).list(&wanted) else { continue };
            if let Ok(Value::Object(mut list)) = connection.client.request(request).await
                && let Some(Value::Array(items)) = list.remove("items")
            {
                return items;
            }
        }
        Vec::new()
    }
    async fn found_again(&self, task: &Task, handle: Option<&Handle>) -> Result<Option<Handle>> {
        let connection = self.connection().await?;
        let handle = handle.cloned().unwrap_or_else(|| Handle(task.key()));
        match connection.api::<Job>().get_opt(&handle.0).await {
            Ok(job) => Ok(job.map(|_| handle)),
            Err(e) => Err(refusal(connection.request("get", "jobs"), &e)),
        }
    }
}

impl Connection {
    fn request(&self, verb: &'static str, resource: &'static str) -> Request<'_> {
        Request { verb, resource, namespace: &self.namespace }
    }
}

/// What the API server knows of some attempts.
struct Found {
    jobs: Vec<Job>,
    pods: Vec<Pod>,
}

impl Found {
    fn sight(&self, handle: &Handle) -> Sight {
        let of_it = |labels: &Option<BTreeMap<String, String>>| {
            labels.as_ref().and_then(|labels| labels.get(names::KEY)) == Some(&handle.0)
        };
        let job = self.jobs.iter().find(|job| job.metadata.name.as_ref() == Some(&handle.0));
        let pods: Vec<&Pod> = self.pods.iter().filter(|pod| of_it(&pod.metadata.labels)).collect();
        sight(job, &pods)
    }
}

/// What is to be deleted may be gone.
fn absent_is_fine<T>(found: kube::Result<T>, request: Request<'_>) -> Result<()> {
    match found {
        Err(e) if !is_absent(&e) => Err(refusal(request, &e)),
        _ => Ok(()),
    }
}

impl Executor for Kubernetes {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: self.settings.options.shared_filesystem }
    }
    fn submit<'a>(&'a self, tasks: &'a [Task]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        stream::iter(tasks).map(|task| self.create(task)).buffered(CREATIONS).collect().boxed()
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<State>>> {
        self.look(handles).boxed()
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        async move { if control > Control::Run { self.delete(handle, control).await } else { Ok(()) } }.boxed()
    }
    fn reattach<'a>(&'a self, task: &'a Task, handle: Option<&'a Handle>) -> BoxFuture<'a, Result<Option<Handle>>> {
        self.found_again(task, handle).boxed()
    }
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        self.output(handle).boxed()
    }
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        self.report(handle).boxed()
    }
}
