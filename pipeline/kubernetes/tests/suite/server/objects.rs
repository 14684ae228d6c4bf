//! Holds the objects of the cluster, and simulates the Job controller and the garbage collector.
//!
//! The module reproduces the observed behavior of Kubernetes 1.20: Pods are named after their Job, a Pod that succeeds
//! makes its Job `Complete`, a Pod that fails under `backoffLimit: 0` makes its Job `Failed` with
//! `BackoffLimitExceeded`, and the deletion of a Job deletes its Pods. Behavior that follows only the documentation:
//! `suspend`, `Indexed`, `podFailurePolicy`, and `FailureTarget` until the last Pod is over (1.31).

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// State of the API server.
pub struct Objects {
    pub jobs: BTreeMap<String, Value>,
    pub pods: BTreeMap<String, Value>,
    pub events: Vec<Value>,
    pub workloads: Vec<Value>,
    /// Logs of the Pods' containers.
    pub logs: BTreeMap<String, String>,
    /// Why the controller cannot create Pods now.
    pub no_pods: Option<String>,
    /// Jobs whose Pod was deleted before it was over, with its `DisruptionTarget` if it had one.
    missing: BTreeMap<String, Option<Value>>,
    seconds: u32,
}

/// Labels, fields or annotations by name.
type Texts = BTreeMap<String, String>;

