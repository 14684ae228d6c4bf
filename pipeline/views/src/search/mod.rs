//! Searches the messages of all trajectories of a run.
//!
//! Each output has an index, a file that is built at the first search and named by the digest of the output. It has a
//! compressed copy of the messages in small blocks, and lists of the blocks in which each trigram (three adjacent bytes
//! of a text in lower case) occurs. A search reads the lists of the trigrams that every match contains, then the blocks
//! that have all of them, and compares only their messages; so it needs neither the table nor most of the index.
//! An expression without a literal of three bytes reads all blocks.

mod block;
mod build;
mod excerpt;
mod filters;
mod format;
mod index;
mod messages;
mod needed;
mod pattern;
mod places;
mod run;
mod scan;
#[cfg(test)]
mod tests;
mod trigrams;

pub use excerpt::Excerpt;
pub use filters::{NumberRange, SearchFilters, VerdictFilter};
pub use messages::{MessageMatches, search_messages};
pub use pattern::PatternKind;
pub use places::NoteSink;
pub use run::{SearchHit, SearchPage, SearchQuery, SkippedArtifact, search, search_artifact};
