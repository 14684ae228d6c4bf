//! Stores the journal of a run: one sequence of numbered batches by all its writers, chained by SHA-256.
//!
//! The process that creates batch number n has written it. A writer that finds other bytes at its number is fenced,
//! because another writer has taken the run over. Events are JSON values here; the engine defines their meaning.

mod end;
mod format;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use format::{BatchHeader, JournalBatch};
pub use reader::JournalReader;
pub use writer::{AppendError, JournalWriter, WriterFenced};
