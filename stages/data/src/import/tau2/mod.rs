//! Implements the format `tau2`: tasks of tau2-bench's retail domain (github.com/sierra-research/tau2-bench), for
//! environment `customer-service`.
//!
//! A task becomes a user's script ([`script`]), gold actions and facts that the agent must communicate. Assertions that
//! require a language model as judge (`nl_assertions`) are left out. The level is the number of gold actions that
//! change the database, at least 1; `reference` has one gold action per line, as JSON. If `split_tasks.json` is next to
//! the file, only tasks of the wanted split are read (`train`, `test`, or `base` for all). Tasks of other domains, with
//! an initial state, or with user actions are errors.

pub mod script;

use super::format::{ImportContext, ImportFormat, ImportedRows, RowConverter};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_envs::environments::customer_service::task::{CustomerTask, GoldAction, RESOLVED, Requestor};
use trainyard_envs::environments::customer_service::tools::tool;
use trainyard_tables::{Message, Problem};

/// File that lists the tasks of each split.
const SPLITS: &str = "split_tasks.json";

/// Environment of the problems, unless the options name another one.
const ENVIRONMENT: &str = "customer-service";

/// Fills `problems`.
pub struct Tau2;

#[derive(Deserialize)]
struct Tau2Task {
    id: String,
    user_scenario: Scenario,
    #[serde(default)]
    initial_state: Option<Value>,
    evaluation_criteria: Criteria,
}

#[derive(Deserialize)]
struct Scenario {
    instructions: script::Instructions,
}

#[derive(Deserialize)]
struct Criteria {
    #[serde(default)]
    actions: Option<Vec<Tau2Action>>,
    #[serde(default)]
    communicate_info: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Tau2Action {
    name: String,
    arguments: BTreeMap<String, Value>,
    #[serde(default)]
    requestor: Option<Requestor>,
}

impl ImportFormat for Tau2 {
    fn name(&self) -> &'static str {
        "tau2"
    }
    fn summary(&self) -> &'static str {
        "retail tasks of tau2-bench"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn file_name(&self, _split: &str) -> Option<String> {
        Some("tasks.json".into())
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        ["user_scenario", "evaluation_criteria"].iter().all(|column| columns.contains_key(*column))
    }
    fn environment(&self, _: &Map<String, Value>) -> Option<&'static str> {
        Some(ENVIRONMENT)
    }
    fn open<'r>(&'r self, file: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        let split_ids = split_of(file, &reading.split)?;
        Ok(Box::new(move |row| {
            let row = read_task(row.columns.clone())?;
            if split_ids.as_ref().is_some_and(|ids| !ids.contains(&row.id)) {
                return Ok(ImportedRows::default());
            }
            Ok(problem(row, reading)?.into())
        }))
    }
}

fn read_task(row: Map<String, Value>) -> Result<Tau2Task> {
    serde_json::from_value(Value::Object(row)).map_err(|e| Error::data(format!("not a tau2-bench task: {e}")))
}

/// Returns the task ids of a split, or `None` if no file of splits is next to `file`.
fn split_of(file: &Path, split: &str) -> Result<Option<BTreeSet<String>>> {
    let path = file.with_file_name(SPLITS);
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(&path).map_err(|e| io_error(&path, &e))?;
    let mut splits: BTreeMap<String, BTreeSet<String>> = serde_json::from_str(&text)
        .map_err(|e| Error::data(format!("{}: not lists of task ids by split: {e}", path.display())))?;
    let known = splits.keys().cloned().collect::<Vec<_>>().join(", ");
    match splits.remove(split) {
        Some(ids) => Ok(Some(ids)),
        None => {
            Err(Error::invalid(format!("{}: no split `{split}`", path.display())).help(format!("use one of: {known}")))
        }
    }
}

fn problem(row: Tau2Task, reading: &ImportContext) -> Result<Problem> {
    let Tau2Task { id, user_scenario: Scenario { instructions }, initial_state, evaluation_criteria } = row;
    if instructions.domain != "retail" {
        return Err(Error::data(format!("task `{id}` belongs to domain `{}`", instructions.domain))
            .help("import tasks of the domain `retail`"));
    }
    if initial_state.is_some() {
        return Err(Error::data(format!("task `{id}` has an initial state, which cannot be imported")));
    }
    let actions = evaluation_criteria
        .actions
        .unwrap_or_default()
        .into_iter()
        .map(|a| gold(&id, a))
        .collect::<Result<Vec<_>>>()?;
    let task = CustomerTask {
        user: script::user_script(&instructions, &actions),
        communicate: evaluation_criteria.communicate_info.unwrap_or_default(),
        actions,
    };
    let changes = task.actions.iter().filter(|a| tool(&a.name).is_some_and(|t| t.changes)).count();
    let lines = task.actions.iter().map(line).collect::<Result<Vec<_>>>()?;
    Ok(Problem {
        id: format!("{}-{id}", reading.name),
        messages: vec![Message::new("user", task.user.reason.as_str())],
        answer: RESOLVED.to_string(),
        verifier: task.verifier()?,
        environment: reading.environment_or(ENVIRONMENT),
        level: changes.max(1) as u32,
        source: reading.name.clone(),
        split: reading.split.clone(),
        canonical: crate::text::normal(&format!("{} {}", task.user.reason, task.user.known)),
        reference: Some(lines.join("\n")),
        meta: None,
        parents: Vec::new(),
    })
}

fn gold(id: &str, action: Tau2Action) -> Result<GoldAction> {
    let Tau2Action { name, arguments, requestor } = action;
    if requestor == Some(Requestor::User) {
        return Err(Error::data(format!(
            "task `{id}`: action `{name}` is the user's, but users' tools cannot be imported"
        )));
    }
    if tool(&name).is_none() {
        return Err(Error::data(format!("task `{id}`: unknown tool `{name}`"))
            .help("only tools of the retail domain are supported"));
    }
    Ok(GoldAction { name, arguments, requestor: Requestor::Assistant })
}

/// Returns one gold action as a line of JSON with a fixed key order.
fn line(action: &GoldAction) -> Result<String> {
    #[derive(serde::Serialize)]
    struct ReferenceLine<'a> {
        name: &'a str,
        arguments: &'a BTreeMap<String, Value>,
    }
    let line = ReferenceLine { name: &action.name, arguments: &action.arguments };
    serde_json::to_string(&line).map_err(|e| Error::bug(format!("a gold action has no JSON form: {e}")))
}

#[cfg(test)]
mod tests;
