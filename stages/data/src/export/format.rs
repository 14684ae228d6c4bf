//! The trait of export formats, and what they are given.

use super::Form;
use super::left_out::LeftOut;
use super::steps::Steps;
use super::tokens::Sequence;
use trainyard_core::Result;
use trainyard_tables::{Ordered, Problem, Trajectory};

/// A form in which another program reads rows. Equal rows give equal rows of it.
pub trait ExportFormat: Send + Sync {
    /// The registered name.
    fn name(&self) -> &'static str;
    /// One line for lists: whose rows these are.
    fn summary(&self) -> &'static str;
    /// Markdown: the columns of each form, and what it leaves out.
    fn doc(&self) -> &'static str;
    /// The forms that it can write.
    fn forms(&self) -> &'static [Form];
    /// The file that its readers expect, where the path does not say.
    fn file(&self) -> FileKind {
        FileKind::JsonLines
    }
    /// The row that an item becomes. What the format cannot hold is added to `left`. Errors: data, if the item is
    /// broken (tool calls that are no JSON).
    fn row(&self, item: &Item<'_>, left: &mut LeftOut) -> Result<Ordered>;
}

/// How rows lie in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// One object on each line.
    JsonLines,
    /// Parquet, with one column per key.
    Parquet,
}

impl FileKind {
    /// The ending of its names.
    pub fn ending(self) -> &'static str {
        match self {
            Self::JsonLines => "jsonl",
            Self::Parquet => "parquet",
        }
    }
}

/// What becomes one row. The variant is that of the form.
#[derive(Debug, Clone)]
pub enum Item<'r> {
    /// [`Form::Sft`]
    Conversation(&'r Trajectory),
    /// [`Form::Tokens`]
    Tokens(Sequence),
    /// [`Form::Preference`]: the chosen and the rejected one.
    Pair(&'r Trajectory, &'r Trajectory),
    /// [`Form::Prompts`], with the number of the row.
    Problem(&'r Problem, u64),
    /// [`Form::Steps`]
    Steps(Steps),
}
