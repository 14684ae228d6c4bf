//! Determines why a Pod has not started, and whether it could start without intervention.
//!
//! Kubernetes never gives up on a Pod whose image cannot be pulled or whose secret is missing, so a run would wait for
//! it forever. Such a Pod is *stuck*: the executor ends it unless it starts within two minutes.

use crate::pods;
use k8s_openapi::api::core::v1::Pod;
use trainyard_core::Error;

/// Reason why a Pod has not started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PodWaitReason {
    /// Reason, for display.
    pub why: String,
    /// Error to end with if the Pod stays stuck; `None` if it may start by itself.
    pub stuck: Option<Error>,
    /// Whether the node only reports a back-off between two tries, without the reason of the last failure.
    pub backoff_only: bool,
}

impl PodWaitReason {
    /// Creates the reason of a Pod that may start by itself.
    pub fn transient(why: impl Into<String>) -> Self {
        Self { why: why.into(), stuck: None, backoff_only: false }
    }
    fn stuck(why: String, help: &str) -> Self {
        Self { stuck: Some(Error::invalid(&why).help(help)), why, backoff_only: false }
    }
}

/// Returns why a Pod has not started.
pub(crate) fn wait_reason(pod: &Pod) -> PodWaitReason {
    let state = pods::container(pod).and_then(|state| state.waiting.as_ref());
    let reason = state.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let message = state.and_then(|waiting| waiting.message.as_deref());
    match reason {
        "ErrImagePull"
        | "ImagePullBackOff"
        | "ErrImageNeverPull"
        | "InvalidImageName"
        | "ImageInspectError"
        | "SignatureValidationFailed" => image(pod, reason, message),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            let text = pods::reason_text(None, message).unwrap_or_else(|| reason.to_string());
            let why = format!("cannot create its container: {text}");
            let help = "create in the namespace what the pool's options `environment_from_secret` and `volumes` name";
            PodWaitReason::stuck(why, help)
        }
        "" | "ContainerCreating" | "PodInitializing" => PodWaitReason::transient(unplaced_or_preparing(pod)),
        _ => PodWaitReason::transient(pods::reason_text(Some(reason), message).unwrap_or_default()),
    }
}

fn image(pod: &Pod, reason: &str, message: Option<&str>) -> PodWaitReason {
    let spec = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let image = spec.and_then(|container| container.image.as_deref()).unwrap_or("?");
    let text = pods::reason_text(Some(reason), message).unwrap_or_default();
    let why = format!("cannot pull the image `{image}`: {text}");
    // An unreachable registry may come back, and the kubelet retries.
    if is_network_trouble(&text) {
        return PodWaitReason::transient(why);
    }
    // Before Kubernetes 1.32 the message is only `Back-off pulling image "…"`.
    let vague = reason == "ImagePullBackOff" && !text.contains("ErrImagePull");
    PodWaitReason {
        backoff_only: vague,
        ..PodWaitReason::stuck(why, "check the pool's options `image` and `image_pull_secrets`")
    }
}

fn is_network_trouble(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let phrases =
        ["timeout", "timed out", "connection re", "no such host", "network is unreachable", "toomanyrequests"];
    phrases.iter().any(|phrase| text.contains(phrase))
}

fn unplaced_or_preparing(pod: &Pod) -> String {
    if let Some(unplaced) = pods::condition(pod, "PodScheduled", "False") {
        let message = unplaced.message.as_deref();
        return match unplaced.reason.as_deref() {
            Some("Unschedulable") => format!("no node can run it: {}", message.unwrap_or("no reason is given")),
            reason => pods::reason_text(reason, message).unwrap_or_else(|| "it has no node yet".into()),
        };
    }
    match pods::node(pod) {
        Some(node) => format!("{node} is preparing the container"),
        None => "it has no node yet".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trainyard_core::ErrorKind;

    fn pod(node: Option<&str>, status: Value) -> Pod {
        let containers = json!([{"name": "attempt", "image": "registry/trainyard:9"}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": containers},
            "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn container(reason: &str, message: &str) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let status = json!({"name": "attempt", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state});
        pod(Some("gpu-3"), json!({"phase": "Pending", "containerStatuses": [status]}))
    }

    #[test]
    fn unscheduled_pod_reports_scheduler_message() {
        let text = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text});
        let found = wait_reason(&pod(None, json!({"phase": "Pending", "conditions": [condition]})));
        assert_eq!(found, PodWaitReason::transient(format!("no node can run it: {text}")));
        assert_eq!(wait_reason(&pod(None, json!({}))).why, "it has no node yet");
    }

    #[test]
    fn scheduled_pod_reports_its_node() {
        let found = wait_reason(&container("ContainerCreating", ""));
        assert_eq!(found, PodWaitReason::transient("node gpu-3 is preparing the container"));
    }

    #[test]
    fn missing_image_is_stuck_but_unreachable_registry_is_not() {
        for reason in ["ErrImagePull", "ImagePullBackOff", "InvalidImageName"] {
            let found = wait_reason(&container(reason, "manifest unknown"));
            assert!(found.why.contains("cannot pull the image `registry/trainyard:9`"), "{}", found.why);
            assert_eq!(found.stuck.unwrap().kind, ErrorKind::Invalid);
        }
        assert!(wait_reason(&container("ImagePullBackOff", "Back-off pulling image \"x\"")).backoff_only);
        let message = "Back-off pulling image \"x\": ErrImagePull: not found";
        assert!(!wait_reason(&container("ImagePullBackOff", message)).backoff_only);
        let unreachable = wait_reason(&container("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout"));
        assert!(unreachable.why.contains("i/o timeout") && unreachable.stuck.is_none());
    }

    #[test]
    fn missing_secret_is_stuck() {
        let found = wait_reason(&container("CreateContainerConfigError", "secret \"store\" not found"));
        assert_eq!(found.why, "cannot create its container: secret \"store\" not found");
        assert!(found.stuck.unwrap().help.unwrap().contains("environment_from_secret"));
    }

    #[test]
    fn unknown_reasons_are_reported_unchanged() {
        let found = wait_reason(&container("RegistryUnavailable", "try later"));
        assert_eq!(found, PodWaitReason::transient("RegistryUnavailable: try later"));
    }
}
