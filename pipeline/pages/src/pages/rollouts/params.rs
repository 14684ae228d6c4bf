//! Parameters of the list of rollouts: they are the whole state of the page.

use crate::error::PageError;
use crate::links::query;
use crate::pages::rollout_parts::place::wrong_parameter;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use trainyard_tables::AnswerVerdict;
use trainyard_views::rollouts::{FoundText, RolloutFilters, RolloutListQuery};
use trainyard_views::search::PatternKind;

/// Rows of one page.
pub const PAGE: usize = 50;
/// Names of the parameters.
const NAMES: [&str; 14] = [
    "find",
    "regex",
    "verdict",
    "reward",
    "level",
    "turns",
    "tool_errors",
    "stop",
    "step",
    "problem",
    "sort",
    "from",
    "part",
    "whole",
];
/// Parameters that a person writes into the form.
pub const FIELDS: [&str; 6] = ["find", "regex", "reward", "step", "problem", "sort"];

/// Parameters with a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolloutParams(BTreeMap<&'static str, String>);

impl RolloutParams {
    /// Keeps the known parameters that are not empty.
    pub fn of(values: &BTreeMap<String, String>) -> Self {
        // Spaces at the ends of a text that is searched for count.
        let value = |name: &str, value: &str| if name == "find" { value.to_string() } else { value.trim().to_string() };
        let known = NAMES.into_iter().filter_map(|name| Some((name, value(name, values.get(name)?))));
        Self(known.filter(|(_, value)| !value.is_empty()).collect())
    }
    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
    /// Returns whether a filter or a search is set.
    pub fn is_filtered(&self) -> bool {
        self.0.keys().any(|name| !["sort", "from", "part", "whole", "regex"].contains(name))
    }
    /// Returns the parameters that the form keeps without showing them.
    pub fn hidden(&self) -> impl Iterator<Item = (&str, &str)> {
        let kept = self.0.iter().filter(|(name, _)| !FIELDS.contains(name) && **name != "from");
        kept.map(|(name, value)| (*name, value.as_str()))
    }
    /// Returns the query string with another value of a parameter, on the first page.
    pub fn with(&self, name: &'static str, value: Option<&str>) -> String {
        let mut values = self.0.clone();
        values.remove("from");
        match value {
            Some(value) => values.insert(name, value.to_string()),
            None => values.remove(name),
        };
        query(&values.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
    }
    /// Returns the query string of the page that begins with matching row `from`.
    pub fn page(&self, from: usize) -> String {
        let from = from.to_string();
        let kept = self.0.iter().filter(|(name, _)| **name != "from").map(|(name, value)| (*name, value.as_str()));
        query(&kept.chain([("from", from.as_str())]).collect::<Vec<_>>())
    }
    /// Returns the query of the view. Errors: 400 (a value that cannot be read).
    pub fn query(&self) -> Result<RolloutListQuery, PageError> {
        let sort = self.get("sort").unwrap_or("row");
        let (sort, is_descending) = match sort.strip_prefix('-') {
            Some(name) => (name, true),
            None => (sort, false),
        };
        let kind = if self.get("regex").is_some() { PatternKind::Regex } else { PatternKind::Text };
        let verdict = |name: &str| {
            AnswerVerdict::named(name)
                .ok_or_else(|| wrong_parameter("verdict", "write right, wrong, unreadable or unjudged"))
        };
        Ok(RolloutListQuery {
            filters: RolloutFilters {
                verdict: self.get("verdict").map(verdict).transpose()?,
                reward: self.parsed("reward")?,
                level: self.parsed("level")?,
                turns: self.parsed("turns")?,
                tool_errors: self.parsed("tool_errors")?,
                stop: self.get("stop").map(str::to_string),
                step: self.parsed("step")?,
                problem: self.get("problem").map(str::to_string),
            },
            find: self.get("find").map(|pattern| FoundText { pattern: pattern.to_string(), kind }),
            sort: sort.parse().map_err(|why| wrong_parameter("sort", why))?,
            is_descending,
            from: self.parsed("from")?.unwrap_or(0),
            limit: PAGE,
            part: self.parsed("part")?.unwrap_or(0),
            is_whole: self.get("whole").is_some(),
        })
    }
    fn parsed<T: FromStr<Err: Display>>(&self, name: &str) -> Result<Option<T>, PageError> {
        self.get(name).map(|value| value.parse().map_err(|why| wrong_parameter(name, why))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_views::rollouts::RolloutSort;

    fn params(pairs: &[(&str, &str)]) -> RolloutParams {
        RolloutParams::of(&pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn parameters_are_the_query() {
        let params =
            params(&[("sort", "-reward"), ("verdict", "wrong"), ("reward", "0..0.5"), ("x", "1"), ("stop", "")]);
        let query = params.query().unwrap();
        assert_eq!((query.sort, query.is_descending, query.limit), (RolloutSort::Reward, true, 50));
        assert_eq!(query.filters.verdict, Some(AnswerVerdict::Wrong));
        assert_eq!(query.filters.stop, None);
        assert_eq!(params.with("verdict", None), "?reward=0..0.5&sort=-reward");
        assert!(params.is_filtered());
    }

    #[test]
    fn wrong_values_name_their_parameter() {
        for (name, value) in [("reward", "a"), ("verdict", "good"), ("sort", "size"), ("from", "-1"), ("part", "x")] {
            let error = params(&[(name, value)]).query().unwrap_err();
            assert!(error.message.contains(&format!("`{name}`")), "{}", error.message);
        }
    }

    #[test]
    fn another_filter_begins_on_the_first_page() {
        let params = params(&[("from", "50"), ("find", "a b"), ("level", "3")]);
        assert_eq!(params.with("level", Some("4")), "?find=a%20b&level=4");
        assert_eq!(params.page(100), "?find=a%20b&level=3&from=100");
        assert_eq!(params.hidden().collect::<Vec<_>>(), [("level", "3")]);
    }
}
