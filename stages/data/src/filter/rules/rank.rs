//! Implements the rule `rank`: keeps the best rows of each problem.

use crate::filter::attempts::{ATTEMPT_COLUMNS, AttemptCounts, Attempts};
use crate::filter::ranking::{ObservedRanking, RowPlace};
use crate::filter::row_scores::RowScore;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, RuleColumns, RuleContext, RulePass, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};

/// Keeps the best rows of each problem.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Rank {
    /// Rows to keep for each problem.
    #[schemars(range(min = 1))]
    pub keep: u32,
    /// Criteria for the better of two rows: `reward` (higher), `shortest` or `longest` (characters of the assistant's
    /// messages), `fewest_tool_errors`, `fewest_tool_calls`, `fewest_turns`. Each further one decides between rows
    /// that are equal by those before it; of rows that are equal by all, the earlier is better.
    pub by: Vec<RowScore>,
    /// Whether to keep only problems with right and wrong rows.
    pub mixed_only: bool,
    /// Reward component by which `mixed_only` calls a row right or wrong.
    pub reward: String,
    /// Reward from which on a row is right.
    pub threshold: f64,
}

impl Default for Rank {
    fn default() -> Self {
        Self { keep: 1, by: vec![RowScore::Reward], mixed_only: false, reward: "answer".into(), threshold: 0.5 }
    }
}

impl PartOptions for Rank {
    const KIND: &'static str = "rank";
    const SUMMARY: &'static str = "keeps the best rows of each problem";
    const DOC: &'static str = "Keeps the `keep` best rows of each problem. The first criterion of `by` decides; each\n\
        further one between rows that are equal by those before it, and in the end the order of the rows.\n\n\
        With `mixed_only: true`, problems without a right row or without a wrong one are rejected: a row is right if\n\
        its reward component `reward` is at least `threshold`. Reasons: not_mixed, not_among_best.";
    fn check(&self) -> Vec<OptionProblem> {
        let nothing = self.by.is_empty().then(|| {
            OptionProblem::new("/by", "there is no criterion").help("name one, as in `by: [reward, shortest]`")
        });
        let problems = [
            OptionProblem::out_of_range("/keep", self.keep, 1..),
            nothing,
            OptionProblem::not_finite("/threshold", self.threshold),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl FilterRule for Rank {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        let mixed: &[&str] = if self.mixed_only { &ATTEMPT_COLUMNS } else { &["problem_id"] };
        let scores = self.by.iter().map(|score| score.column());
        RuleColumns::named(&mixed.iter().copied().chain(scores).collect::<Vec<_>>())
    }
    fn observes(&self) -> bool {
        true
    }
    fn start<'a>(&'a self, _: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let attempts = self.mixed_only.then(|| AttemptCounts::new(&self.reward, self.threshold));
        Ok(Box::new(RankPass { rule: self, attempts, ranking: ObservedRanking::new(self.by.len()) }))
    }
}

struct RankPass<'a> {
    rule: &'a Rank,
    /// Right and wrong rows of each problem, if they matter.
    attempts: Option<AttemptCounts<'a>>,
    ranking: ObservedRanking,
}

impl RulePass for RankPass<'_> {
    fn observe(&mut self, rows: &RuleRows) -> Result<()> {
        let scores = self.rule.by.iter().map(|score| score.of(rows)).collect::<Result<Vec<_>>>()?;
        let problems = rows.texts("problem_id")?;
        for row in 0..rows.len() {
            self.ranking.push(problems.value(row), scores.iter().map(|scores| scores[row]))?;
        }
        self.attempts.as_mut().map_or(Ok(()), |attempts| attempts.add(rows))
    }
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        if let Some(attempts) = &self.attempts {
            attempts.expect_reward()?;
        }
        let problems = rows.texts("problem_id")?;
        let mut verdicts = Vec::with_capacity(rows.len());
        for row in 0..rows.len() {
            let place = self.ranking.next_place()?;
            verdicts.push(self.verdict(problems.value(row), place));
        }
        Ok(verdicts)
    }
}

impl RankPass<'_> {
    fn verdict(&self, problem: &str, row: RowPlace) -> RuleVerdict {
        let attempts = self.attempts.as_ref().map(|attempts| attempts.of(problem));
        match attempts.filter(|attempts| attempts.right == 0 || attempts.wrong == 0) {
            Some(Attempts { right, wrong }) => {
                RuleVerdict::reject("not_mixed", format!("{problem} has {right} right and {wrong} wrong rows"))
            }
            None if row.place >= self.rule.keep => {
                let place = row.place + 1;
                RuleVerdict::reject("not_among_best", format!("place {place} of {} for {problem}", row.of))
            }
            None => RuleVerdict::Keep,
        }
    }
}
