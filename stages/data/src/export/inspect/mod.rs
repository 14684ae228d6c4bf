//! Implements the format `inspect`: a log of Inspect, with one sample per trajectory.

mod archive;
mod log;
mod messages;
mod sample;
mod scores;
mod summary;

pub use archive::write_log;

use super::ExportForm;
use super::format::{ExportFormat, ExportItem, FileKind};
use super::omissions::ExportOmissions;
use trainyard_core::{Error, Result};
use trainyard_tables::OrderedValue;

pub struct InspectExport;

impl ExportFormat for InspectExport {
    fn name(&self) -> &'static str {
        "inspect"
    }
    fn summary(&self) -> &'static str {
        "a log of Inspect, for its viewer"
    }
    fn doc(&self) -> &'static str {
        "One `.eval` file in the form `sft`, which `inspect view` shows and `inspect_ai.log.read_eval_log` reads.\n\n\
        | part | content |\n|---|---|\n\
        | sample | one trajectory: `id` is the problem, `epoch` the rollout of the problem, counted from 1 |\n\
        | `input`, `target` | the messages of the prompt, the expected answer |\n\
        | `messages` | the conversation, with structured `tool_calls` and the ids of their results |\n\
        | `output` | the last turn of the agent, its stop reason, the number of tokens |\n\
        | `scores` | `correct` (`C` or `I`, with the answer), `reward`, and the components of the reward |\n\
        | `metadata` | the other columns of the row |\n\
        | `results` | the means of the scores over all samples |\n\n\
        Rollouts of one problem with the same number are numbered on. A component called `correct` or `reward` is \
        `reward_correct` or `reward_reward`. Assistant messages out of the loss have the metadata `weight: 0`. Times \
        are 1970-01-01, and all ids are digests of the samples, so that equal rows give equal files. Left out: the \
        values of tokens, which Inspect stores by their text (`--as atif` has them)."
    }
    fn forms(&self) -> &'static [ExportForm] {
        &[ExportForm::Sft]
    }
    fn file(&self) -> FileKind {
        FileKind::InspectLog
    }
    fn keeps_columns(&self) -> bool {
        false
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        let ExportItem::Conversation(row) = item else { return Err(Error::bug("`inspect` writes conversations")) };
        sample::sample(row, omissions)
    }
}

#[cfg(test)]
mod tests;
