//! Implements the format `atif`: trajectories of the Agent Trajectory Interchange Format, version 1.8.

mod metrics;
mod steps;

use super::ExportForm;
use super::conversation::{self, trajectory_messages};
use super::facts::{facts, json};
use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use trainyard_core::{Error, Result};
use trainyard_tables::{OrderedValue, Trajectory};

const VERSION: &str = "ATIF-v1.8";

pub struct AtifExport;

impl ExportFormat for AtifExport {
    fn name(&self) -> &'static str {
        "atif"
    }
    fn summary(&self) -> &'static str {
        "trajectories of ATIF"
    }
    fn doc(&self) -> &'static str {
        "JSON Lines in the form `sft`: each line is one document of ATIF 1.8, which \
        `atif.Trajectory.model_validate_json` reads.\n\n\
        | part | content |\n|---|---|\n\
        | `trajectory_id` | the id of the row |\n\
        | `agent` | `model_name` is the digest of the model; `tool_definitions` where no message describes the \
        tools |\n\
        | `steps` | one per message of the system, the user and the agent; results of tools are the `observation` \
        of the step that called them |\n\
        | `metrics` of a step | `prompt_token_ids`, `completion_token_ids`, `logprobs`; in `extra` the other values of \
        its tokens |\n\
        | `final_metrics` | numbers of tokens and steps; in `extra` the rewards |\n\
        | `extra` | the verdict and the other columns of the row |\n\n\
        The prompt of a step is all that the agent had in view, so ids of a long episode with many turns repeat. \
        Answers that the prompt contained have `is_copied_context`; agent steps out of the loss have `weight: 0` in \
        their `extra`. Calls without an id get `call_1`, `call_2`, …"
    }
    fn forms(&self) -> &'static [ExportForm] {
        &[ExportForm::Sft]
    }
    fn keeps_columns(&self) -> bool {
        false
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        let ExportItem::Conversation(row) = item else { return Err(Error::bug("`atif` writes conversations")) };
        document(row, omissions)
    }
}

/// Converts a trajectory. Errors: data, if its calls or tools are not JSON, or its per-token columns differ in length.
fn document(row: &Trajectory, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let exported = trajectory_messages(row, omissions)?;
    let metrics = metrics::of_turns(row, omissions)?;
    let totals = metrics::totals(&metrics);
    let steps = steps::steps(row, &exported, metrics, omissions)?;
    let totals = totals
        .with("total_steps", Some(OrderedValue::Int(i64::try_from(steps.len()).unwrap_or(i64::MAX))))
        .with("extra", rewards(row)?);
    let check = row.answer_check.as_ref().map(json).transpose()?;
    Ok(OrderedValue::object([
        ("schema_version", VERSION.into()),
        ("trajectory_id", row.id.as_str().into()),
        ("agent", agent(row, omissions)?),
        ("steps", OrderedValue::List(steps)),
        ("final_metrics", totals),
        ("extra", facts(row)?.with("answer_check", check)),
    ]))
}

fn agent(row: &Trajectory, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let tools = match conversation::tools(row)? {
        Some(OrderedValue::RawJson(text)) if !is_list_of_objects(&text) => {
            omissions.add("tools that are no list of objects", 1);
            None
        }
        other => other,
    };
    Ok(OrderedValue::object([("name", "trainyard".into()), ("version", env!("CARGO_PKG_VERSION").into())])
        .with("model_name", row.model_digest.as_deref().map(OrderedValue::from))
        .with("tool_definitions", tools))
}

fn is_list_of_objects(text: &str) -> bool {
    serde_json::from_str::<Vec<serde_json::Map<String, serde_json::Value>>>(text).is_ok()
}

/// Returns the reward with its components, or `None` for rows that nothing rewarded.
fn rewards(row: &Trajectory) -> Result<Option<OrderedValue>> {
    if row.rewards.is_empty() && row.reward == 0.0 {
        return Ok(None);
    }
    let sum = OrderedValue::Float(row.reward);
    Ok(Some(OrderedValue::object([("reward", sum), ("rewards", json(&row.rewards)?)])))
}

#[cfg(test)]
mod tests;
