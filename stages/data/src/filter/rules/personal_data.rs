//! Implements the rule `personal_data`: masks personal data and keys in rows, or rejects the rows that have some.

mod checks;
mod finder;
mod kinds;
#[cfg(test)]
mod tests;

pub use kinds::PersonalDataKind;

use crate::filter::edits::RowEdit;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use arrow_array::{Array as _, BooleanArray};
use finder::PersonalDataFinder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::Trajectory;

/// Masks personal data, or rejects the rows that have some.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PersonalDataRule {
    /// Kinds of data: `email`, `phone`, `ip`, `credit_card`, `iban`, `url_credentials`, `api_key`; all of them by
    /// default.
    pub kinds: Vec<PersonalDataKind>,
    /// `mask` replaces the data by `[EMAIL]`, `[PHONE]`, …; `reject` rejects the row.
    pub action: PersonalDataAction,
    /// Whether private and reserved IP addresses, such as 192.168.0.1, count as well.
    pub private_ips: bool,
}

/// Effect of personal data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersonalDataAction {
    /// The data is replaced by the name of its kind in brackets.
    #[default]
    Mask,
    /// The row is rejected.
    Reject,
}

impl Default for PersonalDataRule {
    fn default() -> Self {
        let action = PersonalDataAction::default();
        Self { kinds: PersonalDataKind::ALL.to_vec(), action, private_ips: false }
    }
}

impl PartOptions for PersonalDataRule {
    const KIND: &'static str = "personal_data";
    const SUMMARY: &'static str = "masks personal data and keys, or rejects rows with some";
    const DOC: &'static str = "Finds personal data in the messages (contents, reasoning, arguments of calls) and the\n\
        answer: mail addresses, phone numbers, public IPv4 addresses, credit cards with a valid check digit, bank\n\
        accounts (IBAN) with valid check digits, `user:password` in URLs, and keys of known services. With\n\
        `action: mask` each is replaced by its kind, such as `[EMAIL]`, for the rules after this one and in the\n\
        outputs; with `action: reject` the row is rejected. Rows with token ids are never edited: with either action\n\
        they are rejected. A verdict has the kinds and their numbers, never the data.\n\n\
        The rule rather misses data than changes other text: versions (`1.2.3.4`), decimals, dates, formulas\n\
        and code are left alone. Names of persons and postal addresses are not found. Reason: personal_data.";
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.kinds.is_empty() {
            let problem = OptionProblem::new("/kinds", "`kinds` is empty, so the rule finds nothing");
            problems.push(problem.help("name some kinds, such as `kinds: [email, api_key]`"));
        }
        if self.private_ips && !self.kinds.is_empty() && !self.kinds.contains(&PersonalDataKind::Ip) {
            let problem = OptionProblem::new("/private_ips", "`private_ips` has no effect without the kind `ip`");
            problems.push(problem.help("add `ip` to `kinds`, or remove the option"));
        }
        problems
    }
}

impl FilterRule for PersonalDataRule {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        RuleColumns::named(&["messages", "answer", "token_ids"])
    }
    fn edits(&self) -> bool {
        self.action == PersonalDataAction::Mask
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let finder = PersonalDataFinder::new(&self.kinds, self.private_ips)?;
        Ok(Box::new(PersonalDataPass { finder, action: self.action }))
    }
}

struct PersonalDataPass {
    finder: PersonalDataFinder,
    action: PersonalDataAction,
}

impl RulePass for PersonalDataPass {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let (messages, answers) = (rows.messages()?, rows.texts("answer")?);
        let has_candidates = |i: usize| {
            let answer = answers.is_valid(i).then(|| answers.value(i));
            messages.texts_of_row(i).chain(answer).any(|text| self.finder.has_candidates(text))
        };
        let found: Vec<bool> = (0..rows.len()).map(has_candidates).collect();
        let mut read = rows.selected(&BooleanArray::from(found.clone()))?.into_iter();
        let judge = |found: bool| {
            let row = if found { read.next() } else { None };
            row.map_or(RuleVerdict::Keep, |row| self.verdict(&row))
        };
        Ok(found.into_iter().map(judge).collect())
    }
}

impl PersonalDataPass {
    fn verdict(&self, row: &Trajectory) -> RuleVerdict {
        let mut masking = Masking { finder: &self.finder, counts: BTreeMap::new() };
        let mut messages = row.messages.clone();
        for message in &mut messages {
            masking.text(&mut message.content);
            message.reasoning_content.iter_mut().for_each(|text| masking.text(text));
            message.tool_calls.iter_mut().for_each(|calls| masking.json_text(calls));
        }
        let mut edit = RowEdit::of(row, messages);
        if edit.answer == row.answer {
            // The answer is not the last message, or that has no data.
            edit.answer.iter_mut().for_each(|answer| masking.text(answer));
        }
        if masking.counts.is_empty() {
            return RuleVerdict::Keep;
        }
        let reason = masking.reason();
        match self.action {
            PersonalDataAction::Reject => RuleVerdict::reject(PersonalDataRule::KIND, reason),
            PersonalDataAction::Mask if row.token_ids.is_empty() => {
                RuleVerdict::Edit { reason: format!("{}: {reason}", PersonalDataRule::KIND), edit }
            }
            PersonalDataAction::Mask => {
                let reason = format!("{reason}; a row with token ids cannot be masked");
                RuleVerdict::reject(PersonalDataRule::KIND, reason)
            }
        }
    }
}

/// Masks the texts of a row, and counts what it finds.
struct Masking<'a> {
    finder: &'a PersonalDataFinder,
    counts: BTreeMap<PersonalDataKind, usize>,
}

impl Masking<'_> {
    fn text(&mut self, text: &mut String) {
        let found = self.finder.find(text);
        if !found.is_empty() {
            *text = PersonalDataFinder::masked(text, &found);
        }
        for (_, kind) in found {
            *self.counts.entry(kind).or_insert(0) += 1;
        }
    }
    /// Masks the texts and numbers of JSON, whose escapes hide where a text begins. Other texts are masked as they are.
    fn json_text(&mut self, text: &mut String) {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return self.text(text) };
        let before = value.clone();
        self.value(&mut value);
        if value != before {
            *text = value.to_string();
        }
    }
    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(members) => members.values_mut().for_each(|member| self.value(member)),
            Value::Number(number) => {
                let before = number.to_string();
                let mut text = before.clone();
                self.text(&mut text);
                if text != before {
                    *value = Value::String(text);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }
    /// Returns the kinds with their numbers: `2 email, 1 ip`.
    fn reason(&self) -> String {
        let mut reason = String::new();
        for (kind, n) in &self.counts {
            let comma = if reason.is_empty() { "" } else { ", " };
            let _ = write!(reason, "{comma}{n} {}", kind.name());
        }
        reason
    }
}
