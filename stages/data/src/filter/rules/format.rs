//! Implements the rule `format`: every tool call must parse and have a result, and the conversation must end with an
//! answer.

use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict, each_row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_envs::ToolFormat;
use trainyard_tables::Trajectory;

/// Rejects rows that a well-behaved agent could not have produced in the environment.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormatRule {}

impl PartOptions for FormatRule {
    const KIND: &'static str = "format";
    const SUMMARY: &'static str = "every call parses and has a result, and the last message answers";
    const DOC: &'static str = "Rejects rows with a tool call that does not parse, a call without a result, or a last\n\
        message that is not an answer. Reasons: broken_call, truncated_call, no_result, result_without_call,\n\
        no_answer.";
}

impl FilterRule for FormatRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let format = context.environment.format();
        Ok(each_row(move |row| Ok(judge(row, format))))
    }
}

fn judge(row: &Trajectory, format: &dyn ToolFormat) -> RuleVerdict {
    let mut waiting = false;
    let mut ended = false;
    for (i, message) in row.messages.iter().enumerate() {
        let place = || format!("message {}", i + 1);
        match message.role.as_str() {
            "assistant" if waiting => {
                return RuleVerdict::reject("no_result", format!("{} follows a call without a result", place()));
            }
            "assistant" => {
                let turn = format.parse(&message.content);
                if let Some(Err(e)) = turn.calls.iter().find(|c| c.is_err()) {
                    return RuleVerdict::reject("broken_call", format!("{}: {e}", place()));
                }
                if turn.truncated {
                    return RuleVerdict::reject("truncated_call", place());
                }
                waiting = !turn.calls.is_empty();
                ended = turn.calls.is_empty() && !turn.text.trim().is_empty();
            }
            "tool" if !waiting && !after_tool(row, i) => return RuleVerdict::reject("result_without_call", place()),
            _ => {
                waiting = false;
                ended = false;
            }
        }
    }
    if ended { RuleVerdict::Keep } else { RuleVerdict::reject("no_answer", "the last message is not an answer") }
}

/// Returns whether message `i` follows a tool result; several calls of one turn have several consecutive results.
fn after_tool(row: &Trajectory, i: usize) -> bool {
    i > 0 && row.messages[i - 1].role == "tool"
}
