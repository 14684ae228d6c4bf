//! Serves a small API server over HTTP on loopback: Jobs, Pods, events and Kueue's workloads of one namespace.
//!
//! The server is not Kubernetes. It reproduces observed responses of an API server, to test the executor's requests,
//! its interpretation of responses and its timeouts without a cluster. Pods either stay unchanged until a test changes
//! them, or run as processes of this machine.

mod http;
mod kubelet;
pub use kubelet::OUT_OF_MEMORY;
mod objects;
mod validate;

use http::{Request, Response};
use objects::Objects;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// The only namespace.
pub const NAMESPACE: &str = "ml";
const TOKEN: &str = "a-token";

/// Fault injected into the next request of a verb.
pub enum Fault {
    /// The server sends this response without executing the request.
    Answer(u16, Value),
    /// The connection ends before the request is executed.
    Refused,
    /// The server executes the request, and its response is lost.
    LostAnswer,
}

struct Shared {
    objects: Mutex<Objects>,
    /// Faults by `verb resource`, in the order in which they are injected.
    faults: Mutex<BTreeMap<String, VecDeque<Fault>>>,
    /// Requests (`verb resource`) that the account may not send.
    denied: Mutex<BTreeSet<String>>,
    /// All requests, as `verb resource`.
    requests: Mutex<Vec<String>>,
    /// Notified on every change.
    changed: Notify,
    /// Whether the server was dropped; its tasks end a moment later.
    unavailable: AtomicBool,
}

/// Server that runs until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Server {
    /// Starts a server whose Pods stay unchanged until a test changes them.
    pub async fn still() -> Self {
        Self::start(false).await
    }
    /// Starts a server whose Pods run their commands as processes of this machine.
    pub async fn running() -> Self {
        Self::start(true).await
    }
    async fn start(running: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            objects: Mutex::new(Objects::new()),
            faults: Mutex::default(),
            denied: Mutex::default(),
            requests: Mutex::default(),
            changed: Notify::new(),
            unavailable: AtomicBool::new(false),
        });
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": NAMESPACE}}],
            "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "test", "user": {"token": TOKEN}},
                {"name": "stranger", "user": {"token": "another"}}],
        });
        std::fs::write(folder.path().join("config"), config.to_string()).unwrap();
        let mut tasks = vec![tokio::spawn(accept(listener, shared.clone()))];
        if running {
            tasks.push(tokio::spawn(kubelet::run(shared.clone())));
        }
        Self { shared, tasks, folder }
    }
    /// Returns the path of a kubeconfig for this server.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("config")
    }
    /// Writes another kubeconfig, changed by `change`.
    pub fn kubeconfig_with(&self, change: impl FnOnce(&mut Value)) -> PathBuf {
        let mut config = serde_json::from_slice(&std::fs::read(self.kubeconfig()).unwrap()).unwrap();
        change(&mut config);
        let path = self.folder.path().join("other");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.shared.objects.lock().unwrap()
    }
    /// Returns the Jobs, by name.
    pub fn jobs(&self) -> Vec<Value> {
        self.objects().jobs.values().cloned().collect()
    }
    /// Returns the Pods, by name.
    pub fn pods(&self) -> Vec<Value> {
        self.objects().pods.values().cloned().collect()
    }
    /// Returns the names of the Pods.
    pub fn pod_names(&self) -> Vec<String> {
        self.objects().pods.keys().cloned().collect()
    }
    /// Returns the requests so far, as `verb resource`.
    pub fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
    /// Injects a fault into the next request of this verb and resource (`create jobs`); repeated calls queue up.
    pub fn fault(&self, request: &str, fault: Fault) {
        self.shared.faults.lock().unwrap().entry(request.into()).or_default().push_back(fault);
    }
    /// Forbids this request (`verb resource`) from now on.
    pub fn deny(&self, request: &str) {
        self.shared.denied.lock().unwrap().insert(request.into());
    }
    /// Places a Pod on a node.
    pub fn place(&self, pod: &str, node: &str) {
        self.objects().place(pod, node);
    }
    /// Sets the status of a Pod, as a node does.
    pub fn status(&self, pod: &str, status: Value) {
        self.objects().set_status(pod, status);
    }
    /// Sets the phase of a Pod and the state of its container `attempt`, as a node does.
    pub fn container(&self, pod: &str, phase: &str, state: Value) {
        self.status(pod, kubelet::status(phase, state));
    }
    /// Reports that a deleted Pod has stopped, as a node does.
    pub fn stopped(&self, pod: &str) {
        self.objects().stopped(pod);
    }
    /// Deletes a Pod, as another client does.
    pub fn delete_pod(&self, pod: &str) {
        self.objects().delete_pod(pod, None);
    }
    /// Deletes a Job and then its Pods, as another client does.
    pub fn delete_job(&self, job: &str) {
        self.objects().delete_job(job, "Background");
    }
    /// Suspends or resumes a Job, as Kueue does.
    pub fn suspend(&self, job: &str, suspend: bool) {
        let mut objects = self.objects();
        if let Some(job) = objects.jobs.get_mut(job) {
            job["spec"]["suspend"] = json!(suspend);
        }
        objects.reconcile();
    }
    /// Sets the log of a Pod's container.
    pub fn log(&self, pod: &str, text: &str) {
        self.objects().logs.insert(pod.into(), text.into());
    }
    /// Adds an event about an object.
    pub fn event(&self, about: &str, reason: &str, message: &str) {
        let mut objects = self.objects();
        let at = objects.time();
        objects.events.push(json!({"metadata": {"name": at, "namespace": NAMESPACE}, "type": "Warning",
            "involvedObject": {"kind": "Pod", "name": about}, "reason": reason, "message": message,
            "lastTimestamp": at}));
    }
    pub fn workload(&self, workload: Value) {
        self.objects().workloads.push(workload);
    }
    /// Makes the controller fail to create Pods for this reason.
    pub fn refuse_pods(&self, why: Option<&str>) {
        let mut objects = self.objects();
        objects.no_pods = why.map(Into::into);
        objects.reconcile();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.unavailable.store(true, Ordering::SeqCst);
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = shared.clone();
        connections.spawn(http::serve(stream, move |request| {
            let response = respond(&shared, &request);
            shared.changed.notify_waiters();
            response
        }));
    }
}

