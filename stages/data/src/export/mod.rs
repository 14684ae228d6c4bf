//! Our rows in the forms of other programs: one file per format, each a pure function from a row to one of the other
//! program.
//!
//! Every format can be read back by a format of `data/import`. Fields that a format cannot express are left out and
//! counted ([`ExportOmissions`]), never lost silently; `docs/export.md` has the table. Files are written only through a
//! function that takes rows.

pub mod conversation;
pub mod form;
pub mod format;
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

pub use form::ExportForm;
pub use format::{ExportFormat, ExportItem, FileKind};
pub use items::{ExportSource, export};
pub use omissions::ExportOmissions;

#[cfg(test)]
mod tests;
