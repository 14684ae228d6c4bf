//! Simulates the only node of the cluster, whose Pods are processes of this machine.
//!
//! Each process leads a process group. It receives SIGTERM when its Pod is deleted, and SIGKILL after the grace period.
//! A process that wrote the line [`OUT_OF_MEMORY`] before it was killed counts as OOM-killed, because tests must not
//! exhaust the memory of the machine.

use super::{Shared, objects};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

pub const NODE: &str = "this-machine";
/// Line written by a process that simulates running out of memory.
pub const OUT_OF_MEMORY: &str = "(out of memory)";
/// Poll interval.
const LOOK: Duration = Duration::from_millis(20);

/// Builds a Pod status with the state of the container `attempt`.
pub fn status(phase: &str, state: Value) -> Value {
    json!({"phase": phase, "containerStatuses": [{"name": "attempt", "image": "", "imageID": "", "ready": false,
        "restartCount": 0, "state": state}]})
}

/// Starts new Pods, and ends deleted ones.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut started = BTreeSet::new();
    let mut pods = tokio::task::JoinSet::new();
    loop {
        let waiting: Vec<Value> = {
            let objects = shared.objects.lock().unwrap();
            let fresh = |pod: &&Value| !started.contains(&objects::name_of(pod));
            objects.pods.values().filter(fresh).cloned().collect()
        };
        for pod in waiting {
            started.insert(objects::name_of(&pod));
            // The tasks end with this one.
            pods.spawn(pod_of(shared.clone(), pod));
        }
        let _ = tokio::time::timeout(LOOK, shared.changed.notified()).await;
    }
}

async fn pod_of(shared: Arc<Shared>, pod: Value) {
    let name = objects::name_of(&pod);
    shared.objects.lock().unwrap().place(&name, NODE);
    let container = &pod["spec"]["containers"][0];
    let words: Vec<&str> = container["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).process_group(0).kill_on_drop(true);
    for variable in container["env"].as_array().into_iter().flatten() {
        command.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap_or_default());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            let message = format!("exec: \"{}\": {e}", words[0]);
            let state = json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": message}});
            shared.objects.lock().unwrap().set_status(&name, status("Failed", state));
            return;
        }
    };
    shared.objects.lock().unwrap().set_status(&name, status("Running", json!({"running": {}})));
    let readers = [
        tokio::spawn(copy(shared.clone(), name.clone(), child.stdout.take().unwrap())),
        tokio::spawn(copy(shared.clone(), name.clone(), child.stderr.take().unwrap())),
    ];
    let exit = supervise(&shared, &name, &mut child).await;
    for reader in readers {
        // A descendant of the process may keep the pipe open.
        let _ = tokio::time::timeout(Duration::from_secs(1), reader).await;
    }
    let mut objects = shared.objects.lock().unwrap();
    let at = objects.time();
    let log = objects.logs.get(&name).cloned().unwrap_or_default();
    let code = exit.code().unwrap_or_else(|| 128 + exit.signal().unwrap_or_default());
    let killed = exit.signal() == Some(9) && log.contains(OUT_OF_MEMORY);
    let reason = match code {
        0 => "Completed",
        _ if killed => "OOMKilled",
        _ => "Error",
    };
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "message": log, "finishedAt": at}});
    objects.set_status(&name, status(if code == 0 { "Succeeded" } else { "Failed" }, state));
    objects.stopped(&name);
}

/// Waits for the process, and ends it when its Pod is deleted.
async fn supervise(shared: &Shared, name: &str, child: &mut Child) -> ExitStatus {
    let group = child.id();
    let mut grace = None;
    loop {
        if let Ok(status) = tokio::time::timeout(LOOK, child.wait()).await {
            signal(group, rustix::process::Signal::KILL);
            return status.unwrap();
        }
        let leaving = {
            let objects = shared.objects.lock().unwrap();
            let pod = objects.pods.get(name);
            let metadata = pod.map(|pod| pod["metadata"].clone()).unwrap_or(json!({"deletionTimestamp": "gone"}));
            let seconds = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or_default();
            metadata.get("deletionTimestamp").map(|_| Duration::from_secs(seconds))
        };
        grace = match (grace, leaving) {
            (None, Some(seconds)) => {
                signal(group, rustix::process::Signal::TERM);
                Some(seconds)
            }
            // A second deletion can only shorten the grace period.
            (Some(remaining), Some(seconds)) => Some(remaining.saturating_sub(LOOK).min(seconds)),
            (grace, None) => grace,
        };
        if grace == Some(Duration::ZERO) {
            signal(group, rustix::process::Signal::KILL);
        }
    }
}

fn signal(group: Option<u32>, signal: rustix::process::Signal) {
    if let Some(group) = group.and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?)) {
        // The process group may have ended already.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

async fn copy(shared: Arc<Shared>, pod: String, mut pipe: impl AsyncReadExt + Unpin) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(size) = pipe.read(&mut piece).await
        && size > 0
    {
        let text = String::from_utf8_lossy(&piece[..size]).into_owned();
        shared.objects.lock().unwrap().logs.entry(pod.clone()).or_default().push_str(&text);
    }
}
