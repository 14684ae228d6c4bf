//! Derives the state of an attempt from its Job and Pods, as a pure function of the API server's responses.

use crate::failure::{disrupted, failure};
use crate::pods;
use crate::wait_reason::{PodWaitReason, wait_reason};
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::AttemptExit;

/// Observed state of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JobObservation {
    /// Not started, with the reason.
    Waits(PodWaitReason),
    /// The Job has no Pod and is not suspended; an event may explain why.
    NoPod,
    /// The Job is suspended, by Kueue or manually.
    Suspended {
        /// Reason, for display.
        why: String,
    },
    /// The attempt runs on all of its nodes.
    Runs,
    /// The attempt was deleted or is over on one node, and Pods are still present.
    Ending {
        /// Outcome, as far as it is known.
        how: Box<AttemptExit>,
    },
    /// All Pods are over or removed.
    Ended(Box<AttemptExit>),
}

/// Derives the state of an attempt from these objects; `job` is `None` if the API server has no such Job.
pub(crate) fn observe(job: Option<&Job>, pods: &[&Pod]) -> JobObservation {
    let Some(job) = job else { return without_job(pods) };
    let unfinished = pods.iter().any(|pod| !pods::is_over(pod));
    let finished = condition(job, "Complete").or_else(|| condition(job, "Failed"));
    if finished.is_some() || job.metadata.deletion_timestamp.is_some() {
        let how = Box::new(end_of(job, pods));
        // A Job that is being deleted disappears after its Pods; until then its name is taken.
        return if unfinished || finished.is_none() {
            JobObservation::Ending { how }
        } else {
            JobObservation::Ended(how)
        };
    }
    let spec = job.spec.as_ref();
    if spec.and_then(|spec| spec.suspend) == Some(true) {
        return JobObservation::Suspended { why: suspended(job) };
    }
    let nodes = spec.and_then(|spec| spec.parallelism).and_then(|n| usize::try_from(n).ok()).unwrap_or(1);
    progress(pods, nodes)
}

/// Returns the condition of this type if its status is `True`.
pub(crate) fn condition<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

fn without_job(pods: &[&Pod]) -> JobObservation {
    let how = Box::new(end_of_pods(pods).unwrap_or_else(|| disrupted("its Job was deleted")));
    if pods.iter().any(|pod| !pods::is_over(pod)) { JobObservation::Ending { how } } else { JobObservation::Ended(how) }
}

fn suspended(job: &Job) -> String {
    let queue = job.metadata.labels.as_ref().and_then(|labels| labels.get(crate::names::QUEUE));
    queue.map_or_else(|| "the Job is suspended".into(), |queue| format!("waits in Kueue's queue `{queue}`"))
}

/// Derives the state of a Job that is neither over nor suspended.
fn progress(pods: &[&Pod], nodes: usize) -> JobObservation {
    if pods.is_empty() {
        return JobObservation::NoPod;
    }
    // Pods are not retried, so a Pod that failed ends the attempt. The Job's status follows a moment later.
    if let Some(ended) = end_of_pods(pods).filter(|ended| ended.outcome != AttemptOutcome::Succeeded) {
        return JobObservation::Ending { how: Box::new(ended) };
    }
    if let Some(deleting) = pods.iter().find(|pod| pods::is_deleting(pod)) {
        let is_disrupted = pods::condition(deleting, "DisruptionTarget", "True").is_some();
        let how = if is_disrupted { failure(deleting) } else { disrupted("its Pod was deleted") };
        return JobObservation::Ending { how: Box::new(how) };
    }
    let started = pods.iter().filter(|pod| pods::has_started(pod)).count();
    if started >= nodes {
        return JobObservation::Runs;
    }
    let prefix = if nodes > 1 { format!("{started} of {nodes} nodes are ready; ") } else { String::new() };
    let waits: Vec<_> = pods.iter().filter(|pod| !pods::has_started(pod)).map(|pod| wait_reason(pod)).collect();
    // Pods that cannot start without intervention are reported first.
    let reason = waits.iter().find(|w| w.stuck.is_some()).or(waits.first());
    let reason = reason.cloned().unwrap_or_else(|| PodWaitReason::transient("the other nodes have no Pod yet"));
    JobObservation::Waits(PodWaitReason { why: format!("{prefix}{}", reason.why), ..reason })
}

