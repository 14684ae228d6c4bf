//! Counts the rows of each value of each facet, among the rows that the filters of the other facets select.

use super::query::{FACETS, FactFilters};
use std::collections::BTreeMap;
use trainyard_tables::{AnswerVerdict, FactTable, RolloutFacts};

/// Names of the facets: the parameters of their filters.
const NAMES: [&str; FACETS] = ["verdict", "reward", "level", "turns", "tool_errors", "stop", "step", "problem"];
/// Maximum values of a facet.
const VALUES: usize = 12;
/// Ranges of rewards, if there are more different ones.
const RANGES: usize = 8;

/// A property by which rollouts are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facet {
    /// Name of the facet: `verdict`, `reward`, `level`, `turns`, `tool_errors`, `stop`, `step` or `problem`.
    pub name: &'static str,
    /// Values with rows, at most 12: numbers by size, words by number of rows.
    pub values: Vec<FacetValue>,
    /// Number of further values.
    pub more: usize,
}

/// Value of a facet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetValue {
    /// Value of the filter that selects the rows.
    pub value: String,
    /// Short form for readers.
    pub label: String,
    /// Number of rows with the value that the filters of the other facets select.
    pub count: u64,
}

impl FacetValue {
    fn plain(value: impl ToString, count: u64) -> Self {
        let value = value.to_string();
        Self { label: value.clone(), value, count }
    }
}

/// Counts of all facets.
#[derive(Default)]
struct FacetCounts {
    verdicts: BTreeMap<AnswerVerdict, u64>,
    rewards: Vec<f64>,
    levels: BTreeMap<u32, u64>,
    turns: BTreeMap<u32, u64>,
    tool_errors: BTreeMap<u32, u64>,
    stops: BTreeMap<u32, u64>,
    steps: BTreeMap<u32, u64>,
    problems: BTreeMap<u32, u64>,
}

impl FacetCounts {
    fn add(&mut self, facet: usize, row: &RolloutFacts) {
        let count = match facet {
            0 => self.verdicts.entry(row.verdict).or_default(),
            1 => return self.rewards.extend(Some(row.reward).filter(|reward| reward.is_finite())),
            2 => self.levels.entry(row.level).or_default(),
            3 => self.turns.entry(row.turns).or_default(),
            4 => self.tool_errors.entry(row.tool_errors).or_default(),
            5 => self.stops.entry(row.stop).or_default(),
            6 => match row.update {
                Some(update) => self.steps.entry(update).or_default(),
                None => return,
            },
            _ => self.problems.entry(row.problem).or_default(),
        };
        *count += 1;
    }
    fn finish(self, facts: &FactTable) -> Vec<Facet> {
        let verdicts = self.verdicts.into_iter().map(|(verdict, count)| FacetValue::plain(verdict.name(), count));
        let all = [
            verdicts.collect(),
            rewards(self.rewards),
            numbers(self.levels),
            numbers(self.turns),
            numbers(self.tool_errors),
            words(self.stops, &facts.stops),
            numbers(self.steps),
            words(self.problems, &facts.problems),
        ];
        NAMES.into_iter().zip(all).map(|(name, values)| facet(name, values)).collect()
    }
}

/// Returns the rows that all filters select, and the counts of the facets.
pub(super) fn count(facts: &FactTable, filters: &FactFilters<'_>) -> (Vec<RolloutFacts>, Vec<Facet>) {
    let (mut selected, mut counts) = (Vec::new(), FacetCounts::default());
    for row in &facts.rows {
        let selects = filters.select(row);
        let refusals = selects.iter().filter(|is_selected| !**is_selected).count();
        if refusals == 0 {
            selected.push(*row);
        }
        // A row that only one filter refuses counts for this filter's facet.
        for facet in (0..FACETS).filter(|facet| refusals == usize::from(!selects[*facet])) {
            counts.add(facet, row);
        }
    }
    (selected, counts.finish(facts))
}

fn facet(name: &'static str, mut values: Vec<FacetValue>) -> Facet {
    let more = values.len().saturating_sub(VALUES);
    values.truncate(VALUES);
    Facet { name, values, more }
}

fn numbers(counts: BTreeMap<u32, u64>) -> Vec<FacetValue> {
    counts.into_iter().map(|(number, count)| FacetValue::plain(number, count)).collect()
}

fn words(counts: BTreeMap<u32, u64>, names: &[String]) -> Vec<FacetValue> {
    let mut values: Vec<FacetValue> =
        counts.into_iter().map(|(number, count)| FacetValue::plain(&names[number as usize], count)).collect();
    values.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.value.cmp(&b.value)));
    values
}

