//! Maps the end of a job to the end of its attempt.
//!
//! The attempt's objects in the store take precedence, so this mapping mostly matters for attempts that never ran, or
//! that died before they could store a failure.

use crate::executors::AttemptExit;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};

/// Maximum characters of Ray's message quoted in an error.
const QUOTE: usize = 600;

/// Phrases in Ray's message when it killed a process because its node was low on memory.
const OUT_OF_MEMORY: [&str; 3] = ["low on memory", "OutOfMemory", "out of memory"];
/// Phrases of transient faults, such as an interrupted download.
const PASSING: [&str; 4] = ["ConnectionError", "Timeout", "timed out", "Temporary failure"];
/// Phrases of Ray's Python code for invalid input.
const WRONG: [&str; 2] = ["ValueError", "TypeError"];

/// Returns the end of a job that failed: with the exit code of its command, or with Ray's error type for a failure
/// before that. `ray_message` is the message of Ray.
pub(super) fn failed(exit_code: Option<i32>, error_type: Option<&str>, ray_message: &str) -> AttemptExit {
    let error = match exit_code {
        Some(code) => of_exit_code(code, ray_message),
        None => of_type(error_type.unwrap_or_default(), ray_message),
    };
    let outcome = if error.kind == ErrorKind::Lost { AttemptOutcome::Lost } else { AttemptOutcome::Failed };
    AttemptExit::with_error(outcome, error)
}

/// Returns the end of a job that was stopped: by this engine if `by_us`, otherwise by another client.
pub(super) fn stopped(by_us: bool) -> AttemptExit {
    if by_us {
        return AttemptExit::cancelled();
    }
    let error = Error::cancelled("another client stopped the attempt's job in Ray").help("run the same command again");
    AttemptExit::with_error(AttemptOutcome::Cancelled, error)
}

/// Returns the end of a job that Ray does not know.
pub(super) fn unknown_job(id: &str) -> AttemptExit {
    let error = Error::lost(format!("Ray does not know the job {id} any more"))
        .help("it was deleted, or the head of the cluster was restarted");
    AttemptExit::with_error(AttemptOutcome::Lost, error)
}

/// Returns the error of a command that exited. With a shell in between, signals are reported as codes above 128.
fn of_exit_code(code: i32, ray_message: &str) -> Error {
    let signal = if code < 0 { -code } else { code - 128 };
    match (code, signal) {
        (126 | 127, _) => with("the node could not start the program", Error::invalid, &output(ray_message))
            .help("`program` of the pool must be the path of trainyard on the machines of the cluster"),
        (_, 9) => Error::lost("the attempt's process was killed (signal 9)")
            .help("if its node ran out of memory, request more `memory` or use a larger node"),
        (_, 4 | 6 | 7 | 8 | 11 | 31) => {
            with(&format!("the attempt's process crashed (signal {signal})"), Error::bug, &output(ray_message))
        }
        (_, 1..) => Error::lost(format!("the attempt's process was stopped from outside (signal {signal})")),
        _ => {
            let message = format!("the attempt's process ended with code {code} without an error");
            with(&message, Error::bug, &output(ray_message))
        }
    }
}

/// Returns the error of a job whose command did not exit.
fn of_type(error_type: &str, ray_message: &str) -> Error {
    let mentions = |phrases: &[&str]| phrases.iter().any(|phrase| ray_message.contains(phrase));
    match error_type {
        "RUNTIME_ENV_SETUP_FAILURE" => {
            let kind: fn(String) -> Error = if mentions(&PASSING) { Error::retryable } else { Error::invalid };
            with("Ray could not set up the runtime environment", kind, &reason(ray_message))
                .help("see `runtime_env` of the pool")
        }
        "JOB_SUPERVISOR_ACTOR_START_TIMEOUT" => Error::retryable(
            "Ray timed out waiting for a node with enough free resources for the attempt",
        )
        .help("on the head of the cluster, set RAY_JOB_START_TIMEOUT_SECONDS to the longest wait that you accept"),
        "JOB_SUPERVISOR_ACTOR_START_FAILURE" if mentions(&WRONG) => {
            with("Ray refused the job", Error::invalid, &reason(ray_message))
                .help("check the pool's options `resources` and `runtime_env`")
        }
        _ if mentions(&OUT_OF_MEMORY) => {
            with("the attempt was killed because its node ran out of memory", Error::lost, &reason(ray_message))
                .help("request more `memory`, so that fewer jobs share the node, or use a larger node")
        }
        _ => with("Ray lost the attempt", Error::lost, &reason(ray_message))
            .help("check the state of the nodes in the dashboard of the cluster"),
    }
}

fn with(message: &str, kind: impl Fn(String) -> Error, ray_message: &str) -> Error {
    if ray_message.is_empty() { kind(message.to_string()) } else { kind(format!("{message}: {ray_message}")) }
}

/// Returns the end of a command's output, which Ray quotes after a heading and mixed with lines of its job manager.
fn output(ray_message: &str) -> String {
    let is_ray_line = |line: &str| line.starts_with("Running entrypoint for job ") || line.contains(" job_manager.py:");
    let lines: Vec<&str> = ray_message.lines().skip(1).filter(|line| !is_ray_line(line)).collect();
    let text = lines.join("\n");
    let from = text.char_indices().rev().nth(QUOTE - 1).map_or(0, |(at, _)| at);
    text[from..].trim().to_string()
}

/// Returns the cause in one line: the last line of a traceback, or the reason why a supervisor died.
fn reason(ray_message: &str) -> String {
    let lines: Vec<&str> = ray_message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let from = if ray_message.contains("Traceback") {
        lines.len().saturating_sub(1)
    } else {
        lines.iter().rposition(|line| line.starts_with("The actor ")).unwrap_or(0)
    };
    lines[from..].join(" ").chars().take(QUOTE).collect()
}
