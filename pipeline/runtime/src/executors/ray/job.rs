//! Builds the request that submits a Ray job, and derives an attempt's state from the response that describes the job.

use super::nodes::{self, RayNode};
use super::options::RayOptions;
use super::outcome;
use super::resources::{CPU, GPU, MEMORY, RayResources};
use crate::executors::{AttemptExit, AttemptState, AttemptTask, Launcher};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use trainyard_core::{Error, Result};

/// Metadata key of the requested resources, which Ray does not report.
const REQUEST: &str = "trainyard.request";

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RayJobRequest<'a> {
    pub(super) submission_id: String,
    /// Command for `sh -c`.
    pub(super) entrypoint: String,
    pub(super) entrypoint_num_cpus: f64,
    pub(super) entrypoint_num_gpus: f64,
    /// Bytes; Ray does not accept fractions here.
    pub(super) entrypoint_memory: u64,
    pub(super) entrypoint_resources: BTreeMap<&'a str, f64>,
    pub(super) metadata: BTreeMap<&'static str, String>,
    pub(super) runtime_env: Map<String, Value>,
}

/// Settings shared by all jobs of a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RayJobTemplate {
    /// Program and arguments before the attempt's URL.
    pub(super) command: Vec<String>,
    /// Environment variables of every attempt.
    pub(super) variables: BTreeMap<String, String>,
    /// Runtime environment; its variables are in `variables`.
    pub(super) runtime_env: Map<String, Value>,
    /// Whether attempts without GPUs see none.
    pub(super) hide_gpus: bool,
}

impl RayJobTemplate {
    /// Reads the settings of a pool. Errors: invalid (the options, or a program path that is not UTF-8).
    pub(super) fn new(launcher: &Launcher, options: &RayOptions) -> Result<Self> {
        let program = text(launcher.program.as_os_str())?;
        let arguments = launcher.arguments.iter().map(|argument| text(argument)).collect::<Result<Vec<_>>>()?;
        let mut variables = BTreeMap::new();
        for (name, value) in &launcher.env {
            variables.insert(text(name)?, text(value)?);
        }
        variables.extend(options.variables()?);
        let command = std::iter::once(program).chain(arguments).collect();
        Ok(Self { command, variables, runtime_env: options.runtime_env.clone(), hide_gpus: options.hide_gpus })
    }
}

impl<'a> RayJobRequest<'a> {
    /// Builds the job of an attempt that requests these amounts.
    pub(super) fn new(template: &RayJobTemplate, task: &AttemptTask, request: &'a RayResources) -> Self {
        let url = task.url();
        let mut runtime_env = template.runtime_env.clone();
        runtime_env.insert("env_vars".into(), variables(template, task, request).into_iter().collect());
        Self {
            submission_id: task.key(),
            entrypoint: entrypoint(&template.command, &url),
            entrypoint_num_cpus: request.get(CPU),
            entrypoint_num_gpus: request.get(GPU),
            entrypoint_memory: request.get(MEMORY) as u64,
            entrypoint_resources: request.custom(),
            metadata: metadata(task, request),
            runtime_env,
        }
    }
}

fn variables(template: &RayJobTemplate, task: &AttemptTask, request: &RayResources) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    // Numeric libraries read these variables at process start.
    for name in ["RAYON_NUM_THREADS", "OMP_NUM_THREADS"] {
        variables.insert(name.to_string(), task.spec.resources.cpus.to_string());
    }
    variables.extend(template.variables.clone());
    if template.hide_gpus && request.get(GPU) == 0.0 {
        // Ray hides GPUs only from jobs that request some.
        variables.insert("CUDA_VISIBLE_DEVICES".into(), String::new());
    }
    variables
}

fn metadata(task: &AttemptTask, request: &RayResources) -> BTreeMap<&'static str, String> {
    let spec = &task.spec;
    BTreeMap::from([
        // Name in Ray's job lists.
        ("job_name", task.title()),
        ("trainyard.workflow", spec.workflow.clone()),
        ("trainyard.run", spec.run.0.clone()),
        ("trainyard.stage", spec.stage.0.clone()),
        ("trainyard.attempt", spec.attempt.to_string()),
        (REQUEST, serde_json::to_string(request).unwrap_or_default()),
    ])
}

/// Builds the command for `sh -c`. The shell replaces itself with the attempt, so that Ray sees its exit code or
/// signal, and Ray's signals reach it.
fn entrypoint(command: &[String], url: &str) -> String {
    let words = command.iter().map(String::as_str).chain([url]).map(quoted);
    std::iter::once("exec".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Converts a text for a request. Errors: invalid (not UTF-8, which JSON requires).
fn text(value: &OsStr) -> Result<String> {
    let text = value.to_str().map(str::to_string);
    text.ok_or_else(|| Error::invalid(format!("{} is not UTF-8, which the Ray API requires", value.display())))
}

/// Job as reported by Ray.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct RayJob {
    /// `None` for jobs that were not submitted: Ray lists every driver that connected.
    pub(super) submission_id: Option<String>,
    pub(super) status: RayJobStatus,
    /// Message of up to 20,000 characters; for a failed command it includes the end of its output.
    #[serde(default)]
    pub(super) message: Option<String>,
    /// Error type, as one word.
    #[serde(default)]
    pub(super) error_type: Option<String>,
    /// Exit code of the command; if negative, the signal that ended it.
    #[serde(default)]
    pub(super) driver_exit_code: Option<i32>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum RayJobStatus {
    Pending,
    Running,
    Stopped,
    Succeeded,
    Failed,
    /// Status unknown to this version.
    #[serde(other)]
    Other,
}

impl RayJob {
    /// Returns the requested resources; `None` for jobs that Trainyard did not submit.
    pub(super) fn request(&self) -> Option<RayResources> {
        serde_json::from_str(self.metadata.as_ref()?.get(REQUEST)?).ok()
    }
    /// Returns Ray's message about the job.
    pub(super) fn message_text(&self) -> &str {
        self.message.as_deref().unwrap_or("Ray gives no message")
    }
    /// Returns whether the job waits or runs.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.status, RayJobStatus::Pending | RayJobStatus::Running | RayJobStatus::Other)
    }
    /// Returns the state of the job's attempt. `stop` is set if the job was requested to stop, to whether Ray has
    /// forwarded the request.
    pub(super) fn state(&self, stop: Option<bool>, nodes: &[RayNode]) -> AttemptState {
        match self.status {
            RayJobStatus::Pending if stop == Some(true) => AttemptState::Ended(outcome::stopped(true)),
            RayJobStatus::Pending => {
                let reason = self.request().and_then(|request| nodes::infeasible_reason(nodes, &request));
                AttemptState::Pending { why: Some(reason.unwrap_or_else(|| self.message_text().to_string())) }
            }
            RayJobStatus::Running | RayJobStatus::Other => AttemptState::Started,
            RayJobStatus::Stopped => AttemptState::Ended(outcome::stopped(stop.is_some())),
            RayJobStatus::Succeeded => AttemptState::Ended(AttemptExit::succeeded_unread()),
            RayJobStatus::Failed => AttemptState::Ended(outcome::failed(
                self.driver_exit_code,
                self.error_type.as_deref(),
                self.message_text(),
            )),
        }
    }
}

impl RayJobStatus {
    /// Returns the status as written by Ray.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Stopped => "STOPPED",
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::Other => "in an unknown state",
        }
    }
}
