//! Searches the messages of one index. Segments are searched in parallel, and of each only blocks that may have a
//! match.

use super::block::{self, BlockMessage, RowFacts};
use super::excerpt::Excerpt;
use super::filters::IndexFilters;
use super::format::Segment;
use super::index::MessageIndex;
use super::pattern::SearchPattern;
use rayon::prelude::*;
use trainyard_core::Result;

/// Maximum adjacent blocks that are read at a time.
const BLOCKS: usize = 32;

/// Message with a match.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FoundMessage {
    pub row: u64,
    pub id: String,
    pub message: u32,
    pub role: u32,
    pub reward: f64,
    pub correct: Option<bool>,
    pub update: Option<u32>,
    pub excerpt: Excerpt,
}

/// Matches in an index or in a part of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct FoundMessages {
    /// First matches, in the order of the table.
    pub first: Vec<FoundMessage>,
    pub messages: u64,
    pub rows: u64,
    /// First and last row with a match.
    ends: Option<(u64, u64)>,
}

/// Searches an index for the first `limit` matches, and counts all. Errors: data (damaged), those of the store.
pub(super) fn scan(
    index: &MessageIndex,
    pattern: &SearchPattern,
    filters: &IndexFilters,
    limit: usize,
) -> Result<FoundMessages> {
    let segments = &index.footer.segments;
    let parts: Result<Vec<FoundMessages>> =
        segments.par_iter().map(|segment| scan_segment(index, segment, pattern, filters, limit)).collect();
    let mut all = FoundMessages::default();
    for part in parts? {
        all.append(part, limit);
    }
    Ok(all)
}

fn scan_segment(
    index: &MessageIndex,
    segment: &Segment,
    pattern: &SearchPattern,
    filters: &IndexFilters,
    limit: usize,
) -> Result<FoundMessages> {
    let candidates = index.candidates(segment, &pattern.needed)?;
    let mut found = FoundMessages::default();
    for adjacent in candidates.chunk_by(|a, b| a + 1 == *b).flat_map(|blocks| blocks.chunks(BLOCKS)) {
        let numbers = adjacent[0] as usize..adjacent[0] as usize + adjacent.len();
        for bytes in index.read_blocks(segment, numbers)? {
            let (rows, messages) = block::decode(&bytes)?;
            let selected: Vec<bool> = rows.iter().map(|row| filters.select_row(row)).collect();
            for message in messages.iter().filter(|m| selected[m.row] && filters.select_role(m.role)) {
                if let Some(range) = pattern.find(message.text) {
                    found.add(&rows[message.row], message, limit, range);
                }
            }
        }
    }
    Ok(found)
}

impl FoundMessages {
    fn add(&mut self, row: &RowFacts<'_>, message: &BlockMessage<'_>, limit: usize, range: std::ops::Range<usize>) {
        self.messages += 1;
        self.rows += u64::from(self.ends.is_none_or(|(_, last)| last != row.row));
        self.ends = Some((self.ends.map_or(row.row, |(first, _)| first), row.row));
        if self.first.len() < limit {
            self.first.push(FoundMessage {
                row: row.row,
                id: row.id.to_string(),
                message: message.number,
                role: message.role,
                reward: row.reward,
                correct: row.correct,
                update: row.update,
                excerpt: Excerpt::of(message.text, range),
            });
        }
    }
    /// Appends the matches of the next segment, which may begin in the row in which the one before ended.
    fn append(&mut self, next: Self, limit: usize) {
        let Some((next_first, next_last)) = next.ends else { return };
        let is_shared = self.ends.is_some_and(|(_, last)| last == next_first);
        self.messages += next.messages;
        self.rows += next.rows - u64::from(is_shared);
        self.ends = Some((self.ends.map_or(next_first, |(first, _)| first), next_last));
        self.first.extend(next.first.into_iter().take(limit - self.first.len()));
    }
}
