//! Implements the rule `pattern`: compares a regular expression with the text of messages.

use super::rule::{FilterRule, RuleContext, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_envs::rewards::pattern::{EpisodeTextSource, PatternOptions, compiled};
use trainyard_tables::Trajectory;

/// Rejects rows by a regular expression.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatternRule {
    /// A regular expression. It may match anywhere in the text; `^` and `$` anchor it to the ends.
    pub pattern: String,
    /// Text that is searched.
    pub of: EpisodeTextSource,
    /// Reject the rows where it matches, instead of those where it does not.
    pub reject: bool,
}

impl PartOptions for PatternRule {
    const KIND: &'static str = "pattern";
    const SUMMARY: &'static str = "keeps or rejects rows by a regular expression";
    const DOC: &'static str = "Keeps the rows in whose text (`of`: the final answer, the agent's last message, the\n\
        whole conversation) the regular expression `pattern` matches; with `reject: true`, those in which it does\n\
        not. A row without such a text does not match. The syntax is that of the reward `pattern`. Reasons:\n\
        no_match, match.";
    fn check(&self) -> Vec<OptionProblem> {
        PatternOptions { pattern: self.pattern.clone(), ..PatternOptions::default() }.check()
    }
}

impl FilterRule for PatternRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn judge(&self, rows: &[&Trajectory], _: &RuleContext<'_>) -> Result<Vec<RuleVerdict>> {
        let regex = compiled(&self.pattern)?;
        let judge = |row: &&Trajectory| {
            let text = self.of.text(row).unwrap_or_default();
            match (regex.find(&text), self.reject) {
                (Some(_), false) | (None, true) => RuleVerdict::Keep,
                (Some(found), true) => {
                    RuleVerdict::reject("match", found.as_str().chars().take(60).collect::<String>())
                }
                (None, false) => RuleVerdict::reject("no_match", self.pattern.clone()),
            }
        };
        Ok(rows.iter().map(judge).collect())
    }
}