/// Target of a request: resource, object name and subresource.
struct Target {
    resource: &'static str,
    name: Option<String>,
    part: Option<String>,
}

fn target(path: &str) -> Option<Target> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (resource, rest) = match parts.as_slice() {
        ["apis", "batch", "v1", "namespaces", _, "jobs", rest @ ..] => ("jobs", rest),
        ["api", "v1", "namespaces", _, "pods", rest @ ..] => ("pods", rest),
        ["api", "v1", "namespaces", _, "events", rest @ ..] => ("events", rest),
        ["apis", "kueue.x-k8s.io", "v1beta1", "namespaces", _, "workloads", rest @ ..] => ("workloads", rest),
        _ => return None,
    };
    let part = |at: usize| rest.get(at).map(ToString::to_string);
    Some(Target { resource, name: part(0), part: part(1) })
}

fn respond(shared: &Shared, request: &Request) -> Response {
    if shared.unavailable.load(Ordering::SeqCst) {
        return Response::Close;
    }
    let Some(target) = target(&request.path) else {
        return failure(404, "NotFound", "the server could not find the requested resource", json!({}));
    };
    let verb = match (request.method.as_str(), &target.name) {
        ("POST", _) => "create",
        ("DELETE", _) => "delete",
        (_, Some(_)) => "get",
        (_, None) => "list",
    };
    let part = target.part.as_ref().map(|part| format!("/{part}")).unwrap_or_default();
    let operation = format!("{verb} {}{part}", target.resource);
    shared.requests.lock().unwrap().push(operation.clone());
    let fault = shared.faults.lock().unwrap().get_mut(&operation).and_then(VecDeque::pop_front);
    match fault {
        Some(Fault::Answer(code, body)) => return Response::Json(code, body),
        Some(Fault::Refused) => return Response::Close,
        Some(Fault::LostAnswer) => {
            act(shared, request, verb, &target);
            return Response::Close;
        }
        None => {}
    }
    if request.headers.get("authorization").is_none_or(|header| *header != format!("Bearer {TOKEN}")) {
        return failure(401, "Unauthorized", "Unauthorized", json!({}));
    }
    if shared.denied.lock().unwrap().contains(&operation) {
        let resource = target.resource;
        let message = format!(
            "{resource} is forbidden: User \"ann\" cannot {verb} resource \"{resource}{part}\" in API group \"\" in \
             the namespace \"{NAMESPACE}\""
        );
        return failure(403, "Forbidden", &message, json!({"kind": resource}));
    }
    act(shared, request, verb, &target)
}

