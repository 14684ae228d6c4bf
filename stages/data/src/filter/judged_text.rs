//! Selects the text that the rules `language`, `repetition` and `symbols` judge.

use super::rows::RuleRows;
use super::rule::{RulePass, RuleVerdict};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use trainyard_core::Result;
use trainyard_tables::MessageColumns;

/// The text of a row that a rule judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgedText {
    /// All messages, without their roles.
    #[default]
    Conversation,
    /// The first user message.
    Question,
    /// The agent's messages.
    Answer,
}

impl JudgedText {
    /// Returns the text of a row. Blank lines separate messages.
    pub fn of<'a>(self, messages: &MessageColumns<'a>, row: usize) -> Cow<'a, str> {
        let of_row = messages.of_row(row);
        match self {
            Self::Conversation => joined(of_row.map(|(_, content)| content)),
            Self::Question => Cow::Borrowed(messages.question(row)),
            Self::Answer => joined(of_row.filter(|(role, _)| *role == "assistant").map(|(_, content)| content)),
        }
    }
}

fn joined<'a>(mut contents: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(contents.next().unwrap_or_default());
    for content in contents {
        let text = text.to_mut();
        text.push_str("\n\n");
        text.push_str(content);
    }
    text
}

/// Creates a pass that judges the text of each row for itself, on all cores. `buffers` creates what one thread reuses
/// from row to row.
pub fn each_text<'a, B: 'a>(
    of: JudgedText,
    buffers: impl Fn() -> B + Send + Sync + 'a,
    judge: impl Fn(&mut B, &str) -> RuleVerdict + Send + Sync + 'a,
) -> Box<dyn RulePass + 'a> {
    Box::new(EachText { of, buffers, judge })
}

struct EachText<N, J> {
    of: JudgedText,
    buffers: N,
    judge: J,
}

impl<B, N, J> RulePass for EachText<N, J>
where
    N: Fn() -> B + Send + Sync,
    J: Fn(&mut B, &str) -> RuleVerdict + Send + Sync,
{
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let messages = rows.messages()?;
        let (of, buffers, judge) = (self.of, &self.buffers, &self.judge);
        let verdicts = (0..rows.len())
            .into_par_iter()
            .with_min_len(32)
            .map_init(buffers, |buffers, row| judge(buffers, &of.of(&messages, row)));
        Ok(verdicts.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{Message, Trajectory};

    #[test]
    fn texts_are_those_of_the_chosen_messages() {
        let row = |messages: &[(&str, &str)]| Trajectory {
            messages: messages.iter().map(|(role, text)| Message::new(role, *text)).collect(),
            ..Trajectory::default()
        };
        let chat = [("system", "s"), ("user", "q"), ("assistant", "a"), ("user", "r"), ("assistant", "b")];
        let rows = [row(&chat), row(&[])];
        let rows = RuleRows::of(&rows.iter().collect::<Vec<_>>()).unwrap();
        let messages = rows.messages().unwrap();
        let texts =
            |row| [JudgedText::Conversation, JudgedText::Question, JudgedText::Answer].map(|of| of.of(&messages, row));
        assert_eq!(texts(0), ["s\n\nq\n\na\n\nr\n\nb", "q", "a\n\nb"]);
        assert_eq!(texts(1), ["", "", ""]);
    }
}
