//! Notifies the recipients of the site file about runs and schedules.
//!
//! A webhook receives JSON with all details, Slack receives a line of text, and a command receives the JSON on its
//! standard input. A failed delivery is a warning and does not change an exit code. Messages show only the host of an
//! address and the program of a command, since the rest may be secret.

mod deliver;

pub use deliver::{address, deliver};

use crate::attempt::secrets;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Error, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_runtime::summary::{self, LoadedSummary};
use trainyard_spec::site::{Notification, Site};
use trainyard_store::Store;

/// Maximum number of earlier runs among which the previous run of a workflow is searched.
const RUNS_BACK: usize = 50;

/// A notification.
#[derive(Debug, Clone, PartialEq)]
pub struct NotificationMessage {
    /// Event names that recipients select in `on`, most specific first.
    pub events: Vec<&'static str>,
    /// One line of text.
    pub text: String,
    /// Details for programs, a JSON object.
    pub details: Value,
}

/// Notifies every recipient of the site whose `on` names one of the events. A command does not get the variables of the
/// site's secrets. Returns the errors of failed deliveries.
pub async fn send(site: &Site, message: &NotificationMessage) -> Vec<Error> {
    let mut failed = Vec::new();
    let given = BTreeMap::new();
    let hidden: Vec<&str> = secrets::hidden_variables(&site.secrets, &given).collect();
    let selected =
        site.notifications.iter().filter(|n| n.on.iter().any(|name| message.events.contains(&name.as_str())));
    for notification in selected {
        failed.extend(deliver(&notification.to, &message.text, &body(message), &hidden).await.err());
    }
    failed
}

/// Returns the notification about a run's end: its outcome, whether a check failed, and whether the previous run of its
/// workflow failed. Returns `None` for a run that has not ended. `text` is the line for humans.
///
/// Errors: those of the store.
pub async fn run_ended(
    notifications: &[Notification],
    store: &Store,
    run: &RunId,
    view: &RunView,
    text: String,
) -> Result<Option<NotificationMessage>> {
    let Some((_, outcome)) = view.finished else { return Ok(None) };
    let status = match outcome {
        RunOutcome::Succeeded => "succeeded",
        RunOutcome::Failed => "failed",
        RunOutcome::Cancelled => "cancelled",
    };
    let mut events = vec![status];
    if view.stages.iter().flat_map(|stage| &stage.checks).any(|check| check.gates && !check.passed) {
        events.push("gate");
    }
    // Earlier runs are read only if a recipient requests the event.
    let needs_history = notifications.iter().any(|n| n.on.iter().any(|name| name == "recovered"));
    if needs_history
        && outcome == RunOutcome::Succeeded
        && previous_outcome(store, run, &view.workflow).await? == Some(RunOutcome::Failed)
    {
        events.push("recovered");
    }
    let failed: Vec<Value> = view.stages.iter().flat_map(failures).collect();
    let details = json!({"run": run.0, "workflow": view.workflow, "status": status, "failed": failed});
    Ok(Some(NotificationMessage { events, text, details }))
}

/// Returns the outcome of the workflow's previous run that succeeded or failed, or `None` if the latest [`RUNS_BACK`]
/// runs contain no such run.
async fn previous_outcome(store: &Store, run: &RunId, workflow: &str) -> Result<Option<RunOutcome>> {
    let runs = store.list_runs().await?;
    for other in runs.iter().rev().filter(|other| *other < run).take(RUNS_BACK) {
        // Unreadable runs are skipped.
        let Ok(known) = summary::read_summary(store, other).await else { continue };
        let totals = match known {
            LoadedSummary::Totals(totals) => totals,
            LoadedSummary::View(view) => view.totals(),
        };
        if totals.workflow == workflow && matches!(totals.outcome, Some(RunOutcome::Succeeded | RunOutcome::Failed)) {
            return Ok(totals.outcome);
        }
    }
    Ok(None)
}

fn body(message: &NotificationMessage) -> Value {
    let mut body = json!({"text": message.text, "events": message.events});
    if let (Value::Object(body), Value::Object(details)) = (&mut body, &message.details) {
        body.extend(details.clone());
    }
    body
}

/// Returns the checks that failed a stage. If no check failed, returns the error of the stage, which would otherwise
/// repeat the checks.
fn failures(stage: &StageView) -> Vec<Value> {
    let checks = stage.checks.iter().filter(|c| c.gates && !c.passed).map(trainyard_engine::checks::describe);
    let mut messages: Vec<String> = checks.collect();
    if messages.is_empty() {
        messages.extend(stage.error.iter().map(|error| error.message.clone()));
    }
    messages.into_iter().map(|message| json!({"stage": stage.stage.0, "error": message})).collect()
}
