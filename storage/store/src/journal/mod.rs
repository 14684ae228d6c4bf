//! The journal of a run: one numbered sequence of batches for all writers, chained by SHA-256, fenced by create-only puts.
//!
//! Why so: the run IS its journal, so the order of events must be one fact. Whoever puts number n first wrote it; a writer that
//! finds other bytes at its number knows that another took the run over. Events are JSON values here; their meaning is the
//! engine's. Refuses: gaps, a broken chain, a batch of another run, an epoch that runs backwards, half a batch.

mod format;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use format::{Batch, Header};
pub use reader::JournalReader;
pub use writer::{AppendError, Fenced, JournalWriter};
