//! Implements the rule `diversity`: keeps a limited number of rows of each group.

use crate::filter::ranking::{GroupNumbers, ObservedRanking};
use crate::filter::row_groups::GroupKey;
use crate::filter::row_scores::RowScore;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use crate::row_expression::{self, RowTable};
use crate::text::shortened;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, OptionProblem, Result, WiredInputs};
use trainyard_envs::ToolFormat;

/// The rows of a group that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreferredRows {
    /// The first rows.
    #[default]
    First,
    /// The rows with the highest rewards.
    Reward,
    /// The rows with the fewest characters in the assistant's messages.
    Shortest,
    /// The rows with the most characters in the assistant's messages.
    Longest,
    /// Random rows.
    Random,
}

impl PreferredRows {
    fn score(self) -> Option<RowScore> {
        match self {
            Self::First | Self::Random => None,
            Self::Reward => Some(RowScore::Reward),
            Self::Shortest => Some(RowScore::Shortest),
            Self::Longest => Some(RowScore::Longest),
        }
    }
}

/// Keeps a limited number of rows of each group.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Diversity {
    /// The property that the rows of a group share: `problem`, `environment`, `level`, `question_prefix` (the first
    /// `prefix_words` words of the first user message), `tools` (the set of tools that were called), `length_bucket`
    /// (the characters of the assistant's messages, between powers of two), or a column `meta_…` of the source; rows
    /// without a value there are one group.
    pub by: GroupKey,
    /// Rows to keep of each group.
    #[schemars(range(min = 1))]
    pub max_per_group: u32,
    /// The rows of a group that are kept: `first`, `reward` (highest), `shortest`, `longest` or `random`; of equal
    /// rows, the earlier ones.
    pub prefer: PreferredRows,
    /// Words of a `question_prefix`.
    #[schemars(range(min = 1, max = 1000))]
    pub prefix_words: usize,
    /// Seed of `prefer: random`.
    pub seed: u64,
}

impl Default for Diversity {
    fn default() -> Self {
        Self { by: GroupKey::Problem, max_per_group: 4, prefer: PreferredRows::First, prefix_words: 8, seed: 0 }
    }
}

impl PartOptions for Diversity {
    const KIND: &'static str = "diversity";
    const SUMMARY: &'static str = "keeps a limited number of rows of each problem, level, source, …";
    const DOC: &'static str = "Keeps at most `max_per_group` rows of each group, where `by` says what the rows of a\n\
        group share. Those kept are the first ones, or those that `prefer` names. Reason: over_cap.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            self.by.problem("/by"),
            OptionProblem::out_of_range("/max_per_group", self.max_per_group, 1..),
            OptionProblem::out_of_range("/prefix_words", self.prefix_words, 1..=1000),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl FilterRule for Diversity {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        let score = self.prefer.score().map(RowScore::column);
        RuleColumns::named(&[self.by.column()].into_iter().chain(score).collect::<Vec<_>>())
    }
    fn observes(&self) -> bool {
        self.prefer != PreferredRows::First
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let GroupKey::Column(name) = &self.by else { return Vec::new() };
        row_expression::warnings(RowTable::Trajectories, "/by", name, inputs, "trajectories")
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let format = context.environment.format();
        if !self.observes() {
            return Ok(Box::new(FirstRows { rule: self, format, groups: GroupNumbers::default(), kept: Vec::new() }));
        }
        let chance = Chance::new(self.seed).child("diversity", &[]);
        Ok(Box::new(BestRows { rule: self, format, chance, ranking: ObservedRanking::new(1), observed: 0 }))
    }
}

impl Diversity {
    fn groups(&self, rows: &RuleRows, format: &dyn ToolFormat) -> Result<Vec<String>> {
        self.by.groups(rows, self.prefix_words, format)
    }
    fn verdict(&self, is_kept: bool, group: &str) -> RuleVerdict {
        if is_kept {
            return RuleVerdict::Keep;
        }
        RuleVerdict::reject("over_cap", format!("{} (at most {})", shortened(group, 100), self.max_per_group))
    }
}

struct FirstRows<'a> {
    rule: &'a Diversity,
    format: &'a dyn ToolFormat,
    groups: GroupNumbers,
    /// Kept rows of each group so far.
    kept: Vec<u32>,
}

impl RulePass for FirstRows<'_> {
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let mut verdicts = Vec::with_capacity(rows.len());
        for group in self.rule.groups(rows, self.format)? {
            let number = self.groups.number(&group) as usize;
            if number == self.kept.len() {
                self.kept.push(0);
            }
            let is_kept = self.kept[number] < self.rule.max_per_group;
            self.kept[number] += u32::from(is_kept);
            verdicts.push(self.rule.verdict(is_kept, &group));
        }
        Ok(verdicts)
    }
}

struct BestRows<'a> {
    rule: &'a Diversity,
    format: &'a dyn ToolFormat,
    chance: Chance,
    ranking: ObservedRanking,
    /// Rows that were observed.
    observed: u64,
}

impl BestRows<'_> {
    fn scores(&self, rows: &RuleRows) -> Result<Vec<f64>> {
        let random = |row: usize| self.chance.at("row", &[self.observed + row as u64]).uniform();
        self.rule.prefer.score().map_or_else(|| Ok((0..rows.len()).map(random).collect()), |score| score.of(rows))
    }
}

impl RulePass for BestRows<'_> {
    fn observe(&mut self, rows: &RuleRows) -> Result<()> {
        let scores = self.scores(rows)?;
        for (group, score) in self.rule.groups(rows, self.format)?.iter().zip(scores) {
            self.ranking.push(group, [score])?;
        }
        self.observed += rows.len() as u64;
        Ok(())
    }
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        let mut verdicts = Vec::with_capacity(rows.len());
        for group in self.rule.groups(rows, self.format)? {
            let place = self.ranking.next_place()?;
            verdicts.push(self.rule.verdict(place.place < self.rule.max_per_group, &group));
        }
        Ok(verdicts)
    }
}
