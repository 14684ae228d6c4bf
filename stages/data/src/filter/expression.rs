//! Implements the rule `expression`: keeps the rows for which a SQL expression over the columns is true, such as
//! `tool_errors <= 1 and level < 4`.

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use crate::io;
use crate::row_expression::{self, RowTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::Trajectory;

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
    fn judge(&self, rows: &[&Trajectory], context: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let mask = io::row_mask(rows, &self.keep, context.scratch)?;
        Ok(mask
            .into_iter()
            .map(|keep| if keep { RuleVerdict::Keep } else { RuleVerdict::reject("not_true", self.keep.clone()) })
            .collect())
    }
}
