//! Sends requests to the API server, with one function per request.

use crate::connection::KubeConnection;
use crate::errors::{KubeRequest, exists, is_absent, refusal};
use crate::names;
use crate::observation::{JobObservation, observe};
use futures::TryFutureExt;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, PostParams};
use serde_json::Value;
use trainyard_core::Result;
use trainyard_runtime::executors::Handle;

/// Maximum number of attempts per list request: their keys are part of the URL, which proxies limit to 8 KiB.
pub(crate) const ATTEMPTS: usize = 100;
/// Grace period of the Pods of a killed attempt, in seconds. With 0, the API server removes the Pod at once, even if it
/// still runs.
const KILL_SECONDS: u32 = 1;
/// Limits of the log that is read from a Pod.
const LOG_LINES: i64 = 200;
const LOG_BYTES: i64 = 256 * 1024;
/// Maximum number of events per list request.
const EVENTS: u32 = 500;
/// Versions of Kueue's API, newest first.
const KUEUE: [&str; 2] = ["v1beta2", "v1beta1"];

/// Objects that the API server has for some attempts.
pub(crate) struct ClusterObjects {
    pub jobs: Vec<Job>,
    pub pods: Vec<Pod>,
}

impl ClusterObjects {
    /// Returns the observed state of one attempt.
    pub fn observe(&self, handle: &Handle) -> JobObservation {
        let job = self.jobs.iter().find(|job| job.metadata.name.as_ref() == Some(&handle.0));
        let key = |pod: &&Pod| pod.metadata.labels.as_ref()?.get(names::KEY).map(|key| *key == handle.0);
        let pods: Vec<&Pod> = self.pods.iter().filter(|pod| key(pod) == Some(true)).collect();
        observe(job, &pods)
    }
}

impl KubeConnection {
    fn request(&self, verb: &'static str, resource: &'static str) -> KubeRequest<'_> {
        KubeRequest { verb, resource, namespace: &self.namespace }
    }
    /// Creates a Job. An existing Job with its name belongs to the same attempt and is not an error.
    pub async fn create(&self, job: &Job) -> Result<()> {
        match self.api::<Job>().create(&PostParams::default(), job).await {
            Err(e) if !exists(&e) => Err(refusal(self.request("create", "jobs"), &e)),
            _ => Ok(()),
        }
    }
    /// Returns the Job with this name; `None` if the API server has no such Job.
    pub async fn job(&self, name: &str) -> Result<Option<Job>> {
        self.api::<Job>().get_opt(name).await.map_err(|e| refusal(self.request("get", "jobs"), &e))
    }
    /// Lists Jobs and Pods of at most [`ATTEMPTS`] attempts.
    pub async fn find(&self, handles: &[Handle]) -> Result<ClusterObjects> {
        let keys: Vec<&str> = handles.iter().map(|handle| handle.0.as_str()).collect();
        let params = ListParams::default().labels(&format!("{} in ({})", names::KEY, keys.join(",")));
        let (job_api, pod_api) = (self.api::<Job>(), self.api::<Pod>());
        let jobs = job_api.list(&params).map_err(|e| refusal(self.request("list", "jobs"), &e));
        let pods = pod_api.list(&params).map_err(|e| refusal(self.request("list", "pods"), &e));
        let (jobs, pods) = futures::try_join!(jobs, pods)?;
        Ok(ClusterObjects { jobs: jobs.items, pods: pods.items })
    }
    /// Deletes a Job and its Pods, with their grace period. The Job remains until its Pods are removed. A missing Job
    /// is not an error.
    pub async fn delete(&self, name: &str) -> Result<()> {
        let found = self.api::<Job>().delete(name, &DeleteParams::foreground()).await;
        absent_is_fine(found, self.request("delete", "jobs"))
    }
    /// Deletes the Pods of an attempt with a grace period of [`KILL_SECONDS`].
    pub async fn kill(&self, handle: &Handle) -> Result<()> {
        let now = DeleteParams::default().grace_period(KILL_SECONDS);
        for pod in self.find(std::slice::from_ref(handle)).await?.pods {
            let found = self.api::<Pod>().delete(crate::pods::name(&pod), &now).await;
            absent_is_fine(found, self.request("delete", "pods"))?;
        }
        Ok(())
    }
    /// Lists events with these fields. Events are only explanations, so an account that may not read them gets an empty
    /// list.
    pub async fn events(&self, fields: &str) -> Vec<Event> {
        let params = ListParams::default().fields(fields).limit(EVENTS);
        let found = self.api::<Event>().list(&params).await;
        found.map(|list| list.items).inspect_err(|e| tracing::debug!("no events: {e}")).unwrap_or_default()
    }
    /// Returns the end of the log of a Pod's container, or the reason why it is absent.
    pub async fn log(&self, pod: &str) -> Result<String> {
        let params = LogParams {
            container: Some(names::CONTAINER.into()),
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        match self.api::<Pod>().logs(pod, &params).await {
            // The container has not started, or its node has disappeared; the message contains the reason.
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 404) => Ok(format!("{}\n", status.message)),
            log => log.map_err(|e| refusal(self.request("get", "pods/log"), &e)),
        }
    }
    /// Returns Kueue's workloads of a Job, or an empty list if Kueue does not respond.
    pub async fn workloads(&self, job_uid: &str) -> Vec<Value> {
        let params = ListParams::default().labels(&format!("kueue.x-k8s.io/job-uid={job_uid}"));
        for version in KUEUE {
            let path = format!("/apis/kueue.x-k8s.io/{version}/namespaces/{}/workloads", self.namespace);
            let Ok(request) = kube::core::Request::new(path).list(&params) else { continue };
            if let Ok(Value::Object(mut list)) = self.client.request(request).await
                && let Some(Value::Array(items)) = list.remove("items")
            {
                return items;
            }
        }
        Vec::new()
    }
}

/// Accepts a missing object as the result of a deletion.
fn absent_is_fine<T>(found: kube::Result<T>, request: KubeRequest<'_>) -> Result<()> {
    match found {
        Err(e) if !is_absent(&e) => Err(refusal(request, &e)),
        _ => Ok(()),
    }
}
