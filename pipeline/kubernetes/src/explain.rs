//! Explains the state of an attempt in detail, from its Job, its Pods, Kueue's conditions, and related events.

use crate::observation;
use crate::pods;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Maximum number of events shown, latest last.
const EVENTS: usize = 10;

/// Formats all known facts about one attempt, one per line; returns `None` without any.
pub(crate) fn report(job: Option<&Job>, pods: &[Pod], workloads: &[Value], events: &[Event]) -> Option<String> {
    let mut lines: Vec<String> = job.map(job_line).into_iter().collect();
    lines.extend(workloads.iter().flat_map(workload_lines));
    for pod in pods {
        lines.extend(pod_lines(pod));
    }
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|event| time(event));
    lines.extend(events[events.len().saturating_sub(EVENTS)..].iter().map(|event| event_line(event)));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Field selector of the events that explain why a Job has no Pods.
pub(crate) const NO_POD: &str = "reason=FailedCreate,involvedObject.kind=Job";

/// Returns why a Job has no Pod, if an event explains it: a quota, or a policy of the namespace.
pub(crate) fn no_pod<'a>(job: &str, events: &'a [Event]) -> Option<&'a str> {
    let concerns_job = |event: &&Event| event.involved_object.name.as_deref() == Some(job);
    events.iter().filter(concerns_job).max_by_key(|event| time(event))?.message.as_deref()
}

/// Returns when an event was last seen. Event recorders of different versions set different fields.
fn time(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
    let micro = series.or(event.event_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0).or(micro);
    last.or(event.metadata.creation_timestamp.as_ref().map(|time| time.0))
}

fn job_line(job: &Job) -> String {
    let name = job.metadata.name.as_deref().unwrap_or("?");
    let namespace = job.metadata.namespace.as_deref().unwrap_or("?");
    let mut line = format!("Job {name} in namespace {namespace}");
    for kind in ["Complete", "Failed", "FailureTarget", "Suspended"] {
        if let Some(condition) = observation::condition(job, kind) {
            let text = pods::reason_text(condition.reason.as_deref(), condition.message.as_deref());
            line += &format!("; {kind}{}", text.map(|text| format!(" ({text})")).unwrap_or_default());
        }
    }
    if job.metadata.deletion_timestamp.is_some() {
        line += "; being deleted";
    }
    line
}

fn pod_lines(pod: &Pod) -> Vec<String> {
    let place = pods::node(pod).map(|node| format!(" on {node}")).unwrap_or_default();
    let deleting = if pods::is_deleting(pod) { ", being deleted" } else { "" };
    let mut lines = vec![format!("Pod {}{place}: {}{deleting}", pods::name(pod), pods::phase(pod))];
    let status = pod.status.as_ref();
    let pod_reason = status.and_then(|s| pods::reason_text(s.reason.as_deref(), s.message.as_deref()));
    let state = pods::container(pod);
    let waits = state.and_then(|s| s.waiting.as_ref());
    let waits = waits.and_then(|w| pods::reason_text(w.reason.as_deref(), w.message.as_deref()));
    let ended = state.and_then(|s| s.terminated.as_ref()).map(|t| {
        let text = pods::reason_text(t.reason.as_deref(), None).unwrap_or_default();
        format!("its container ended with code {} {text}", t.exit_code).trim_end().to_string()
    });
    let conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
    // `DisruptionTarget` is informative when true, all other conditions when false.
    let informative = conditions.filter(|c| (c.status == "True") == (c.type_ == "DisruptionTarget"));
    let conditions = informative.filter_map(|c| {
        let text = pods::reason_text(c.reason.as_deref(), c.message.as_deref())?;
        Some(format!("{}: {text}", c.type_))
    });
    lines.extend(pod_reason.into_iter().chain(waits).chain(ended).chain(conditions).map(|text| format!("  {text}")));
    lines
}

fn workload_lines(workload: &Value) -> Vec<String> {
    let conditions = workload["status"]["conditions"].as_array().into_iter().flatten();
    let line = |condition: &Value| {
        let text = pods::reason_text(condition["reason"].as_str(), condition["message"].as_str())?;
        let negation = if condition["status"] == "True" { "" } else { "not " };
        Some(format!("Kueue: {negation}{}: {text}", condition["type"].as_str()?))
    };
    conditions.filter_map(line).collect()
}

fn event_line(event: &Event) -> String {
    let text = pods::reason_text(event.reason.as_deref(), event.message.as_deref()).unwrap_or_default();
    let count = event.series.as_ref().and_then(|series| series.count).or(event.count).unwrap_or(1);
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    let warning = if event.type_.as_deref() == Some("Warning") { "warning: " } else { "" };
    format!("{warning}{text}{times}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(about: &str, at: &str, reason: &str, message: &str, count: i32) -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"kind": "Job", "name": about}, "type": "Warning",
            "lastTimestamp": at, "reason": reason, "message": message, "count": count,
        }))
        .unwrap()
    }

    #[test]
    fn report_lists_reasons_and_latest_events_last() {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": "j", "namespace": "ml"},
            "status": {"conditions": [{"type": "Suspended", "status": "True", "reason": "JobSuspended"}]},
        }))
        .unwrap();
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "j-x2"}, "spec": {"containers": [], "nodeName": "gpu-3"},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "True", "reason": "Placed"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "not ready: attempt"},
                {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
            ]},
        }))
        .unwrap();
        let workload = json!({"status": {"conditions": [{"type": "QuotaReserved", "status": "False",
            "reason": "Pending", "message": "couldn't assign flavors to pod set main: insufficient quota"}]}});
        let events = [
            event("j", "2026-11-22T10:00:09Z", "FailedMount", "secret not found", 3),
            event("j", "2026-11-22T10:00:01Z", "Created", "made", 1),
        ];
        let report = report(Some(&job), &[pod], &[workload], &events).unwrap();
        let expected = [
            "Job j in namespace ml; Suspended (JobSuspended)",
            "Kueue: not QuotaReserved: Pending: couldn't assign flavors to pod set main: insufficient quota",
            "Pod j-x2 on node gpu-3: Pending",
            "  Ready: ContainersNotReady: not ready: attempt",
            "  DisruptionTarget: EvictionByEvictionAPI",
            "warning: Created: made",
            "warning: FailedMount: secret not found (3 times)",
        ];
        assert_eq!(report, expected.join("\n"));
    }

    #[test]
    fn report_without_facts_is_none() {
        assert_eq!(report(None, &[], &[], &[]), None);
    }

    #[test]
    fn latest_event_explains_missing_pod() {
        let events = [
            event("j", "2026-11-22T10:00:09Z", "FailedCreate", "exceeded quota: team", 3),
            event("j", "2026-11-22T10:00:01Z", "FailedCreate", "older", 1),
            event("other", "2026-11-22T11:00:00Z", "FailedCreate", "not about it", 1),
        ];
        assert_eq!(no_pod("j", &events), Some("exceeded quota: team"));
        assert_eq!(no_pod("k", &events), None);
    }
}
