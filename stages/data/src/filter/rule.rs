//! Defines the trait of filter rules. A rule judges batches of the rows that are still kept, in the order of the rows.

use super::edits::RowEdit;
use super::histogram::Histogram;
use super::rows::RuleRows;
use super::token_counter::TokenCounter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_chat::Models;
use trainyard_core::{OptionProblem, Result, WiredInputs};
use trainyard_envs::{Environment, ToolHost};
use trainyard_process::ProgramLog;
use trainyard_tables::{MessageColumns, Problem, Trajectory};

/// Inputs of a rule in addition to the rows.
pub struct RuleContext<'a> {
    /// Problems by id; empty if the input is not connected.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Evaluation problems; empty if the input is not connected.
    pub evaluation: &'a [Problem],
    /// Files with attempts of another model; empty if the input is not connected.
    pub rated: &'a [PathBuf],
    /// Environment of the rows, with its tool-call format and verifier.
    pub environment: &'a dyn Environment,
    /// Folder for temporary files.
    pub scratch: &'a Path,
    /// Log of user-defined programs.
    pub log: &'a ProgramLog,
    /// Models at endpoints.
    pub models: &'a Arc<Models>,
    /// Processes of tools.
    pub host: &'a Arc<ToolHost>,
    /// Tokenizer and template of the model; `None` if the input is not connected.
    pub tokens: Option<&'a dyn TokenCounter>,
}

impl RuleContext<'_> {
    /// Returns a path in the folder for temporary files that does not exist yet.
    pub fn new_file(&self, stem: &str) -> PathBuf {
        let path = |i: usize| self.scratch.join(format!("{stem}-{i}"));
        (0..).map(path).find(|path| !path.exists()).unwrap_or_else(|| path(0))
    }
}

/// A rule's judgment of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleVerdict {
    /// The row is kept.
    Keep,
    /// The row is kept, and its verdict has the reason.
    KeepWithReason(String),
    /// The row is kept with other messages, which the rules after this one and the outputs have. Only rules that
    /// [`FilterRule::edits`] may edit, and only rows without token ids.
    Edit {
        /// Reason in the row's verdict.
        reason: String,
        /// New messages and answer.
        edit: RowEdit,
    },
    /// The row is rejected.
    Reject {
        /// A word from a small set by which reports count.
        code: &'static str,
        /// Reason for this row; may be empty.
        detail: String,
    },
}

impl RuleVerdict {
    /// Creates a rejection.
    pub fn reject(code: &'static str, detail: impl Into<String>) -> Self {
        Self::Reject { code, detail: detail.into() }
    }
}

/// Returns the problem of a rule that needs the input `port`, if nothing is wired to it.
pub fn unwired(kind: &str, port: &str, inputs: &WiredInputs) -> Vec<OptionProblem> {
    if inputs.get(port).is_some_and(|count| *count > 0) {
        return Vec::new();
    }
    let problem = OptionProblem::new("", format!("the rule `{kind}` needs the input `{port}`"));
    vec![problem.help(format!("wire the input `{port}`, or remove the rule from `rules`"))]
}

/// Columns that a rule reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleColumns {
    /// All columns of trajectories.
    All,
    /// These columns, and `id`.
    Named(Vec<String>),
}

impl RuleColumns {
    /// Creates a list of columns.
    pub fn named(names: &[&str]) -> Self {
        Self::Named(names.iter().map(|name| (*name).to_string()).collect())
    }
}

/// A filter rule. The same rows in the same order get the same judgments for any number of threads and any division
/// into batches.
pub trait FilterRule: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns the columns that the rule reads.
    fn columns(&self) -> RuleColumns {
        RuleColumns::All
    }
    /// Whether the rule observes all rows before it judges the first.
    fn observes(&self) -> bool {
        false
    }
    /// Whether the rule may edit rows ([`RuleVerdict::Edit`]).
    fn edits(&self) -> bool {
        false
    }
    /// Returns what is wrong with the rule for the inputs that are wired, by pointers into its options.
    fn problems_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns what may be wrong with the rule for the inputs that are wired, by pointers into its options.
    fn warnings_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Starts to judge the rows of a stage. Errors: an input that the rule requires is missing.
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>>;
}

/// State of a rule between the batches of a stage.
pub trait RulePass {
    /// Observes rows, if [`FilterRule::observes`]: those that [`RulePass::judge`] will receive, in the same order.
    fn observe(&mut self, _rows: &RuleRows) -> Result<()> {
        Ok(())
    }
    /// Returns one judgment per row, in order.
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>>;
    /// Ends the pass after the last row.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
    /// Returns the numbers by which the rule judged, after [`RulePass::finish`]; `None` for a rule without a number.
    fn measured(&self) -> Option<MeasuredValues> {
        None
    }
}

/// Numbers by which a rule judged, for the report.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredValues {
    /// Name of the number, such as `similarity of compared rows`.
    pub name: &'static str,
    /// The numbers.
    pub values: Histogram,
}

/// Creates a pass that judges each row for itself.
pub fn each_row<'a>(judge: impl FnMut(&Trajectory) -> Result<RuleVerdict> + 'a) -> Box<dyn RulePass + 'a> {
    Box::new(EachRow(judge))
}

struct EachRow<F>(F);

impl<F: FnMut(&Trajectory) -> Result<RuleVerdict>> RulePass for EachRow<F> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        rows.trajectories()?.iter().map(&mut self.0).collect()
    }
}

/// The text of a row that a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ComparedText {
    /// All messages with their roles.
    #[default]
    Conversation,
    /// The first user message.
    Question,
}

impl ComparedText {
    /// Writes the text of a row to an empty buffer.
    pub fn write(self, messages: &MessageColumns<'_>, row: usize, text: &mut String) {
        match self {
            Self::Question => text.push_str(messages.question(row)),
            Self::Conversation => {
                for part in messages.of_row(row).flat_map(|(role, content)| [role, "\n", content, "\n"]) {
                    text.push_str(part);
                }
            }
        }
    }
    /// Returns the text of a row.
    pub fn of(self, messages: &MessageColumns<'_>, row: usize) -> String {
        let mut text = String::new();
        self.write(messages, row, &mut text);
        text
    }
}
