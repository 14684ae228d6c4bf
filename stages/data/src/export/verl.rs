//! Format `verl`: prompts for verl's RL trainers and conversations for its SFT trainer, in Parquet.

use super::Form;
use super::conversation::{self, Said, chats};
use super::format::{ExportFormat, FileKind, Item};
use super::left_out::LeftOut;
use super::openai::TEXT_CALLS;
use crate::tool_text::assistant;
use trainyard_core::{Error, Result};
use trainyard_tables::{Ordered, Problem};

pub struct Verl;

impl ExportFormat for Verl {
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
        apart), and tools are left out. verl knows no turns out of the loss."
    }
    fn forms(&self) -> &'static [Form] {
        &[Form::Sft, Form::Prompts]
    }
    fn file(&self) -> FileKind {
        FileKind::Parquet
    }
    fn row(&self, item: &Item<'_>, left: &mut LeftOut) -> Result<Ordered> {
        match item {
            Item::Conversation(row) => {
                let said = conversation::of(row, &mut LeftOut::default())?;
                let masked = said.iter().filter(|said| said.is_context).count();
                left.add("that turns are out of the loss (the form `tokens` of `trl` keeps it)", masked);
                left.add("the structure of calls (their text is kept)", said.iter().map(|said| said.calls.len()).sum());
                left.add("tools of rows", usize::from(conversation::tools(row)?.is_some()));
                let written: Vec<Said<'_>> = said.into_iter().map(written).collect();
                Ok(Ordered::object([("messages", chats(&written, TEXT_CALLS)?)]))
            }
            Item::Problem(problem, index) => prompt(problem, *index, left),
            _ => Err(Error::bug("`verl` writes conversations and prompts")),
        }
    }
}

/// Returns the message with its calls in the text.
fn written(said: Said<'_>) -> Said<'_> {
    let stored = said.message.content.as_str();
    let holds_calls = said.calls.is_empty() || (said.text != stored && !stored.is_empty());
    let text = if holds_calls { stored.to_string() } else { assistant(&said.text, &said.calls).content };
    Said { text, calls: Vec::new(), is_context: false, ..said }
}

fn prompt(problem: &Problem, index: u64, left: &mut LeftOut) -> Result<Ordered> {
    let text = |value: &str| Ordered::from(value);
    let asked = conversation::messages(&problem.messages, left)?;
    let model = Ordered::object([("style", text("rule")), ("ground_truth", text(&problem.answer))]);
    let own = Ordered::object([
        ("id", text(&problem.id)),
        ("environment", text(&problem.environment)),
        ("level", Ordered::Int(i64::from(problem.level))),
        ("verifier", text(&problem.verifier)),
        ("canonical", text(&problem.canonical)),
    ]);
    let extra = Ordered::object([
        ("index", Ordered::Int(i64::try_from(index).unwrap_or(i64::MAX))),
        ("split", text(&problem.split)),
    ]);
    let extra = extra.with("answer", problem.reference.as_deref().map(Ordered::from)).with("problem", Some(own));
    Ok(Ordered::object([
        ("data_source", text(&problem.source)),
        ("prompt", chats(&asked, TEXT_CALLS)?),
        ("ability", text(&problem.environment)),
        ("reward_model", model),
        ("extra_info", extra),
    ]))
}
