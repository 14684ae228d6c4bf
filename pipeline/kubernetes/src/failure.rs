//! Classifies the failure of a Pod as a failure of the stage, too little memory, or the loss of its machine.
//!
//! `failure.json`, which an attempt leaves in the store if it still can, takes precedence over this classification.

use crate::pods;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use trainyard_core::event::AttemptOutcome::{Failed, Lost, TimedOut};
use trainyard_core::units::format_size;
use trainyard_core::{Error, units::parse_size};
use trainyard_runtime::executors::AttemptExit;

/// Returns the end of an attempt whose Pod failed.
pub(crate) fn failure(pod: &Pod) -> AttemptExit {
    let status = pod.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    let message = status.and_then(|status| status.message.as_deref());
    let terminated = pods::terminated(pod);
    if reason == Some("DeadlineExceeded") {
        let error = Error::retryable("Kubernetes ended the attempt because it exceeded its timeout")
            .help("raise `timeout`, or let the stage do less");
        return AttemptExit::with_error(TimedOut, error);
    }
    if terminated.is_some_and(|t| t.reason.as_deref() == Some("OOMKilled")) {
        return AttemptExit::with_error(Failed, out_of_memory(pod));
    }
    if let Some(disruption) = pods::condition(pod, "DisruptionTarget", "True") {
        let why = pods::reason_text(disruption.reason.as_deref(), disruption.message.as_deref());
        let ended = lost(pod, why);
        return AttemptExit { error: ended.error.map(Error::by_preemption), ..ended };
    }
    match terminated {
        // Evicted, NodeLost, NodeShutdown, UnexpectedAdmissionError, OutOfcpu: caused by the machine, not the stage.
        _ if reason.is_some() => lost(pod, pods::reason_text(reason, message)),
        Some(terminated) => exited(pod, terminated),
        None => lost(pod, pods::reason_text(None, message)),
    }
}

/// Returns the end of an attempt whose Pod was removed for the reason `why`.
pub(crate) fn disrupted(why: &str) -> AttemptExit {
    AttemptExit::with_error(Lost, Error::lost(format!("Kubernetes ended the attempt: {why}")))
}

fn lost(pod: &Pod, reason: Option<String>) -> AttemptExit {
    let reason = reason.unwrap_or_else(|| "no reason is given".into());
    let place = pods::node(pod).map(|node| format!(" on {node}")).unwrap_or_default();
    AttemptExit::with_error(Lost, Error::lost(format!("Kubernetes ended the attempt{place}: {reason}")))
}

fn out_of_memory(pod: &Pod) -> Error {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let limits = container.and_then(|container| container.resources.as_ref()?.limits.as_ref());
    let limit = limits.and_then(|limits| limits.get("memory"));
    let limit = limit.map_or_else(
        || "its node has no memory left".into(),
        // The manifest has it in bytes, but Kubernetes may have rewritten it.
        |limit| format!("its limit is {}", parse_size(&limit.0).map_or(limit.0.clone(), format_size)),
    );
    Error::invalid(format!("the attempt ran out of memory: {limit}"))
        .help("request more with `resources: {memory: …}`, or reduce the memory use of the stage")
}

/// Classifies a process that exited without a reason from Kubernetes.
fn exited(pod: &Pod, terminated: &ContainerStateTerminated) -> AttemptExit {
    let message = terminated.message.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let detail = message.map(|text| format!(": {}", last_lines(text))).unwrap_or_default();
    let reason = terminated.reason.as_deref().unwrap_or_default();
    if matches!(reason, "StartError" | "ContainerCannotRun") {
        let error = Error::invalid(format!("cannot start the program in the image{detail}"))
            .help("check the pool's options `image` and `program`");
        return AttemptExit::with_error(Failed, error);
    }
    if reason == "ContainerStatusUnknown" {
        return lost(pod, Some(format!("its node lost track of the container{detail}")));
    }
    match terminated.exit_code {
        // Exit codes above 128 are 128 plus the signal number, as in shells.
        137 => AttemptExit::with_error(
            Lost,
            Error::lost(format!("the attempt's process was killed (signal 9){detail}"))
                .help("if one of its child processes ran out of memory, request more with `resources: {memory: …}`"),
        ),
        143 => AttemptExit::with_error(
            Lost,
            Error::lost(format!("the attempt's process was stopped from outside (signal 15){detail}")),
        ),
        code @ (132 | 134..=136 | 139 | 159) => {
            let signal = code - 128;
            let error = Error::bug(format!("the attempt's process crashed (signal {signal}){detail}"));
            AttemptExit::with_error(Failed, error.help("see its log"))
        }
        code => {
            let error = Error::bug(format!("the attempt's process ended with code {code} without an error{detail}"));
            AttemptExit::with_error(Failed, error.help("see its log"))
        }
    }
}

