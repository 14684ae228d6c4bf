//! Live updates: one watcher per run follows the store for all pages of the run.
//!
//! ```text
//! store ◀─ every 250 ms ─ watcher of a run ─▶ watch channel ─▶ server-sent events of each page
//! ```
//!
//! A watcher begins with the first page of its run and ends with the last.

mod message;
mod runs;
mod stream;
mod watcher;

pub use message::LiveTexts;
pub use runs::LiveRuns;
pub use stream::events;
