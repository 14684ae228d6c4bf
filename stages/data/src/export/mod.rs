//! Converts our rows to the formats of other programs. Each format has one file, and is a pure function from our row to
//! a row of the other program.
//!
//! A format of `data/import` reads exported conversations, pairs and prompts again. Fields that a format cannot express
//! are left out and counted ([`ExportOmissions`]); `docs/export.md` lists them. Rows are read and written batch by
//! batch.

pub mod atif;
pub mod call_ids;
pub mod conversation;
pub mod facts;
pub mod file;
pub mod form;
pub mod format;
pub mod inspect;
pub mod items;
pub mod omissions;
pub mod openai;
pub mod registry;
pub mod sharegpt;
pub mod steps;
pub mod tokens;
pub mod trl;
pub mod turns;
pub mod verl;

pub use file::write_export;
pub use form::ExportForm;
pub use format::{ExportFormat, ExportItem, FileKind};
pub use items::{ExportSource, export};
pub use omissions::ExportOmissions;

#[cfg(test)]
mod test_rows;
#[cfg(test)]
mod tests;
