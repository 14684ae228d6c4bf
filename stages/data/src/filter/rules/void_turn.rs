//! Implements the rule `void_turn`: rejects rows with a turn that has neither a complete tool call nor a final answer
//! (SimpleTIR, arXiv 2509.02479).

use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict, each_row};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
use trainyard_envs::Environment;
use trainyard_tables::Trajectory;

/// Rejects rows with a void turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidTurnRule {}

impl PartOptions for VoidTurnRule {
    const KIND: &'static str = "void_turn";
    const SUMMARY: &'static str = "every turn calls a tool or answers";
    const DOC: &'static str = "Rejects rows with a turn that has neither a complete tool call nor a final answer. In\n\
        environments with a user, words that the user replied to are not void. Reason: void. Source: 2509.02479.";
}

impl FilterRule for VoidTurnRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages"])
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let environment = context.environment;
        Ok(each_row(move |row| {
            let found = void_turn(row, environment);
            Ok(found.map_or(RuleVerdict::Keep, |turn| RuleVerdict::reject("void", format!("turn {}", turn + 1))))
        }))
    }
}

/// Returns the index of the first void turn of the agent.
fn void_turn(row: &Trajectory, environment: &dyn Environment) -> Option<usize> {
    let format = environment.format();
    let last = row.messages.iter().rposition(|m| m.role == "assistant");
    row.messages.iter().enumerate().filter(|(_, m)| m.role == "assistant").position(|(i, message)| {
        let turn = format.parse(&message.content);
        let calls = turn.calls.iter().any(std::result::Result::is_ok) && !turn.truncated;
        let answers = Some(i) == last && turn.calls.is_empty() && !turn.truncated && !turn.text.trim().is_empty();
        let has_reply = environment.converses() && row.messages.get(i + 1).is_some_and(|next| next.role == "user");
        !calls && !answers && !has_reply
    })
}
