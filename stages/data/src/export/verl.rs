//! Implements the format `verl`: prompts for verl's RL trainers and conversations for its SFT trainer, in Parquet.

use super::ExportForm;
use super::conversation::{self, ExportMessage, chats};
use super::format::{ExportFormat, ExportItem, FileKind};
use super::omissions::ExportOmissions;
use super::openai::TEXT_CALLS;
use crate::tool_text::assistant;
use trainyard_core::{Error, Result};
use trainyard_tables::{OrderedValue, Problem};

pub struct VerlExport;

impl ExportFormat for VerlExport {
    fn name(&self) -> &'static str {
        "verl"
    }
    fn summary(&self) -> &'static str {
        "rows for verl's trainers"
    }
    fn doc(&self) -> &'static str {
        "Parquet.\n\n\
        | form | columns | read by |\n|---|---|---|\n\
        | `prompts` | `data_source`, `prompt`, `ability` (the environment), `reward_model` (`style: rule`, \
        `ground_truth`), `extra_info` (`index`, `split`, `answer`: the worked solution, `problem`: the other columns) \
        | `RLHFDataset` |\n\
        | `sft` | `messages`, with calls as the agent wrote them in the text | `MultiTurnSFTDataset` |\n\n\
        A column of Parquet has one type, and arguments of different tools have none in common: as structures they \
        would come with every other tool's arguments, empty. So calls stay text (of Hermes' form if they were stored \
        separately), and tools are left out. Messages carry no loss mask."
    }
    fn forms(&self) -> &'static [ExportForm] {
        &[ExportForm::Sft, ExportForm::Prompts]
    }
    fn file(&self) -> FileKind {
        FileKind::Parquet
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        match item {
            ExportItem::Conversation(row) => {
                let messages = conversation::trajectory_messages(row, &mut ExportOmissions::default())?;
                let masked = messages.iter().filter(|message| message.is_context).count();
                omissions.add("loss masks of turns (the form `tokens` of `trl` keeps them)", masked);
                omissions.add(
                    "the structure of calls (their text is kept)",
                    messages.iter().map(|message| message.calls.len()).sum(),
                );
                omissions.add("tools of rows", usize::from(conversation::tools(row)?.is_some()));
                let written: Vec<ExportMessage<'_>> = messages.into_iter().map(calls_as_text).collect();
                Ok(OrderedValue::object([("messages", chats(&written, TEXT_CALLS)?)]))
            }
            ExportItem::Problem(problem, index) => prompt(problem, *index, omissions),
            _ => Err(Error::bug("`verl` writes conversations and prompts")),
        }
    }
}

/// Moves the calls of a message into its text, unless the stored text already contains them.
fn calls_as_text(exported: ExportMessage<'_>) -> ExportMessage<'_> {
    let stored = exported.message.content.as_str();
    let holds_calls = exported.calls.is_empty() || (exported.text != stored && !stored.is_empty());
    let text = if holds_calls { stored.to_string() } else { assistant(&exported.text, &exported.calls).content };
    ExportMessage { text, calls: Vec::new(), is_context: false, ..exported }
}

fn prompt(problem: &Problem, index: u64, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let text = |value: &str| OrderedValue::from(value);
    let messages = conversation::messages(&problem.messages, omissions)?;
    let model = OrderedValue::object([("style", text("rule")), ("ground_truth", text(&problem.answer))]);
    let columns = OrderedValue::object([
        ("id", text(&problem.id)),
        ("environment", text(&problem.environment)),
        ("level", OrderedValue::Int(i64::from(problem.level))),
        ("verifier", text(&problem.verifier)),
        ("canonical", text(&problem.canonical)),
    ]);
    let extra = OrderedValue::object([
        ("index", OrderedValue::Int(i64::try_from(index).unwrap_or(i64::MAX))),
        ("split", text(&problem.split)),
    ]);
    let extra =
        extra.with("answer", problem.reference.as_deref().map(OrderedValue::from)).with("problem", Some(columns));
    Ok(OrderedValue::object([
        ("data_source", text(&problem.source)),
        ("prompt", chats(&messages, TEXT_CALLS)?),
        ("ability", text(&problem.environment)),
        ("reward_model", model),
        ("extra_info", extra),
    ]))
}
