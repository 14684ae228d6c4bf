//! Implements the rule `pass_rate`: keeps the rows of problems that are neither too easy nor too hard for a model.

use crate::filter::attempts::{ATTEMPT_COLUMNS, AttemptCounts};
use crate::filter::histogram::Histogram;
use crate::filter::rows::RuleRows;
use crate::filter::rule::{FilterRule, MeasuredValues, RuleColumns, RuleContext, RulePass, RuleVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};

/// Message and help where the attempts of the input `rated` are needed, but it is not wired.
const UNWIRED: [&str; 2] =
    ["there is no attempt of another model", "wire `rated` to trajectories, or set `attempts: rows`"];

/// Rows whose attempts are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptSource {
    /// The rows that reach the rule.
    #[default]
    Rows,
    /// The rows of the input `rated`.
    Rated,
}

/// Treatment of rows of a problem with too few attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownRate {
    /// The rows are kept.
    Keep,
    /// The rows are rejected.
    #[default]
    Reject,
}

/// Keeps rows of problems whose pass rate is in a band.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PassRate {
    /// Lowest pass rate of a kept problem, itself included.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min: f64,
    /// Highest pass rate of a kept problem, itself included.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max: f64,
    /// Attempts that count: `rows`, those that reach the rule, or `rated`, those of the input `rated`.
    pub attempts: AttemptSource,
    /// Reward component that decides whether an attempt passes.
    pub reward: String,
    /// Reward from which on an attempt passes.
    pub threshold: f64,
    /// Attempts from which on a pass rate is known.
    #[schemars(range(min = 1))]
    pub min_rows: u32,
    /// Treatment of rows of a problem with fewer attempts: `keep` or `reject`.
    pub unknown: UnknownRate,
}

impl Default for PassRate {
    fn default() -> Self {
        Self {
            min: 0.1,
            max: 0.9,
            attempts: AttemptSource::Rows,
            reward: "answer".into(),
            threshold: 0.5,
            min_rows: 2,
            unknown: UnknownRate::Reject,
        }
    }
}

impl PartOptions for PassRate {
    const KIND: &'static str = "pass_rate";
    const SUMMARY: &'static str = "keeps rows of problems that a model solves sometimes";
    const DOC: &'static str = "Keeps the rows of problems whose pass rate is from `min` to `max`, both included. The\n\
        pass rate is the share of a problem's attempts whose reward component `reward` is at least `threshold`. The\n\
        attempts are the rows that reach the rule, or with `attempts: rated` those of the input `rated`: trajectories\n\
        of another model, for example of an evaluation. Rows without that component and episodes that failed for\n\
        reasons of infrastructure are no attempts. Reasons: too_easy, too_hard, few_attempts.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/min", self.min, 0.0..=1.0),
            OptionProblem::out_of_range("/max", self.max, 0.0..=1.0),
            OptionProblem::reversed_bounds(("/min", self.min), ("/max", self.max)),
            OptionProblem::not_finite("/threshold", self.threshold),
            OptionProblem::out_of_range("/min_rows", self.min_rows, 1..),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl FilterRule for PassRate {
    fn kind(&self) -> &'static str {
        Self::KIND
    }
    fn columns(&self) -> RuleColumns {
        match self.attempts {
            AttemptSource::Rows => RuleColumns::named(&ATTEMPT_COLUMNS),
            AttemptSource::Rated => RuleColumns::named(&["problem_id"]),
        }
    }
    fn observes(&self) -> bool {
        self.attempts == AttemptSource::Rows
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let is_wired = inputs.get("rated").is_some_and(|count| *count > 0);
        let is_missing = self.attempts == AttemptSource::Rated && !is_wired;
        is_missing.then(|| OptionProblem::new("/attempts", UNWIRED[0]).help(UNWIRED[1])).into_iter().collect()
    }
    fn start<'a>(&'a self, context: &'a RuleContext<'a>) -> Result<Box<dyn RulePass + 'a>> {
        let mut counts = AttemptCounts::new(&self.reward, self.threshold);
        if self.attempts == AttemptSource::Rated {
            if context.rated.is_empty() {
                return Err(Error::invalid(UNWIRED[0]).help(UNWIRED[1]));
            }
            counts.add_files(context.rated)?;
            counts.expect_reward().map_err(|e| e.at("`rated`"))?;
        }
        Ok(Box::new(PassRatePass { rule: self, counts, rates: Histogram::default() }))
    }
}

struct PassRatePass<'a> {
    rule: &'a PassRate,
    counts: AttemptCounts<'a>,
    /// Pass rates of the judged rows whose rate is known.
    rates: Histogram,
}

impl RulePass for PassRatePass<'_> {
    fn observe(&mut self, rows: &RuleRows) -> Result<()> {
        self.counts.add(rows)
    }
    fn judge(&mut self, rows: &RuleRows) -> Result<Vec<RuleVerdict>> {
        self.counts.expect_reward()?;
        let problems = rows.texts("problem_id")?;
        Ok((0..rows.len()).map(|row| self.verdict(problems.value(row))).collect())
    }
    fn measured(&self) -> Option<MeasuredValues> {
        Some(MeasuredValues { name: "pass rate of the row's problem", values: self.rates.clone() })
    }
}

impl PassRatePass<'_> {
    fn verdict(&mut self, problem: &str) -> RuleVerdict {
        let attempts = self.counts.of(problem);
        let detail = || format!("{} of {} attempts at {problem} passed", attempts.right, attempts.all());
        let Some(rate) = attempts.pass_rate().filter(|_| attempts.all() >= self.rule.min_rows) else {
            return match self.rule.unknown {
                UnknownRate::Keep => RuleVerdict::Keep,
                UnknownRate::Reject => RuleVerdict::reject("few_attempts", detail()),
            };
        };
        self.rates.add(rate);
        match rate {
            rate if rate < self.rule.min => RuleVerdict::reject("too_hard", detail()),
            rate if rate > self.rule.max => RuleVerdict::reject("too_easy", detail()),
            _ => RuleVerdict::Keep,
        }
    }
}
