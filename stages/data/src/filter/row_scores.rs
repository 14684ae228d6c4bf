//! Defines the numbers by which rules prefer one row to another.

use super::rows::RuleRows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::Result;
use trainyard_tables::MessageColumns;

/// A criterion for the better of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowScore {
    /// The higher reward.
    Reward,
    /// Fewer characters in the assistant's messages.
    Shortest,
    /// More characters in the assistant's messages.
    Longest,
    /// Fewer tool calls that failed.
    FewestToolErrors,
    /// Fewer tool calls.
    FewestToolCalls,
    /// Fewer turns of the agent.
    FewestTurns,
}

impl RowScore {
    /// Returns the column that the criterion reads.
    pub fn column(self) -> &'static str {
        match self {
            Self::Reward => "reward",
            Self::Shortest | Self::Longest => "messages",
            Self::FewestToolErrors => "tool_errors",
            Self::FewestToolCalls => "tool_calls",
            Self::FewestTurns => "turns",
        }
    }
    /// Returns a number for each row; of two rows, the higher number is better.
    pub fn of(self, rows: &RuleRows) -> Result<Vec<f64>> {
        let numbers = match self {
            Self::Shortest | Self::Longest => {
                let messages = rows.messages()?;
                (0..rows.len()).map(|row| answered_characters(&messages, row) as f64).collect()
            }
            _ => rows.numbers(self.column())?,
        };
        let sign = if matches!(self, Self::Reward | Self::Longest) { 1.0 } else { -1.0 };
        Ok(numbers.into_iter().map(|number| sign * number).collect())
    }
}

/// Returns the number of characters in the assistant's messages of a row.
pub fn answered_characters(messages: &MessageColumns<'_>, row: usize) -> usize {
    messages.of_row(row).filter(|(role, _)| *role == "assistant").map(|(_, content)| content.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{Message, Trajectory};

    #[test]
    fn higher_numbers_are_better() {
        let row = Trajectory {
            messages: [("user", "question"), ("assistant", "é!"), ("tool", "result"), ("assistant", "abc")]
                .map(|(role, text)| Message::new(role, text))
                .to_vec(),
            reward: 0.5,
            tool_calls: 4,
            tool_errors: 3,
            turns: 2,
            ..Trajectory::default()
        };
        let rows = RuleRows::of(&[&row, &Trajectory::default()]).unwrap();
        let found = |score: RowScore| score.of(&rows).unwrap();
        assert_eq!(found(RowScore::Reward), [0.5, 0.0]);
        assert_eq!(found(RowScore::Shortest), [-5.0, 0.0]);
        assert_eq!(found(RowScore::Longest), [5.0, 0.0]);
        assert_eq!(found(RowScore::FewestToolErrors), [-3.0, 0.0]);
        assert_eq!(found(RowScore::FewestToolCalls), [-4.0, 0.0]);
        assert_eq!(found(RowScore::FewestTurns), [-2.0, 0.0]);
    }
}