/// Returns each reward, or ranges of about the same width from their least to their greatest reward.
fn rewards(mut rewards: Vec<f64>) -> Vec<FacetValue> {
    rewards.sort_by(f64::total_cmp);
    let same: Vec<&[f64]> = rewards.chunk_by(|a, b| a == b).collect();
    if same.len() <= VALUES {
        return same.into_iter().map(range).collect();
    }
    let (low, high) = (rewards[0], rewards[rewards.len() - 1]);
    let place = |reward: f64| (((reward - low) / (high - low) * RANGES as f64) as usize).min(RANGES - 1);
    rewards.chunk_by(|a, b| place(*a) == place(*b)).map(range).collect()
}

/// Returns the range of sorted rewards.
fn range(rewards: &[f64]) -> FacetValue {
    // Negative zero is the same value, but not the same text.
    let (low, high) = (rewards[0] + 0.0, rewards[rewards.len() - 1] + 0.0);
    let count = rewards.len() as u64;
    if low == high {
        return FacetValue { value: low.to_string(), label: short(low), count };
    }
    FacetValue { value: format!("{low}..{high}"), label: format!("{} to {}", short(low), short(high)), count }
}

fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::super::query::RolloutFilters;
    use super::*;

    fn facts(rows: &[(f64, u32, AnswerVerdict)]) -> FactTable {
        let row = |(at, (reward, turns, verdict)): (usize, &(f64, u32, AnswerVerdict))| RolloutFacts {
            row: at as u64,
            reward: *reward,
            turns: *turns,
            verdict: *verdict,
            problem: at as u32 % 2,
            ..RolloutFacts::default()
        };
        FactTable {
            rows: rows.iter().enumerate().map(row).collect(),
            problems: vec!["p0".into(), "p1".into()],
            stops: vec!["answer".into()],
        }
    }

    fn values(facets: &[Facet], name: &str) -> Vec<(String, u64)> {
        let facet = facets.iter().find(|facet| facet.name == name).unwrap();
        facet.values.iter().map(|value| (value.value.clone(), value.count)).collect()
    }

    fn pairs(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
        expected.iter().map(|(value, count)| (value.to_string(), *count)).collect()
    }

    #[test]
    fn a_facet_counts_what_the_other_filters_select() {
        use AnswerVerdict::{Right, Wrong};
        let facts = facts(&[(1.0, 2, Right), (0.0, 2, Wrong), (0.0, 3, Wrong), (1.0, 3, Right), (0.5, 3, Wrong)]);
        let filters = RolloutFilters { verdict: Some(Wrong), turns: "3".parse().ok(), ..RolloutFilters::default() };
        let (selected, facets) = count(&facts, &FactFilters::new(&filters, &facts));
        assert_eq!(selected.iter().map(|row| row.row).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(values(&facets, "verdict"), pairs(&[("right", 1), ("wrong", 2)]), "of the rows with 3 turns");
        assert_eq!(values(&facets, "turns"), pairs(&[("2", 1), ("3", 2)]), "of the wrong rows");
        assert_eq!(values(&facets, "reward"), pairs(&[("0", 1), ("0.5", 1)]));
        assert_eq!(values(&facets, "problem"), pairs(&[("p0", 2)]));
        assert!(values(&facets, "step").is_empty(), "no update used the rows");
    }

    #[test]
    fn unknown_words_select_nothing() {
        let facts = facts(&[(1.0, 2, AnswerVerdict::Right)]);
        let filters = RolloutFilters { problem: Some("other".into()), ..RolloutFilters::default() };
        let (selected, facets) = count(&facts, &FactFilters::new(&filters, &facts));
        assert!(selected.is_empty());
        assert_eq!(values(&facets, "problem"), pairs(&[("p0", 1)]));
    }

    #[test]
    fn many_rewards_are_ranges_that_have_each_row_once() {
        let list: Vec<f64> = (0..100).map(|n| f64::from(n) / 10.0).collect();
        let found = rewards(list.clone());
        assert_eq!(found.len(), RANGES);
        assert_eq!((found[0].value.as_str(), found[0].label.as_str()), ("0..1.2", "0 to 1.2"));
        assert_eq!(found.iter().map(|value| value.count).sum::<u64>(), 100);
        for value in &found {
            let range: crate::search::NumberRange = value.value.parse().unwrap();
            let within = list.iter().filter(|reward| range.contains(**reward)).count() as u64;
            assert_eq!(within, value.count, "{}", value.value);
        }
        assert_eq!(rewards(vec![-0.0, 0.0])[0].value, "0");
        assert!(rewards(Vec::new()).is_empty());
    }

    #[test]
    fn values_are_bounded() {
        let facet = facet("turns", (0..20u32).map(|n| FacetValue::plain(n, 1)).collect());
        assert_eq!((facet.values.len(), facet.more), (12, 8));
    }
}