/// Returns how a Job ended or is ending.
fn end_of(job: &Job, pods: &[&Pod]) -> AttemptExit {
    if condition(job, "Complete").is_some() {
        return AttemptExit::succeeded_unread();
    }
    let Some(failed) = condition(job, "Failed").or_else(|| condition(job, "FailureTarget")) else {
        return end_of_pods(pods).unwrap_or_else(|| disrupted("its Job was deleted"));
    };
    let reason = pods::reason_text(failed.reason.as_deref(), failed.message.as_deref()).unwrap_or_default();
    if let Some(ended) = end_of_pods(pods).filter(|ended| ended.outcome != AttemptOutcome::Succeeded) {
        return ended;
    }
    match failed.reason.as_deref() {
        Some("DeadlineExceeded") => {
            let error = Error::retryable(format!("Kubernetes ended the attempt's Job: {reason}"));
            AttemptExit::with_error(
                AttemptOutcome::TimedOut,
                error.help("raise `timeout`, or the limit that the cluster sets"),
            )
        }
        Some("PodFailurePolicy") => disrupted(&reason),
        _ => disrupted(&format!("its Pod was deleted before it ended ({reason})")),
    }
}

/// Returns the end of an attempt according to its Pods alone: the end of the Pod that failed first, or a success if all
/// succeeded. Returns `None` if there are no Pods, or some are not over and none has failed.
fn end_of_pods(pods: &[&Pod]) -> Option<AttemptExit> {
    let failed = pods.iter().filter(|pod| pods::phase(pod) == "Failed");
    // The others are stopped because it failed.
    if let Some(first) = failed.min_by_key(|pod| pods::terminated(pod).and_then(|t| t.finished_at.clone())) {
        return Some(failure(first));
    }
    let all = !pods.is_empty() && pods.iter().all(|pod| pods::phase(pod) == "Succeeded");
    all.then(AttemptExit::succeeded_unread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trainyard_core::ErrorKind;

    fn job(spec: Value, conditions: Value) -> Job {
        let mut spec = spec;
        spec["template"] = json!({});
        let job = json!({"metadata": {"name": "j", "labels": {"kueue.x-k8s.io/queue-name": "team"}},
            "spec": spec, "status": {"conditions": conditions}});
        serde_json::from_value(job).unwrap()
    }

    fn plain() -> Job {
        job(json!({"parallelism": 1}), json!([]))
    }

    fn failed(reason: &str, message: &str) -> Job {
        let condition = json!({"type": "Failed", "status": "True", "reason": reason, "message": message});
        job(json!({"parallelism": 1}), json!([condition]))
    }

    fn pod(phase: &str, state: Value) -> Pod {
        let status = json!({"name": "attempt", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state});
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": [status]}});
        serde_json::from_value(pod).unwrap()
    }

    fn running() -> Pod {
        pod("Running", json!({"running": {}}))
    }

    fn exited(code: i32, at: &str) -> Pod {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        pod(phase, json!({"terminated": {"exitCode": code, "finishedAt": at}}))
    }

    fn leaving(pod: Pod) -> Pod {
        let mut pod = pod;
        let at = serde_json::from_value(json!("2026-11-22T10:00:00Z")).unwrap();
        pod.metadata.deletion_timestamp = Some(at);
        pod
    }

    #[track_caller]
    fn over(observation: JobObservation) -> (AttemptOutcome, String) {
        let JobObservation::Ended(ended) = observation else { panic!("it is not over: {observation:?}") };
        (ended.outcome, ended.error.map(|e| e.message).unwrap_or_default())
    }

    #[test]
    fn attempt_starts_when_all_nodes_have_started() {
        assert_eq!(observe(Some(&plain()), &[]), JobObservation::NoPod);
        let one = pod("Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
        assert!(matches!(observe(Some(&plain()), &[&one]), JobObservation::Waits(w) if w.why == "it has no node yet"));
        assert_eq!(observe(Some(&plain()), &[&running()]), JobObservation::Runs);
        let two = job(json!({"parallelism": 2}), json!([]));
        let JobObservation::Waits(waits) = observe(Some(&two), &[&running(), &one]) else {
            panic!("one node is missing")
        };
        assert_eq!(waits.why, "1 of 2 nodes are ready; it has no node yet");
        let JobObservation::Waits(waits) = observe(Some(&two), &[&running()]) else { panic!("one node is missing") };
        assert_eq!(waits.why, "1 of 2 nodes are ready; the other nodes have no Pod yet");
        assert_eq!(observe(Some(&two), &[&running(), &running()]), JobObservation::Runs);
    }

    #[test]
    fn suspended_job_reports_its_queue() {
        let held = job(json!({"suspend": true}), json!([]));
        assert_eq!(
            observe(Some(&held), &[]),
            JobObservation::Suspended { why: "waits in Kueue's queue `team`".into() }
        );
    }

    #[test]
    fn job_ends_when_its_pods_have_ended() {
        let complete = job(json!({}), json!([{"type": "Complete", "status": "True"}]));
        assert_eq!(over(observe(Some(&complete), &[&exited(0, "2026-11-22T10:00:00Z")])).0, AttemptOutcome::Succeeded);
        assert_eq!(over(observe(Some(&complete), &[])).0, AttemptOutcome::Succeeded);
        let job = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        assert!(matches!(observe(Some(&job), &[&leaving(running())]), JobObservation::Ending { .. }));
    }

    #[test]
    fn first_failed_node_determines_the_error() {
        let job = failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        let (stopped, first) = (exited(143, "2026-11-22T10:00:09Z"), exited(7, "2026-11-22T10:00:01Z"));
        let (outcome, words) = over(observe(Some(&job), &[&stopped, &first]));
        assert_eq!(outcome, AttemptOutcome::Failed);
        assert!(words.contains("code 7"), "{words}");
    }

    #[test]
    fn failed_job_without_pods_is_lost() {
        let (outcome, words) = over(observe(Some(&failed("BackoffLimitExceeded", "limit")), &[]));
        assert_eq!(outcome, AttemptOutcome::Lost);
        assert!(words.contains("its Pod was deleted before it ended"), "{words}");
        let disrupted = failed("PodFailurePolicy", "Pod ml/p has condition DisruptionTarget");
        let (outcome, words) = over(observe(Some(&disrupted), &[]));
        assert_eq!(outcome, AttemptOutcome::Lost);
        assert!(words.contains("DisruptionTarget"), "{words}");
        assert_eq!(over(observe(Some(&failed("DeadlineExceeded", "late")), &[])).0, AttemptOutcome::TimedOut);
    }

    #[test]
    fn deleted_job_is_lost_once_its_pods_are_gone() {
        assert_eq!(
            over(observe(None, &[])),
            (AttemptOutcome::Lost, "Kubernetes ended the attempt: its Job was deleted".into())
        );
        assert!(matches!(observe(None, &[&leaving(running())]), JobObservation::Ending { .. }));
        assert_eq!(over(observe(None, &[&exited(0, "2026-11-22T10:00:00Z")])).0, AttemptOutcome::Succeeded);
    }

    #[test]
    fn deleted_pod_ends_the_attempt() {
        let JobObservation::Ending { how } = observe(Some(&plain()), &[&leaving(running())]) else { panic!("it ends") };
        assert_eq!(how.error.unwrap().kind, ErrorKind::Lost);
        // The Job's status does not show the failure yet.
        let JobObservation::Ending { how } = observe(Some(&plain()), &[&exited(3, "2026-11-22T10:00:00Z")]) else {
            panic!("it ends")
        };
        assert_eq!(how.outcome, AttemptOutcome::Failed);
    }
}
