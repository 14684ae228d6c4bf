//! Filters messages by role, and rows by verdict, reward and update.

use super::block::RowFacts;
use super::format::Footer;
use std::fmt;
use std::str::FromStr;
use trainyard_core::{Error, Result};

/// Range of numbers; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct NumberRange {
    /// Smallest number; `None` for no limit.
    pub from: Option<f64>,
    /// Largest number; `None` for no limit.
    pub to: Option<f64>,
}

impl NumberRange {
    /// Returns whether a number is within the range.
    pub fn contains(self, number: f64) -> bool {
        self.from.is_none_or(|from| number >= from) && self.to.is_none_or(|to| number <= to)
    }
    /// Returns the distance of a number to the range; 0 within it.
    pub fn distance(self, number: f64) -> f64 {
        let below = self.from.map_or(0.0, |from| from - number);
        let above = self.to.map_or(0.0, |to| number - to);
        below.max(above).max(0.0)
    }
}

impl FromStr for NumberRange {
    type Err = String;

    /// Reads `A..B`, `A..`, `..B` or one number.
    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("`{text}` is no range: write A..B, A.. or ..B with A at most B, e.g. 0.1..0.9");
        let end = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text.parse::<f64>().ok().filter(|number| !number.is_nan()).map(Some).ok_or_else(usage),
        };
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let range = Self { from: end(from)?, to: end(to)? };
        let is_ordered = match (range.from, range.to) {
            (None, None) => false,
            (Some(from), Some(to)) => from <= to,
            _ => true,
        };
        if is_ordered { Ok(range) } else { Err(usage()) }
    }
}

/// Verdict on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerdictFilter {
    /// The answer is correct.
    Right,
    /// The answer is not correct.
    Wrong,
    /// The filter rule of this name rejected the row.
    RejectedBy(String),
}

impl FromStr for VerdictFilter {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "right" => Self::Right,
            "wrong" => Self::Wrong,
            rule => Self::RejectedBy(rule.to_string()),
        })
    }
}

/// Selection of messages; the default selects all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchFilters {
    /// Role of the message.
    pub role: Option<String>,
    /// Verdict on the row.
    pub verdict: Option<VerdictFilter>,
    /// Reward of the row.
    pub reward: Option<NumberRange>,
    /// Number of the update that used the row; rows that no update used are not selected.
    pub step: Option<NumberRange>,
}

impl SearchFilters {
    /// Checks that one of the indexes has the role and the rule. Errors: invalid, listing what there is.
    pub(super) fn check<'a>(&self, indexes: impl Iterator<Item = &'a Footer> + Clone) -> Result<()> {
        if let Some(role) = &self.role {
            known("message has the role", role, indexes.clone().flat_map(|footer| &footer.roles))?;
        }
        if let Some(VerdictFilter::RejectedBy(rule)) = &self.verdict {
            known("row has a verdict of the rule", rule, indexes.flat_map(|footer| &footer.rules))
                .map_err(with_answers)?;
        }
        Ok(())
    }
    /// Returns the filters with the numbers of an index; `None` if it has no message that they select.
    pub(super) fn of_index(&self, footer: &Footer) -> Option<IndexFilters> {
        let place = |names: &[String], name: &String| names.iter().position(|known| known == name).map(|at| at as u32);
        let role = match &self.role {
            Some(role) => Some(place(&footer.roles, role)?),
            None => None,
        };
        let (correct, rejected_by) = match &self.verdict {
            Some(VerdictFilter::Right) => (Some(true), None),
            Some(VerdictFilter::Wrong) => (Some(false), None),
            Some(VerdictFilter::RejectedBy(rule)) => (None, Some(place(&footer.rules, rule)?)),
            None => (None, None),
        };
        Some(IndexFilters { role, correct, rejected_by, reward: self.reward, step: self.step })
    }
}

/// Filters with the numbers of one index.
pub(super) struct IndexFilters {
    role: Option<u32>,
    correct: Option<bool>,
    rejected_by: Option<u32>,
    reward: Option<NumberRange>,
    step: Option<NumberRange>,
}

impl IndexFilters {
    pub fn select_row(&self, row: &RowFacts<'_>) -> bool {
        self.correct.is_none_or(|correct| row.correct == Some(correct))
            && self.rejected_by.is_none_or(|rule| row.rejected.contains(&rule))
            && self.reward.is_none_or(|range| range.contains(row.reward))
            && self.step.is_none_or(|range| row.update.is_some_and(|update| range.contains(f64::from(update))))
    }
    pub fn select_role(&self, role: u32) -> bool {
        self.role.is_none_or(|selected| role == selected)
    }
}

fn known<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a String>) -> Result<()> {
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    if names.contains(&name) {
        return Ok(());
    }
    let help = if names.is_empty() { "there are none".to_string() } else { format!("there are {}", names.join(", ")) };
    Err(Error::invalid(format!("no {what} `{name}`")).help(help))
}

/// Adds the verdicts on answers to the help of an error about an unknown rule.
fn with_answers(error: Error) -> Error {
    let rules = error.help.clone().unwrap_or_default();
    error.help(format!("{rules}; `right` and `wrong` select by the answer"))
}

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = |end: Option<f64>| end.map(|number| number.to_string()).unwrap_or_default();
        write!(f, "{}..{}", end(self.from), end(self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends() {
        let range = |text: &str| text.parse::<NumberRange>();
        assert_eq!(range("0.1..0.9"), Ok(NumberRange { from: Some(0.1), to: Some(0.9) }));
        assert_eq!(range("..0").unwrap().to_string(), "..0");
        assert_eq!(range("40..").unwrap().to_string(), "40..");
        assert_eq!(range("-1..-0.5").unwrap().to_string(), "-1..-0.5");
        assert_eq!(range("1"), range("1..1"));
        for wrong in ["", "..", "2..1", "a..b", "nan..", "1..2..3"] {
            assert!(range(wrong).unwrap_err().contains("is no range"), "{wrong}");
        }
        let range = range("0..1").unwrap();
        assert_eq!(
            [-0.1, 0.0, 1.0, 1.1, f64::NAN].map(|number| range.contains(number)),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn rows_are_selected_by_their_facts() {
        let row = RowFacts { row: 0, id: "", reward: 0.5, correct: Some(false), update: None, rejected: vec![1] };
        let footer =
            Footer { roles: vec!["user".into()], rules: vec!["dedup".into(), "length".into()], ..Footer::default() };
        let is_selected = |filters: SearchFilters| filters.of_index(&footer).is_some_and(|f| f.select_row(&row));
        let verdict = |text: &str| SearchFilters { verdict: Some(text.parse().unwrap()), ..SearchFilters::default() };
        assert!(is_selected(SearchFilters::default()));
        assert_eq!(
            ["right", "wrong", "dedup", "length", "other"].map(|text| is_selected(verdict(text))),
            [false, true, false, true, false]
        );
        assert!(!is_selected(SearchFilters { step: Some("0..".parse().unwrap()), ..SearchFilters::default() }));
        assert!(is_selected(SearchFilters { reward: Some("0.5".parse().unwrap()), ..SearchFilters::default() }));
        let error = verdict("other").check([&footer].into_iter()).unwrap_err();
        assert_eq!(error.message, "no row has a verdict of the rule `other`");
        assert_eq!(error.help.as_deref(), Some("there are dedup, length; `right` and `wrong` select by the answer"));
        let error =
            SearchFilters { role: Some("robot".into()), ..SearchFilters::default() }.check([&footer].into_iter());
        assert_eq!(error.unwrap_err().to_string(), "no message has the role `robot`; there are user");
    }
}
