//! Defines the trait of export formats, and the items that a format converts.

use super::ExportForm;
use super::omissions::ExportOmissions;
use super::steps::Steps;
use super::tokens::TokenSequence;
use trainyard_core::Result;
use trainyard_tables::{OrderedValue, Problem, Trajectory};

/// A form in which another program reads rows. The output depends only on the row.
pub trait ExportFormat: Send + Sync {
    /// Returns the registered name.
    fn name(&self) -> &'static str;
    /// Returns one line for lists: the programs that read these rows.
    fn summary(&self) -> &'static str;
    /// Returns Markdown: the columns of each form, and the fields that are left out.
    fn doc(&self) -> &'static str;
    /// Returns the supported forms.
    fn forms(&self) -> &'static [ExportForm];
    /// Returns the kind of file that the format's readers expect, where the path does not determine it.
    fn file(&self) -> FileKind {
        FileKind::JsonLines
    }
    /// Returns whether the programs that read the rows accept further columns, in which exports write those of the
    /// source (the column `meta`).
    fn keeps_columns(&self) -> bool {
        true
    }
    /// Converts an item to a row. Fields that the format cannot express are added to `omissions`. Errors: data, if the
    /// item is broken (tool calls that are not JSON).
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue>;
}

/// Layout of rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// One object on each line.
    JsonLines,
    /// Parquet, with one column per key.
    Parquet,
    /// Log of Inspect: a zip archive with one sample per row.
    InspectLog,
}

impl FileKind {
    /// Returns the extension of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
            Self::InspectLog => "eval",
        }
    }
}

/// The source of one exported row, with one variant per form.
#[derive(Debug, Clone)]
pub enum ExportItem<'r> {
    /// [`ExportForm::Sft`]
    Conversation(&'r Trajectory),
    /// [`ExportForm::Tokens`]
    Tokens(TokenSequence),
    /// [`ExportForm::Preference`]: the chosen and the rejected trajectory.
    Pair(&'r Trajectory, &'r Trajectory),
    /// [`ExportForm::Prompts`], with the number of the row.
    Problem(&'r Problem, u64),
    /// [`ExportForm::Steps`]
    Steps(Steps),
}