fn act(shared: &Shared, request: &Request, verb: &str, target: &Target) -> Response {
    let mut objects = shared.objects.lock().unwrap();
    let name = target.name.as_deref().unwrap_or_default();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let namespace = request.path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next());
    if namespace != Some(NAMESPACE) {
        return if verb == "create" {
            let absent = namespace.unwrap_or_default();
            let message = format!("namespaces \"{absent}\" not found");
            failure(404, "NotFound", &message, json!({"kind": "namespaces", "name": absent}))
        } else if verb == "list" {
            list(target.resource, Vec::new())
        } else {
            absent(target.resource, name)
        };
    }
    match (verb, target.resource, target.part.as_deref()) {
        ("create", "jobs", None) => create(&mut objects, body),
        ("list", "jobs", None) => list("Job", chosen(objects.jobs.values(), request)),
        ("list", "pods", None) => list("Pod", chosen(objects.pods.values(), request)),
        ("list", "events", None) => list("Event", chosen(objects.events.iter(), request)),
        ("list", "workloads", None) => list("Workload", chosen(objects.workloads.iter(), request)),
        ("get", "jobs", None) => found(objects.jobs.get(name).cloned(), "jobs.batch", name),
        ("get", "pods", None) => found(objects.pods.get(name).cloned(), "pods", name),
        ("get", "pods", Some("log")) => log(&objects, name),
        ("delete", "jobs", None) => {
            let policy = body["propagationPolicy"].as_str().unwrap_or("Background").to_string();
            found(objects.delete_job(name, &policy), "jobs.batch", name)
        }
        ("delete", "pods", None) => {
            let grace = body["gracePeriodSeconds"].as_u64();
            found(objects.delete_pod(name, grace), "pods", name)
        }
        _ => failure(405, "MethodNotAllowed", "the server does not allow this method", json!({})),
    }
}

fn create(objects: &mut Objects, job: Value) -> Response {
    let name = objects::name_of(&job);
    if objects.jobs.contains_key(&name) {
        let message = format!("jobs.batch \"{name}\" already exists");
        return failure(409, "AlreadyExists", &message, json!({"name": name, "group": "batch", "kind": "jobs"}));
    }
    let causes = validate::causes(&job);
    if causes.is_empty() {
        return Response::Json(201, objects.create(&name, NAMESPACE, job));
    }
    let texts: Vec<String> = causes
        .iter()
        .map(|c| format!("{}: {}", c["field"].as_str().unwrap(), c["message"].as_str().unwrap()))
        .collect();
    let message = format!("Job.batch \"{name}\" is invalid: {}", texts.join(", "));
    failure(422, "Invalid", &message, json!({"name": name, "group": "batch", "kind": "Job", "causes": causes}))
}

fn log(objects: &Objects, name: &str) -> Response {
    match (objects.pods.get(name), objects.logs.get(name)) {
        (None, _) => absent("pods", name),
        (_, Some(text)) => Response::Text(200, text.clone()),
        _ => {
            let message = format!("container \"attempt\" in pod \"{name}\" is waiting to start: ContainerCreating");
            failure(400, "BadRequest", &message, json!({}))
        }
    }
}

fn chosen<'a>(all: impl Iterator<Item = &'a Value>, request: &Request) -> Vec<Value> {
    all.filter(|object| objects::is_chosen(object, &request.query)).cloned().collect()
}

fn list(kind: &str, items: Vec<Value>) -> Response {
    Response::Json(200, json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {}, "items": items}))
}

fn found(object: Option<Value>, resource: &str, name: &str) -> Response {
    object.map_or_else(|| absent(resource, name), |object| Response::Json(200, object))
}

fn absent(resource: &str, name: &str) -> Response {
    let details = json!({"name": name, "kind": resource});
    failure(404, "NotFound", &format!("{resource} \"{name}\" not found"), details)
}

/// Builds a status as API servers write it.
pub fn failed(code: u16, reason: &str, message: &str, details: Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "details": details, "code": code})
}

fn failure(code: u16, reason: &str, message: &str, details: Value) -> Response {
    Response::Json(code, failed(code, reason, message, details))
}
