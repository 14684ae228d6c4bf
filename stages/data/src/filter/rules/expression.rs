//! Implements the rule `expression`: keeps the rows for which a SQL expression over the columns is true, such as
//! `tool_errors <= 1 and level < 4`.

use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::row_expression::{self, RowTable};
use crate::row_files::first_failing;
use crate::row_mask::{batch_mask, needed_columns, parse_expression};
use arrow_array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trainyard_api::PartOptions;
use trainyard_core::{Error, ErrorKind, OptionProblem, Result, WiredInputs};
use trainyard_query::FilterExpression;
use trainyard_tables::{ExtraColumns, TableRow as _, Trajectory};

/// Keeps the rows for which an expression is true; null counts as false.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpressionRule {
    /// A SQL expression over the columns of trajectories.
    pub keep: String,
}

impl PartOptions for ExpressionRule {
    const KIND: &'static str = "expression";
    const SUMMARY: &'static str = "keeps rows for which a SQL expression is true";
    const DOC: &'static str = "Keeps the rows for which the SQL expression `keep` over the columns of trajectories is\n\
        true, as in `tool_errors <= 1 and level < 4`. Null counts as false; other values that are not booleans are\n\
        errors. Reason: not_true.";
    fn check(&self) -> Vec<OptionProblem> {
        row_expression::problems(RowTable::Trajectories, "/keep", &self.keep)
    }
}

impl FilterRule for ExpressionRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        let parsed = FilterExpression::parse(&self.keep);
        parsed.map_or(RuleColumns::All, |it| RuleColumns::Named(needed_columns::<Trajectory>(&it)))
    }
    fn observes(&self) -> bool {
        FilterExpression::parse(&self.keep).is_ok_and(|it| it.needs_all_rows(&Trajectory::schema(ExtraColumns::ALL)))
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        row_expression::warnings(RowTable::Trajectories, "/keep", &self.keep, inputs, "trajectories")
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let pass = ExpressionPass {
            expression: parse_expression::<Trajectory>(&self.keep)?,
            keep: &self.keep,
            file: context.new_file("expression"),
            observes: self.observes(),
            observed: Vec::new(),
            mask: None,
        };
        Ok(Box::new(pass))
    }
}

struct ExpressionPass<'a> {
    expression: FilterExpression,
    keep: &'a str,
    /// Temporary file for SQLite.
    file: PathBuf,
    observes: bool,
    /// Rows whose values decide about each other, until the first is judged.
    observed: Vec<RecordBatch>,
    /// Values for the observed rows that are not judged yet.
    mask: Option<std::vec::IntoIter<bool>>,
}

impl RulePass for ExpressionPass<'_> {
    fn observe(&mut self, rows: &RuleRows) -> Result<()> {
        self.observed.push(rows.batch().clone());
        Ok(())
    }
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let evaluate = |batches: &[RecordBatch]| batch_mask(batches, &self.expression, &self.file);
        let mask: Vec<bool> = match (&mut self.mask, self.observes) {
            (_, false) => evaluate(std::slice::from_ref(rows.batch())).map_err(|e| self.located(e, rows))?,
            (Some(mask), true) => mask.take(rows.len()).collect(),
            (None, true) => {
                let mut mask = evaluate(&std::mem::take(&mut self.observed))?.into_iter();
                let first = mask.by_ref().take(rows.len()).collect();
                self.mask = Some(mask);
                first
            }
        };
        let verdict =
            |keep| if keep { RuleVerdict::Keep } else { RuleVerdict::reject("not_true", self.keep.to_string()) };
        Ok(mask.into_iter().map(verdict).collect())
    }
}

impl ExpressionPass<'_> {
    /// Adds the first row that has no value to an error of an expression that judges each row for itself.
    fn located(&self, error: Error, rows: &RuleRows) -> Error {
        if !matches!(error.kind, ErrorKind::Invalid | ErrorKind::Data) {
            return error;
        }
        let fails = |n: usize| batch_mask(&[rows.batch().slice(0, n)], &self.expression, &self.file).is_err();
        let Some(row) = first_failing(rows.len(), fails) else { return error };
        let id = rows.ids().map_or("", |ids| ids.value(row));
        error
            .at(format!("{}: row `{id}`", rows.path().display()))
            .help("give the expression a value for this row, for example by `CASE WHEN … END`")
    }
}
