//! Format `trl`: rows of TRL's trainers.

use super::conversation::{self, CallForm, chats};
use super::format::{ExportFormat, Item};
use super::left_out::LeftOut;
use super::{Form, openai};
use trainyard_core::Result;
use trainyard_tables::{Ordered, Problem, Trajectory};

/// Rows for `SFTTrainer`, `DPOTrainer`, `GRPOTrainer` and `PRMTrainer`.
pub struct Trl;

const CALLS: CallForm = CallForm { text_arguments: false };

impl ExportFormat for Trl {
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
    fn forms(&self) -> &'static [Form] {
        &Form::ALL
    }
    fn row(&self, item: &Item<'_>, left: &mut LeftOut) -> Result<Ordered> {
        match item {
            Item::Conversation(row) => {
                let said = conversation::of(row, left)?;
                Ok(Ordered::object([("messages", chats(&said, CALLS)?)]).with("tools", conversation::tools(row)?))
            }
            Item::Tokens(sequence) => Ok(sequence.row()),
            Item::Pair(chosen, rejected) => pair(chosen, rejected, left),
            Item::Problem(problem, _) => prompt(problem, left),
            Item::Steps(steps) => Ok(Ordered::object([
                ("prompt", Ordered::from(steps.prompt.as_str())),
                ("completions", Ordered::List(steps.completions.iter().map(|s| Ordered::from(s.as_str())).collect())),
                ("labels", Ordered::List(steps.labels.iter().map(|label| Ordered::Bool(*label)).collect())),
            ])),
        }
    }
}

/// Returns a pair whose prompt is the common part, up to the agent's turn in which the two differ.
fn pair(chosen: &Trajectory, rejected: &Trajectory, left: &mut LeftOut) -> Result<Ordered> {
    let shared = chosen.messages.iter().zip(&rejected.messages).take_while(|(a, b)| a == b).count();
    let speaks = |row: &Trajectory, at: usize| row.messages.get(at).is_some_and(|m| m.role == "assistant");
    let parted = (0..=shared).rev().find(|at| speaks(chosen, *at) && speaks(rejected, *at)).unwrap_or(shared);
    let (better, worse) =
        (conversation::messages(&chosen.messages, left)?, conversation::messages(&rejected.messages, left)?);
    let row = Ordered::object([
        ("prompt", chats(&better[..parted], CALLS)?),
        ("chosen", chats(&better[parted..], CALLS)?),
        ("rejected", chats(&worse[parted..], CALLS)?),
    ]);
    Ok(row.with("tools", conversation::tools(chosen)?))
}

fn prompt(problem: &Problem, left: &mut LeftOut) -> Result<Ordered> {
    let text = |value: &str| Ordered::from(value);
    let asked = conversation::messages(&problem.messages, left)?;
    let row = Ordered::object([
        ("prompt", chats(&asked, openai::TEXT_CALLS)?),
        ("answer", text(&problem.answer)),
        ("id", text(&problem.id)),
        ("level", Ordered::Int(i64::from(problem.level))),
        ("environment", text(&problem.environment)),
        ("verifier", text(&problem.verifier)),
        ("source", text(&problem.source)),
        ("split", text(&problem.split)),
        ("canonical", text(&problem.canonical)),
    ]);
    Ok(row.with("reference", problem.reference.as_deref().map(Ordered::from)))
}
