//! Implements the rule `pattern`: compares a regular expression with the text of messages.

use crate::filter::rows::RuleRows;
use crate::filter::rule::{ComparedText, FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use arrow_array::Array as _;
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_envs::rewards::pattern::{EpisodeTextSource, PatternOptions, compiled};

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
    fn columns(&self) -> RuleColumns {
        let column = if self.of == EpisodeTextSource::Answer { "answer" } else { "messages" };
        RuleColumns::named(&[column])
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        Ok(Box::new(PatternPass { rule: self, regex: compiled(&self.pattern)?, text: String::new() }))
    }
}

struct PatternPass<'a> {
    rule: &'a PatternRule,
    regex: Regex,
    /// Buffer of a conversation.
    text: String,
}

impl RulePass for PatternPass<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        match self.rule.of {
            EpisodeTextSource::Answer => {
                let answers = rows.texts("answer")?;
                Ok((0..rows.len())
                    .map(|i| self.verdict(if answers.is_valid(i) { answers.value(i) } else { "" }))
                    .collect())
            }
            EpisodeTextSource::LastMessage => {
                let messages = rows.messages()?;
                let last = |i| messages.of_row(i).rfind(|(role, _)| *role == "assistant").map_or("", |(_, text)| text);
                Ok((0..rows.len()).map(|i| self.verdict(last(i))).collect())
            }
            EpisodeTextSource::Conversation => {
                let messages = rows.messages()?;
                let mut verdicts = Vec::with_capacity(rows.len());
                for i in 0..rows.len() {
                    let mut text = std::mem::take(&mut self.text);
                    text.clear();
                    ComparedText::Conversation.write(&messages, i, &mut text);
                    verdicts.push(self.verdict(&text));
                    self.text = text;
                }
                Ok(verdicts)
            }
        }
    }
}

impl PatternPass<'_> {
    fn verdict(&self, text: &str) -> RuleVerdict {
        match (self.regex.find(text), self.rule.reject) {
            (Some(_), false) | (None, true) => RuleVerdict::Keep,
            (Some(found), true) => RuleVerdict::reject("match", found.as_str().chars().take(60).collect::<String>()),
            (None, false) => RuleVerdict::reject("no_match", self.rule.pattern.clone()),
        }
    }
}
