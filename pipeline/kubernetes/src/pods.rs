//! Reads fields of the status of a Pod.

use crate::names::CONTAINER;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, Pod, PodCondition};

pub(crate) fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or("(a Pod without a name)")
}

/// Returns `node gpu-3` once the Pod is scheduled.
pub(crate) fn node(pod: &Pod) -> Option<String> {
    Some(format!("node {}", pod.spec.as_ref()?.node_name.as_ref()?))
}

/// Returns `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

/// Returns whether the Pod is over: no container of it runs or will run.
pub(crate) fn is_over(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Returns whether the Pod is being deleted.
pub(crate) fn is_deleting(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Returns the state of the container that the attempt runs in; `None` before the node has reported one.
pub(crate) fn container(pod: &Pod) -> Option<&ContainerState> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    statuses.iter().find(|status| status.name == CONTAINER)?.state.as_ref()
}

/// Returns how the attempt's container ended; `None` if it has not.
pub(crate) fn terminated(pod: &Pod) -> Option<&ContainerStateTerminated> {
    container(pod)?.terminated.as_ref()
}

/// Returns whether the attempt's container is running or has run.
pub(crate) fn has_started(pod: &Pod) -> bool {
    is_over(pod) || container(pod).is_some_and(|state| state.running.is_some() || state.terminated.is_some())
}

/// Returns the condition of this type if it has this status (`True`, `False`).
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str, status: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == status)
}

/// Formats `reason: message`, or the one that is present; `None` if both are missing or blank.
pub(crate) fn reason_text(reason: Option<&str>, message: Option<&str>) -> Option<String> {
    let present = |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_string);
    match (present(reason), present(message)) {
        (Some(reason), Some(message)) => Some(format!("{reason}: {message}")),
        (one, other) => one.or(other),
    }
}
