//! Encodes and decodes blocks of messages.

use super::format::{Input, damaged, put, put_text};
use trainyard_core::Result;

/// Maximum messages of a block.
const MESSAGES: usize = 64;
/// Bytes of text after which a block ends.
const BYTES: usize = 256 << 10;

/// Facts about a row, which filters compare.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowFacts<'a> {
    /// Number of the row, from 0.
    pub row: u64,
    pub id: &'a str,
    pub reward: f64,
    /// Whether the answer is correct; `None` if no verifier judged it.
    pub correct: Option<bool>,
    /// Number of the update that used the row.
    pub update: Option<u32>,
    /// Numbers of the filter rules that rejected the row.
    pub rejected: Vec<u32>,
}

/// Message of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockMessage<'a> {
    /// Position of its row in the block.
    pub row: usize,
    /// Number of the message in its conversation, from 0.
    pub number: u32,
    pub role: u32,
    pub text: &'a str,
}

/// Block in encoded form, still open.
#[derive(Default)]
pub(super) struct BlockBuilder {
    rows: Vec<u8>,
    row_count: usize,
    last_row: Option<u64>,
    messages: Vec<u8>,
    message_count: usize,
    texts: Vec<u8>,
}

impl BlockBuilder {
    /// Appends a message of a row.
    pub fn add(&mut self, row: &RowFacts<'_>, number: usize, role: u32, text: &str) {
        if self.last_row != Some(row.row) {
            self.add_row(row);
        }
        for value in [self.row_count as u64 - 1, number as u64, u64::from(role), text.len() as u64] {
            put(&mut self.messages, value);
        }
        self.message_count += 1;
        self.texts.extend_from_slice(text.as_bytes());
    }
    pub fn is_empty(&self) -> bool {
        self.message_count == 0
    }
    pub fn is_full(&self) -> bool {
        self.message_count >= MESSAGES || self.texts.len() >= BYTES
    }
    /// Returns the encoded block and begins an empty one.
    pub fn take(&mut self) -> Vec<u8> {
        let built = std::mem::take(self);
        let mut out = Vec::with_capacity(built.rows.len() + built.messages.len() + built.texts.len() + 8);
        put(&mut out, built.row_count as u64);
        out.extend_from_slice(&built.rows);
        put(&mut out, built.message_count as u64);
        out.extend_from_slice(&built.messages);
        out.extend_from_slice(&built.texts);
        out
    }

    fn add_row(&mut self, row: &RowFacts<'_>) {
        self.last_row = Some(row.row);
        self.row_count += 1;
        put(&mut self.rows, row.row);
        put_text(&mut self.rows, row.id);
        self.rows.extend_from_slice(&row.reward.to_le_bytes());
        put(&mut self.rows, row.correct.map_or(0, |is_correct| 1 + u64::from(is_correct)));
        put(&mut self.rows, row.update.map_or(0, |update| 1 + u64::from(update)));
        put(&mut self.rows, row.rejected.len() as u64);
        row.rejected.iter().for_each(|rule| put(&mut self.rows, u64::from(*rule)));
    }
}

/// Reads a block. Errors: data (damaged).
pub(super) fn decode(bytes: &[u8]) -> Result<(Vec<RowFacts<'_>>, Vec<BlockMessage<'_>>)> {
    let mut input = Input(bytes);
    let rows = input.list(row)?;
    let places = input.list(|input| Ok((input.length()?, input.small()?, input.small()?, input.length()?)))?;
    let message = |(row, number, role, length)| {
        let text = input.text_of(length)?;
        if row < rows.len() { Ok(BlockMessage { row, number, role, text }) } else { Err(damaged()) }
    };
    let messages = places.into_iter().map(message).collect::<Result<_>>()?;
    Ok((rows, messages))
}

fn row<'a>(input: &mut Input<'a>) -> Result<RowFacts<'a>> {
    let (row, id, reward) = (input.number()?, input.text()?, input.float()?);
    let correct = match input.number()? {
        0 => None,
        known => Some(known == 2),
    };
    let update = input.small()?.checked_sub(1);
    Ok(RowFacts { row, id, reward, correct, update, rejected: input.list(Input::small)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_written() {
        let row = |row, id, correct, update, rejected| RowFacts { row, id, reward: -0.5, correct, update, rejected };
        let (first, second) = (row(7, "a", None, None, Vec::new()), row(8, "b", Some(false), Some(40), vec![0, 3]));
        let mut block = BlockBuilder::default();
        assert!(block.is_empty());
        block.add(&first, 4, 1, "grüße");
        block.add(&second, 0, 0, "");
        block.add(&second, 1, 1, "x\0y");
        assert!(!block.is_full());
        let bytes = block.take();
        let (rows, messages) = decode(&bytes).unwrap();
        assert_eq!(rows, [first, second]);
        let message = |row, number, role, text| BlockMessage { row, number, role, text };
        assert_eq!(messages, [message(0, 4, 1, "grüße"), message(1, 0, 0, ""), message(1, 1, 1, "x\0y")]);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        assert!(block.is_empty(), "a new one has begun");
    }

    #[test]
    fn blocks_are_full_by_messages_or_bytes() {
        let row = RowFacts { row: 0, id: "", reward: 0.0, correct: None, update: None, rejected: Vec::new() };
        let mut block = BlockBuilder::default();
        (0..MESSAGES - 1).for_each(|number| block.add(&row, number, 0, "x"));
        assert!(!block.is_full());
        block.add(&row, MESSAGES - 1, 0, "x");
        assert!(block.is_full());
        block.take();
        block.add(&row, 0, 0, &"x".repeat(BYTES));
        assert!(block.is_full());
    }
}
