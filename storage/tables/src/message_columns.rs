//! Reads the texts of conversations from their Arrow column, without a copy.

use arrow_array::cast::AsArray;
use arrow_array::{Array as _, ListArray, RecordBatch, StringArray};
use std::ops::Range;
use trainyard_core::{Error, Result};

/// The column `messages` of some rows.
pub struct MessageColumns<'a> {
    lists: &'a ListArray,
    roles: &'a StringArray,
    contents: &'a StringArray,
    /// Further texts of a message that the batch has: reasoning and calls.
    others: Vec<&'a StringArray>,
}

impl<'a> MessageColumns<'a> {
    /// Borrows the column of a batch that [`crate::conform_rows`] returned. Errors: bug (no such column).
    pub fn of(batch: &'a RecordBatch) -> Result<Self> {
        let lists = batch.column_by_name("messages").and_then(|column| column.as_list_opt::<i32>());
        let found = lists.and_then(|lists| {
            let parts = lists.values().as_struct_opt()?;
            let text = |name: &str| parts.column_by_name(name)?.as_string_opt::<i32>();
            let others = ["reasoning_content", "tool_calls"].into_iter().filter_map(text).collect();
            Some(Self { lists, roles: text("role")?, contents: text("content")?, others })
        });
        found.ok_or_else(|| Error::bug("a batch has no column `messages`"))
    }
    /// Returns the role and the content of each message of a row.
    pub fn of_row(&self, row: usize) -> impl DoubleEndedIterator<Item = (&'a str, &'a str)> + use<'a> {
        let (roles, contents) = (self.roles, self.contents);
        self.range(row).map(move |i| (roles.value(i), contents.value(i)))
    }
    /// Returns the content, the reasoning and the calls of each message of a row.
    pub fn texts_of_row(&self, row: usize) -> impl Iterator<Item = &'a str> + '_ {
        let others =
            |i: usize| self.others.iter().filter(move |texts| texts.is_valid(i)).map(move |texts| texts.value(i));
        self.range(row).flat_map(move |i| std::iter::once(self.contents.value(i)).chain(others(i)))
    }
    /// Returns the content of the first user message of a row; empty without one.
    pub fn question(&self, row: usize) -> &'a str {
        self.of_row(row).find(|(role, _)| *role == "user").map_or("", |(_, content)| content)
    }
    /// Returns the content of the last user message of a row, as [`crate::Problem::question`] does; empty without one.
    pub fn last_question(&self, row: usize) -> &'a str {
        self.of_row(row).rfind(|(role, _)| *role == "user").map_or("", |(_, content)| content)
    }

    fn range(&self, row: usize) -> Range<usize> {
        let offsets = self.lists.value_offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExtraColumns, Message, Trajectory, encode_columns};

    #[test]
    fn texts_include_reasoning_and_calls() {
        let call = Message { tool_calls: Some("[1]".into()), ..Message::new("assistant", "c") };
        let thought = Message { reasoning_content: Some("r".into()), ..Message::new("assistant", "a") };
        let row = Trajectory { messages: vec![Message::new("user", "q"), call, thought], ..Trajectory::default() };
        let batch = encode_columns(&[&row], &["messages".to_string()], ExtraColumns::ALL).unwrap();
        let messages = MessageColumns::of(&batch).unwrap();
        assert_eq!(messages.texts_of_row(0).collect::<Vec<_>>(), ["q", "c", "[1]", "a", "r"]);
    }

    #[test]
    fn messages_are_those_of_the_rows() {
        let row = |texts: &[(&str, &str)]| Trajectory {
            messages: texts.iter().map(|(role, text)| Message::new(role, *text)).collect(),
            ..Trajectory::default()
        };
        let more = [("user", "p"), ("user", "r"), ("assistant", "b")];
        let rows = [row(&[("system", "s"), ("user", "q"), ("assistant", "a")]), row(&[]), row(&more)];
        let rows: Vec<&Trajectory> = rows.iter().collect();
        let batch = encode_columns(&rows, &["messages".to_string()], ExtraColumns::default()).unwrap();
        for (batch, from) in [(batch.clone(), 0), (batch.slice(1, 2), 1)] {
            let messages = MessageColumns::of(&batch).unwrap();
            for i in 0..batch.num_rows() {
                let expected: Vec<_> =
                    rows[from + i].messages.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
                assert_eq!(messages.of_row(i).collect::<Vec<_>>(), expected);
            }
        }
        let messages = MessageColumns::of(&batch).unwrap();
        assert_eq!([0, 1, 2].map(|i| messages.question(i)), ["q", "", "p"]);
        assert_eq!([0, 1, 2].map(|i| messages.last_question(i)), ["q", "", "r"]);
        assert_eq!(messages.texts_of_row(0).collect::<Vec<_>>(), ["s", "q", "a"]);
        assert!(MessageColumns::of(&batch.project(&[]).unwrap()).is_err());
    }
}
