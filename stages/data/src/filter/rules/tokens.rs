//! Implements the rule `tokens`: rejects conversations that are too short or too long for a model.

use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::filter::token_counter::TokenCounter;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Error, ErrorKind, OptionProblem, Result, WiredInputs};
use trainyard_tables::Trajectory;

/// Rejects rows by the number of their tokens.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokensRule {
    /// Least tokens of a kept row.
    pub min: usize,
    /// Most tokens of a kept row; null = any number.
    pub max: Option<usize>,
}

impl PartOptions for TokensRule {
    const KIND: &'static str = "tokens";
    const SUMMARY: &'static str = "the conversation has few or many enough tokens for a model";
    const DOC: &'static str = "Rejects rows whose conversation has fewer than `min` or more than `max` tokens under\n\
        the tokenizer and the chat template of the input `model`, as `sft` encodes them. If the template rewrites\n\
        earlier turns, the longest sequence counts. Reasons: too_short, too_long, not_encodable.";
    fn check(&self) -> Vec<OptionProblem> {
        match self.max {
            None if self.min == 0 => {
                let problem = OptionProblem::new("/max", "without `min` and `max` the rule keeps every row");
                vec![problem.help("set for example `max: 4096`")]
            }
            Some(max) if max < self.min.max(1) => {
                let problem =
                    OptionProblem::new("/max", format!("no row has at least {} and at most {max} tokens", self.min));
                vec![problem.help("set `max` to at least 1 and at least `min`")]
            }
            _ => Vec::new(),
        }
    }
}

impl FilterRule for TokensRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages", "tools", "environment_tools"])
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let is_wired = inputs.get("model").is_some_and(|count| *count > 0);
        let problem = || OptionProblem::new("", "the rule `tokens` needs a model").help("wire the input `model`");
        (!is_wired).then(problem).into_iter().collect()
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let tokens = context.tokens.ok_or_else(|| {
            Error::invalid("no model whose tokens count").help("wire input `model`, or remove the rule from `rules`")
        })?;
        Ok(Box::new(TokensPass { rule: self, tokens }))
    }
}

struct TokensPass<'a> {
    rule: &'a TokensRule,
    tokens: &'a dyn TokenCounter,
}

impl RulePass for TokensPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let (rule, tokens) = (self.rule, self.tokens);
        rows.trajectories()?.par_iter().map(|row| verdict(rule, tokens, row)).collect()
    }
}

fn verdict(rule: &TokensRule, tokens: &dyn TokenCounter, row: &Trajectory) -> Result<RuleVerdict> {
    let count = match tokens.count(row) {
        Ok(count) => count,
        Err(error) if error.kind == ErrorKind::Data => {
            return Ok(RuleVerdict::reject("not_encodable", error.message));
        }
        Err(error) => return Err(error.at(format!("row `{}`", row.id))),
    };
    Ok(match rule.max {
        _ if count < rule.min => RuleVerdict::reject("too_short", count.to_string()),
        Some(max) if count > max => RuleVerdict::reject("too_long", count.to_string()),
        _ => RuleVerdict::Keep,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::verdicts;
    use serde_json::{Value, json};
    use trainyard_tables::Message;

    /// The tests' model has one token for each word, and cannot express `unsayable`.
    #[test]
    fn rows_are_rejected_beyond_the_bounds() {
        let row = |text: &str| Trajectory { messages: vec![Message::new("user", text)], ..Trajectory::default() };
        let rows = [row("one two"), row("one two three"), row("1 2 3 4"), row("1 2 3 4 5"), row("an unsayable word")];
        let judged = |rule: Value| verdicts(&rule, &rows, &[], &[]).unwrap();
        let reject = |code, detail: &str| RuleVerdict::reject(code, detail);
        let last = reject("not_encodable", "unsayable");
        let keep = RuleVerdict::Keep;
        assert_eq!(
            judged(json!({"kind": "tokens", "min": 3, "max": 4})),
            [reject("too_short", "2"), keep.clone(), keep.clone(), reject("too_long", "5"), last.clone()]
        );
        assert_eq!(
            judged(json!({"kind": "tokens", "min": 4})),
            [reject("too_short", "2"), reject("too_short", "3"), keep.clone(), keep, last]
        );
    }

    #[test]
    fn bounds_without_rows_are_rejected() {
        let problems = |min, max| TokensRule { min, max }.check().len();
        assert_eq!([problems(0, None), problems(5, Some(4)), problems(0, Some(0))], [1, 1, 1]);
        assert_eq!([problems(1, None), problems(5, Some(5)), problems(0, Some(1))], [0, 0, 0]);
    }
}