impl Objects {
    pub fn new() -> Self {
        Self {
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            events: Vec::new(),
            workloads: Vec::new(),
            logs: BTreeMap::new(),
            no_pods: None,
            missing: BTreeMap::new(),
            seconds: 0,
        }
    }
    /// Returns a time one second after the previous one.
    pub fn time(&mut self) -> String {
        self.seconds += 1;
        format!("2026-11-22T{:02}:{:02}:{:02}Z", self.seconds / 3_600, self.seconds / 60 % 60, self.seconds % 60)
    }
    /// Adds an accepted Job, and returns it as stored.
    pub fn create(&mut self, name: &str, namespace: &str, job: Value) -> Value {
        let mut job = job;
        let at = self.time();
        job["metadata"]["namespace"] = json!(namespace);
        job["metadata"]["uid"] = json!(format!("uid-{}", self.seconds));
        job["metadata"]["creationTimestamp"] = json!(at);
        job["status"] = json!({});
        self.jobs.insert(name.into(), job.clone());
        self.reconcile_job(name);
        job
    }
    /// Deletes a Job by propagation policy.
    pub fn delete_job(&mut self, name: &str, policy: &str) -> Option<Value> {
        let at = self.time();
        let job = self.jobs.get_mut(name)?;
        if job["metadata"].get("deletionTimestamp").is_none() {
            job["metadata"]["deletionTimestamp"] = json!(at);
        }
        let created = job.clone();
        if policy != "Foreground" {
            self.jobs.remove(name);
        }
        self.reconcile();
        Some(created)
    }
    /// Deletes a Pod. A running Pod stays until its node reports that it stopped, unless `grace` is 0.
    pub fn delete_pod(&mut self, name: &str, grace: Option<u64>) -> Option<Value> {
        let at = self.time();
        let pod = self.pods.get_mut(name)?;
        let grace = grace.or(pod["spec"]["terminationGracePeriodSeconds"].as_u64()).unwrap_or(30);
        let created = pod.clone();
        if grace == 0 || is_over(pod) || pod["spec"].get("nodeName").is_none() {
            self.forget(name);
        } else {
            pod["metadata"]["deletionTimestamp"] = json!(at);
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        }
        self.reconcile_job(&owner(&created));
        Some(created)
    }
    /// Sets the status of a Pod, as a node does.
    pub fn set_status(&mut self, name: &str, status: Value) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["status"] = status;
            let job = owner(pod);
            self.reconcile_job(&job);
        }
    }
    /// Places a Pod on a node.
    pub fn place(&mut self, name: &str, node: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod["spec"]["nodeName"] = json!(node);
        }
    }
    /// Removes a deleted Pod, as a node does when it has stopped.
    pub fn stopped(&mut self, name: &str) {
        let leaving = self.pods.get(name).filter(|pod| pod["metadata"].get("deletionTimestamp").is_some());
        if let Some(job) = leaving.map(owner) {
            self.forget(name);
            self.reconcile_job(&job);
        }
    }
    /// Runs the controllers until nothing changes.
    pub fn reconcile(&mut self) {
        let names: BTreeSet<String> = self.jobs.keys().cloned().collect();
        for name in &names {
            self.reconcile_job(name);
        }
        // Pods without a Job are garbage.
        let jobs = &self.jobs;
        let orphans: Vec<String> = self.pods.values().filter(|p| !jobs.contains_key(&owner(p))).map(name_of).collect();
        for name in orphans {
            self.dismiss(&name);
        }
    }

    fn reconcile_job(&mut self, name: &str) {
        let Some(job) = self.jobs.get(name).cloned() else { return };
        let pods: Vec<Value> = self.pods.values().filter(|pod| owner(pod) == name).cloned().collect();
        let active: Vec<String> = pods.iter().filter(|pod| !is_over(pod)).map(name_of).collect();
        if job["metadata"].get("deletionTimestamp").is_some() {
            for pod in pods.iter().map(name_of) {
                self.dismiss(&pod);
            }
            if !self.pods.values().any(|pod| owner(pod) == name) {
                self.jobs.remove(name);
            }
            return;
        }
        if has(&job, "Complete") || has(&job, "Failed") {
            return;
        }
        if job["spec"]["suspend"] == true {
            self.condition(name, "Suspended", "JobSuspended", "Job suspended");
            for pod in &active {
                self.dismiss(pod);
                // Pods of a suspended Job do not count as failed.
                self.missing.remove(name);
            }
            return;
        }
        if let Some((reason, message)) = self.failed(&job, name, &pods) {
            self.condition(name, "FailureTarget", &reason, &message);
            for pod in &active {
                self.dismiss(pod);
            }
            if !self.pods.values().any(|pod| owner(pod) == name && !is_over(pod)) {
                self.condition(name, "Failed", &reason, &message);
            }
            return;
        }
        let completions = job["spec"]["completions"].as_u64().unwrap_or(1);
        let succeeded = pods.iter().filter(|pod| pod["status"]["phase"] == "Succeeded").count() as u64;
        if succeeded == completions {
            self.condition(name, "Complete", "CompletionsReached", "Reached expected number of succeeded pods");
            return;
        }
        for index in pods.len() as u64..completions {
            self.make_pod(&job, name, index);
        }
    }
    /// Returns why a Job fails, if one of its Pods failed.
    fn failed(&self, job: &Value, name: &str, pods: &[Value]) -> Option<(String, String)> {
        let missing = self.missing.get(name).cloned();
        let failed = pods.iter().find(|pod| pod["status"]["phase"] == "Failed");
        let disruption = missing.clone().flatten().or_else(|| disruption(failed?));
        if missing.is_none() && failed.is_none() {
            return None;
        }
        let rules = job["spec"]["podFailurePolicy"]["rules"].as_array().cloned().unwrap_or_default();
        let matches = |rule: &Value| rule["onPodConditions"].as_array().is_some_and(|list| !list.is_empty());
        match rules.iter().position(matches) {
            Some(index) if disruption.is_some() => Some((
                "PodFailurePolicy".into(),
                format!("Pod ml/{name} has condition DisruptionTarget matching FailJob rule at index {index}"),
            )),
            _ => Some(("BackoffLimitExceeded".into(), "Job has reached the specified backoff limit".into())),
        }
    }
    fn make_pod(&mut self, job: &Value, name: &str, index: u64) {
        let at = self.time();
        if let Some(message) = self.no_pods.clone() {
            self.events.push(json!({
                "metadata": {"name": format!("{name}.{}", self.seconds), "namespace": job["metadata"]["namespace"]},
                "involvedObject": {"kind": "Job", "name": name}, "type": "Warning", "reason": "FailedCreate",
                "message": message, "lastTimestamp": at, "count": 1,
            }));
            return;
        }
        let indexed = job["spec"]["completionMode"] == "Indexed";
        let middle = if indexed { format!("{index}-") } else { String::new() };
        let pod_name = format!("{name}-{middle}x{:04}", self.seconds);
        let mut pod = json!({"metadata": job["spec"]["template"]["metadata"], "spec": job["spec"]["template"]["spec"]});
        pod["metadata"]["name"] = json!(pod_name);
        pod["metadata"]["namespace"] = job["metadata"]["namespace"].clone();
        pod["metadata"]["creationTimestamp"] = json!(at);
        pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name,
            "uid": job["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}]);
        if indexed {
            let variable = json!({"name": "JOB_COMPLETION_INDEX", "value": index.to_string()});
            if let Some(list) = pod["spec"]["containers"][0]["env"].as_array_mut() {
                list.push(variable);
            }
        }
        pod["status"] = json!({"phase": "Pending"});
        self.pods.insert(pod_name, pod);
    }
    /// Begins the deletion of a Pod, once.
    fn dismiss(&mut self, name: &str) {
        let Some(pod) = self.pods.get_mut(name) else { return };
        if is_over(pod) || pod["spec"].get("nodeName").is_none() {
            self.pods.remove(name);
        } else if pod["metadata"].get("deletionTimestamp").is_none() {
            let grace = pod["spec"]["terminationGracePeriodSeconds"].clone();
            pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T12:00:00Z");
            pod["metadata"]["deletionGracePeriodSeconds"] = grace;
        }
    }
    fn forget(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name)
            && pod["status"]["phase"] != "Succeeded"
        {
            self.missing.insert(owner(&pod), disruption(&pod));
        }
    }
    fn condition(&mut self, job: &str, kind: &str, reason: &str, message: &str) {
        let at = self.time();
        let Some(job) = self.jobs.get_mut(job) else { return };
        if has(job, kind) {
            return;
        }
        let condition = json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": at});
        match job["status"]["conditions"].as_array_mut() {
            Some(list) => list.push(condition),
            None => job["status"]["conditions"] = json!([condition]),
        }
    }
}