/// Returns the last three lines, at most 400 characters, for an error message.
fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let joined = lines[lines.len().saturating_sub(3)..].join(" / ");
    let start = joined.char_indices().rev().nth(399).map_or(0, |(at, _)| at);
    joined[start..].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use trainyard_core::ErrorKind;
    use trainyard_core::event::AttemptOutcome;

    fn pod(status: Value, terminated: Value) -> Pod {
        let mut status = status;
        status["phase"] = json!("Failed");
        if !terminated.is_null() {
            status["containerStatuses"] = json!([
                {"name": "mesh", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 99}}},
                {"name": "attempt", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": terminated}},
            ]);
        }
        let limits = json!({"cpu": "4", "memory": "68719476736"});
        let containers = json!([{"name": "attempt", "image": "i", "resources": {"limits": limits}}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "gpu-3", "containers": containers},
            "status": status});
        serde_json::from_value(pod).unwrap()
    }

    #[track_caller]
    fn expect(pod: &Pod, outcome: AttemptOutcome, kind: ErrorKind, words: &str) {
        let ended = failure(pod);
        let error = ended.error.unwrap();
        assert_eq!((ended.outcome, error.kind), (outcome, kind), "{error}");
        assert!(error.message.contains(words), "{error}");
    }

    #[test]
    fn out_of_memory_is_reported_with_the_limit() {
        let pod = pod(json!({}), json!({"exitCode": 137, "reason": "OOMKilled"}));
        expect(&pod, Failed, ErrorKind::Invalid, "ran out of memory: its limit is 64.0 GiB");
    }

    #[test]
    fn evicted_and_preempted_pods_are_lost() {
        let evicted = json!({"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."});
        expect(&pod(evicted, json!(null)), Lost, ErrorKind::Lost, "on node gpu-3: Evicted: The node was low on");
        let preempted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler", "message": "preempting to accommodate a higher priority pod"}]});
        let preempted = pod(preempted, json!({"exitCode": 143}));
        expect(&preempted, Lost, ErrorKind::Lost, "PreemptionByScheduler: preempting");
        assert!(failure(&preempted).error.unwrap().preempted, "it uses up no retry");
        let refused = json!({"reason": "UnexpectedAdmissionError", "message": "no healthy devices present"});
        expect(&pod(refused, json!(null)), Lost, ErrorKind::Lost, "no healthy devices");
        let unknown = json!({"exitCode": 137, "reason": "ContainerStatusUnknown"});
        expect(&pod(json!({}), unknown), Lost, ErrorKind::Lost, "lost track of the container");
        expect(&pod(json!({}), json!(null)), Lost, ErrorKind::Lost, "no reason is given");
    }

    #[test]
    fn exceeded_deadline_is_a_timeout() {
        let late = json!({"reason": "DeadlineExceeded"});
        expect(&pod(late, json!({"exitCode": 143})), TimedOut, ErrorKind::Retryable, "exceeded its timeout");
    }

    #[test]
    fn exit_code_of_the_attempt_container_is_used() {
        let failed = json!({"exitCode": 101, "reason": "Error", "message": "line 1\nline 2\n\nline 3\nthe last\n"});
        let words = "ended with code 101 without an error: line 2 / line 3 / the last";
        expect(&pod(json!({}), failed), Failed, ErrorKind::Bug, words);
        expect(&pod(json!({}), json!({"exitCode": 139})), Failed, ErrorKind::Bug, "crashed (signal 11)");
        expect(&pod(json!({}), json!({"exitCode": 137, "reason": "Error"})), Lost, ErrorKind::Lost, "signal 9");
    }

    #[test]
    fn missing_program_is_invalid() {
        let message = "exec: \"trainyard\": executable file not found in $PATH";
        let start = json!({"exitCode": 128, "reason": "StartError", "message": message});
        expect(&pod(json!({}), start), Failed, ErrorKind::Invalid, message);
    }

    #[test]
    fn long_messages_are_cut_at_a_char_boundary() {
        let words = last_lines(&"é".repeat(1_000));
        assert_eq!(words.chars().count(), 400);
    }
}
