//! Implements the format `trl`: rows of TRL's trainers.

use super::conversation::{self, CallForm, chats};
use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use super::{ExportForm, openai};
use trainyard_core::Result;
use trainyard_tables::{OrderedValue, Problem, Trajectory};

/// Rows for `SFTTrainer`, `DPOTrainer`, `GRPOTrainer` and `PRMTrainer`.
pub struct TrlExport;

const CALLS: CallForm = CallForm { text_arguments: false };

impl ExportFormat for TrlExport {
    fn name(&self) -> &'static str {
        "trl"
    }
    fn summary(&self) -> &'static str {
        "rows for TRL's trainers"
    }
    fn doc(&self) -> &'static str {
        "JSON Lines.\n\n\
        | form | columns | trainer |\n|---|---|---|\n\
        | `sft` | `messages` with structured `tool_calls`; `tools` where no message describes them | `SFTTrainer` |\n\
        | `tokens` | `input_ids`, `labels`, `assistant_masks` | `SFTTrainer` |\n\
        | `preference` | `prompt`, `chosen`, `rejected`: lists of messages | `DPOTrainer` |\n\
        | `prompts` | `prompt`, `answer`, `id`, `level`, `environment`, `verifier`, … | `GRPOTrainer` |\n\
        | `steps` | `prompt`, `completions`, `labels` | `PRMTrainer` |\n\n\
        Assistant messages out of the loss have `weight: 0`, which the built-in templates read with \
        `assistant_only_loss=True`; with other templates use `tokens`."
    }
    fn forms(&self) -> &'static [ExportForm] {
        &ExportForm::ALL
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        match item {
            ExportItem::Conversation(row) => {
                let messages = conversation::trajectory_messages(row, omissions)?;
                Ok(OrderedValue::object([("messages", chats(&messages, CALLS)?)])
                    .with("tools", conversation::tools(row)?))
            }
            ExportItem::Tokens(sequence) => Ok(sequence.row()),
            ExportItem::Pair(chosen, rejected) => pair(chosen, rejected, omissions),
            ExportItem::Problem(problem, _) => prompt(problem, omissions),
            ExportItem::Steps(steps) => Ok(OrderedValue::object([
                ("prompt", OrderedValue::from(steps.prompt.as_str())),
                (
                    "completions",
                    OrderedValue::List(steps.completions.iter().map(|s| OrderedValue::from(s.as_str())).collect()),
                ),
                ("labels", OrderedValue::List(steps.labels.iter().map(|label| OrderedValue::Bool(*label)).collect())),
            ])),
        }
    }
}

/// Converts a pair to a row whose prompt is the common part, up to the agent's turn in which the two trajectories
/// differ.
fn pair(chosen: &Trajectory, rejected: &Trajectory, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let shared = chosen.messages.iter().zip(&rejected.messages).take_while(|(a, b)| a == b).count();
    let is_agent = |row: &Trajectory, at: usize| row.messages.get(at).is_some_and(|m| m.role == "assistant");
    let answer_start = (0..=shared).rev().find(|at| is_agent(chosen, *at) && is_agent(rejected, *at)).unwrap_or(shared);
    let (better, worse) =
        (conversation::messages(&chosen.messages, omissions)?, conversation::messages(&rejected.messages, omissions)?);
    let row = OrderedValue::object([
        ("prompt", chats(&better[..answer_start], CALLS)?),
        ("chosen", chats(&better[answer_start..], CALLS)?),
        ("rejected", chats(&worse[answer_start..], CALLS)?),
    ]);
    Ok(row.with("tools", conversation::tools(chosen)?))
}

fn prompt(problem: &Problem, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let text = |value: &str| OrderedValue::from(value);
    let messages = conversation::messages(&problem.messages, omissions)?;
    let row = OrderedValue::object([
        ("prompt", chats(&messages, openai::TEXT_CALLS)?),
        ("answer", text(&problem.answer)),
        ("id", text(&problem.id)),
        ("level", OrderedValue::Int(i64::from(problem.level))),
        ("environment", text(&problem.environment)),
        ("verifier", text(&problem.verifier)),
        ("source", text(&problem.source)),
        ("split", text(&problem.split)),
        ("canonical", text(&problem.canonical)),
    ]);
    Ok(row.with("reference", problem.reference.as_deref().map(OrderedValue::from)))
}
