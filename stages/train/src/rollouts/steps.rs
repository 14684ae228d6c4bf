//! Finds the ends of an episode's steps: after every agent turn, or after every line that the agent writes.
//!
//! A process reward model scores prefixes, so a step ends at a token. Labels, training and ranking use the same rule.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::Result;
use trainyard_lm::tokenizer::Tokenizer;

/// Unit of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A line that the agent writes (in a tool call, usually a line of code). The end of a turn also ends a line.
    #[default]
    Lines,
    /// A whole agent turn.
    Turns,
}

impl StepKind {
    /// Returns the exclusive end tokens, ascending. A line ends after the token that contains its line break; a blank
    /// line belongs to the next line.
    pub fn ends(self, tokenizer: &Tokenizer, token_ids: &[u32], loss_mask: &[bool], turn: &[u16]) -> Result<Vec<u32>> {
        let mut ends = Vec::new();
        let mut written = false;
        for t in 0..token_ids.len() {
            if !loss_mask[t] {
                continue;
            }
            let last_of_turn = t + 1 == token_ids.len() || !loss_mask[t + 1] || turn[t + 1] != turn[t];
            let text =
                if self == Self::Lines && !last_of_turn { tokenizer.decode(&token_ids[t..=t])? } else { String::new() };
            written |= !text.trim().is_empty();
            if last_of_turn || (written && text.contains('\n')) {
                ends.push(t as u32 + 1);
                written = false;
            }
        }
        Ok(ends)
    }
}