pub fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().into()
}

fn owner(pod: &Value) -> String {
    pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default().into()
}

fn is_over(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

fn has(job: &Value, kind: &str) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|list| list.iter().any(|condition| condition["type"] == kind))
}

fn disruption(pod: &Value) -> Option<Value> {
    let conditions = pod["status"]["conditions"].as_array()?;
    conditions.iter().find(|c| c["type"] == "DisruptionTarget" && c["status"] == "True").cloned()
}

/// Returns whether label and field selectors match an object: `a=b`, `a in (b,c)`, several separated by commas.
pub fn is_chosen(object: &Value, query: &Texts) -> bool {
    let label = |name: &str| object["metadata"]["labels"][name].as_str();
    let field = |name: &str| name.split('.').fold(object, |value, part| &value[part]).as_str();
    let empty = String::new();
    let labels = query.get("labelSelector").unwrap_or(&empty);
    let fields = query.get("fieldSelector").unwrap_or(&empty);
    requirements(labels).iter().all(|(name, values)| label(name).is_some_and(|v| values.contains(&v)))
        && requirements(fields).iter().all(|(name, values)| field(name).is_some_and(|v| values.contains(&v)))
}

fn requirements(selector: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    let mut rest = selector.trim();
    while !rest.is_empty() {
        let (one, tail) = match rest.find(" in (") {
            Some(at) if !rest[..at].contains(',') => {
                let end = rest.find(')').expect("a set ends");
                found.push((rest[..at].trim(), rest[at + 5..end].split(',').map(str::trim).collect()));
                (None, rest[end + 1..].trim_start_matches(','))
            }
            _ => rest.split_once(',').map_or((Some(rest), ""), |(one, tail)| (Some(one), tail)),
        };
        if let Some((name, value)) = one.and_then(|one| one.split_once('=')) {
            found.push((name.trim(), vec![value.trim_start_matches('=').trim()]));
        }
        rest = tail.trim();
    }
    found
}
