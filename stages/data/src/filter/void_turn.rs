//! Implements the rule `void_turn`: rejects rows with a turn that has neither a complete tool call nor a final answer
//! (SimpleTIR, arXiv 2509.02479).

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::Result;
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
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let format = context.environment.format();
        let void = |row: &Trajectory| {
            let last = row.messages.iter().rposition(|m| m.role == "assistant");
            row.messages.iter().enumerate().filter(|(_, m)| m.role == "assistant").position(|(i, message)| {
                let turn = format.parse(&message.content);
                let calls = turn.calls.iter().any(std::result::Result::is_ok) && !turn.truncated;
                let answers =
                    Some(i) == last && turn.calls.is_empty() && !turn.truncated && !turn.text.trim().is_empty();
                let has_reply =
                    context.environment.converses() && row.messages.get(i + 1).is_some_and(|next| next.role == "user");
                !calls && !answers && !has_reply
            })
        };
        Ok(rows
            .iter()
            .map(|row| {
                void(row).map_or(RuleVerdict::Keep, |turn| RuleVerdict::reject("void", format!("turn {}", turn + 1)))
            })
            .collect())
    }
}
