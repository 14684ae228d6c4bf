//! Our rows in the forms of other programs: one file per format, each a pure function from a row to one of the other
//! program.
//!
//! Every format can be read back by a format of `data/import`. Fields that a format cannot express are left out and
//! counted ([`LeftOut`]), never lost silently; `docs/export.md` has the table. Files are written only through a
//! function that takes rows.

pub mod conversation;
pub mod form;
pub mod format;
pub mod items;
pub mod left_out;
pub mod openai;
pub mod registry;
pub mod sharegpt;
pub mod steps;
pub mod tokens;
pub mod trl;
pub mod turns;
pub mod verl;

pub use form::Form;
pub use format::{ExportFormat, FileKind, Item};
pub use items::{Source, export};
pub use left_out::LeftOut;

#[cfg(test)]
mod tests;
