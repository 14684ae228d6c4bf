//! Computes metrics of single problems from result rows. `evaluate` and `compare` share these definitions.
//!
//! A problem has no value (`None`) if its rows are not sufficient: infrastructure failures are left out, and a metric
//! at k needs k remaining samples. In majority votes all correct answers count as one answer, and two incorrect answers
//! are equal if their texts are equal, except for white space and the spelling of numbers.

use crate::results::ResultRow;
use std::collections::BTreeMap;
use trainyard_core::{Error, MetricInfo, Result};
use trainyard_learn::statistics::{
    StepReduction, Vote, best_at_k, majority_at_k, mean, pass_at_k, pass_hat_k, weighted_majority_at_k,
};

/// Metric of a problem's evaluated samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemMetric {
    /// Whether the greedy sample is correct.
    Accuracy,
    /// Share of drawn samples that are correct.
    Avg,
    /// Unbiased estimate of the probability that at least one of k samples is correct.
    PassAt(usize),
    /// Unbiased estimate of the probability that all k samples are correct.
    PassHat(usize),
    /// Whether the most frequent answer of k samples is correct; ties count as their expectation.
    MajAt(usize),
    /// Whether the answer with the largest sum of votes among k samples is correct, with votes weighted by the process
    /// reward model.
    WeightedMajAt(usize, StepReduction),
    /// Whether the best of k samples, as scored by the process reward model, is correct.
    BestOf(usize, StepReduction),
    /// Whether the sample with the highest log-probability under the policy is correct: the baseline for a judge.
    LikeliestOf(usize),
    /// Mean of a column over the drawn samples, or the greedy one.
    Mean(AveragedColumn),
}

/// A column that may be averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AveragedColumn {
    /// Reward of the outcome.
    Reward,
    /// Tool calls.
    ToolCalls,
    /// Failed tool calls.
    ToolErrors,
    /// Turns that the agent took.
    Turns,
    /// Sampled tokens.
    Tokens,
}

const COLUMNS: [(&str, AveragedColumn); 5] = [
    ("reward", AveragedColumn::Reward),
    ("tool_calls", AveragedColumn::ToolCalls),
    ("tool_errors", AveragedColumn::ToolErrors),
    ("turns", AveragedColumn::Turns),
    ("tokens", AveragedColumn::Tokens),
];

/// Returns the comparable metrics with unit and meaning; every value is a mean over problems.
pub fn declared() -> Vec<MetricInfo> {
    let share = |name: &'static str, doc: &'static str| MetricInfo::new(name, "share", doc).higher();
    let mut list = vec![
        share("accuracy", "Share of problems that the greedy episode solves."),
        share("avg", "Share of the drawn samples that are right."),
        share("pass_at_<int>", "Unbiased chance that one of so many samples is right."),
        share("pass_hat_<int>", "Unbiased chance that all of so many samples are right."),
        share("maj_at_<int>", "Share of problems whose most frequent answer is right."),
        share("likeliest_of_<int>", "Share of problems whose likeliest sample is right."),
        MetricInfo::new("reward", "reward", "Mean reward.").higher(),
        MetricInfo::new("tool_calls", "calls per rollout", "Tool calls."),
        MetricInfo::new("tool_errors", "calls per rollout", "Tool calls that failed.").lower(),
        MetricInfo::new("turns", "turns per rollout", "Turns that the agent took."),
        MetricInfo::new("tokens", "tokens per rollout", "Sampled tokens."),
    ];
    for how in ["min", "product", "last"] {
        let voted = "Share of problems for which the answer with the highest total score is right.";
        list.push(MetricInfo::new(format!("weighted_maj_at_<int>_{how}"), "share", voted).higher());
        let best = "Share of problems whose best sample, by the process reward model, is right.";
        list.push(MetricInfo::new(format!("best_of_<int>_{how}"), "share", best).higher());
    }
    list
}

/// Metric values by problem id.
pub type ProblemValues = BTreeMap<String, f64>;

impl ProblemMetric {
    /// Parses a name such as `pass_at_8` or `best_of_8_last`. Errors: invalid, if there is no such metric.
    pub fn parse(name: &str) -> Result<Self> {
        let number = |prefix: &str| name.strip_prefix(prefix).and_then(|k| k.parse::<usize>().ok()).filter(|k| *k > 0);
        let scored = |prefix: &str| {
            let (k, reduction) = name.strip_prefix(prefix)?.split_once('_')?;
            let reduction = [StepReduction::Min, StepReduction::Product, StepReduction::Last]
                .into_iter()
                .find(|r| r.name() == reduction)?;
            Some((k.parse::<usize>().ok().filter(|k| *k > 0)?, reduction))
        };
        let fixed = match name {
            "accuracy" => Some(Self::Accuracy),
            "avg" => Some(Self::Avg),
            _ => COLUMNS.iter().find(|(n, _)| *n == name).map(|(_, c)| Self::Mean(*c)),
        };
        fixed
            .or_else(|| number("pass_at_").map(Self::PassAt))
            .or_else(|| number("pass_hat_").map(Self::PassHat))
            .or_else(|| number("maj_at_").map(Self::MajAt))
            .or_else(|| scored("weighted_maj_at_").map(|(k, how)| Self::WeightedMajAt(k, how)))
            .or_else(|| number("likeliest_of_").map(Self::LikeliestOf))
            .or_else(|| scored("best_of_").map(|(k, how)| Self::BestOf(k, how)))
            .ok_or_else(|| {
                Error::invalid(format!("no metric `{name}`")).help(
                    "one of: accuracy, avg, pass_at_<k>, pass_hat_<k>, maj_at_<k>, \
                         weighted_maj_at_<k>_<min|product|last>, best_of_<k>_<min|product|last>, \
                         likeliest_of_<k>, reward, tool_calls, tool_errors, turns, tokens",
                )
            })
    }

    /// Returns the value of every problem that has one. The rows are those of one model.
    pub fn by_problem(self, rows: &[&ResultRow]) -> Result<ProblemValues> {
        let mut groups: BTreeMap<&str, Vec<&ResultRow>> = BTreeMap::new();
        for row in rows {
            groups.entry(&row.problem_id).or_default().push(row);
        }
        let mut values = ProblemValues::new();
        for (id, mut group) in groups {
            group.sort_by_key(|r| r.sample);
            if let Some(pair) = group.windows(2).find(|pair| pair[0].sample == pair[1].sample) {
                return Err(Error::data(format!("problem `{id}` has sample {} twice for one model", pair[0].sample))
                    .help("give every evaluated model a unique name and every problem a unique id"));
            }
            if let Some(value) = self.of(&group) {
                values.insert(id.to_string(), value);
            }
        }
        Ok(values)
    }

    /// Returns the value of one problem from its rows in order of sample, or `None` if the rows are not sufficient.
    pub fn of(self, rows: &[&ResultRow]) -> Option<f64> {
        let greedy = || rows.iter().find(|r| r.sample < 0).copied();
        let drawn: Vec<&ResultRow> = rows.iter().copied().filter(|r| r.sample >= 0 && r.correct.is_some()).collect();
        let right: Vec<f64> = drawn.iter().map(|r| share(r)).collect();
        let successes = right.iter().filter(|c| **c > 0.5).count();
        match self {
            Self::Accuracy => greedy().filter(|r| r.correct.is_some()).map(share),
            Self::Avg => mean(&right),
            Self::PassAt(k) => pass_at_k(drawn.len(), successes, k),
            Self::PassHat(k) => pass_hat_k(drawn.len(), successes, k),
            Self::MajAt(k) => majority_at_k(&votes(&drawn, &keys(&drawn)), k).map(|(value, _)| value),
            Self::WeightedMajAt(k, reduction) => {
                weighted_majority_at_k(&votes(&drawn, &keys(&drawn)), &scores(&drawn, reduction)?, k)
            }
            Self::BestOf(k, reduction) => best_at_k(&scores(&drawn, reduction)?, &right, k),
            Self::LikeliestOf(k) => {
                best_at_k(&drawn.iter().map(|r| r.logprob).collect::<Option<Vec<f64>>>()?, &right, k)
            }
            Self::Mean(column) => {
                let source = if drawn.is_empty() {
                    greedy().filter(|r| r.correct.is_some()).into_iter().collect()
                } else {
                    drawn
                };
                let values: Option<Vec<f64>> = source.iter().map(|r| column.of(r)).collect();
                mean(&values?)
            }
        }
    }
}

impl AveragedColumn {
    fn of(self, row: &ResultRow) -> Option<f64> {
        match self {
            Self::Reward => row.reward,
            Self::ToolCalls => Some(f64::from(row.tool_calls)),
            Self::ToolErrors => Some(f64::from(row.tool_errors)),
            Self::Turns => Some(f64::from(row.turns)),
            Self::Tokens => Some(f64::from(row.tokens)),
        }
    }
}

fn share(row: &ResultRow) -> f64 {
    f64::from(u8::from(row.correct == Some(true)))
}

fn keys(rows: &[&ResultRow]) -> Vec<Option<String>> {
    rows.iter().map(|r| key(r)).collect()
}

fn votes<'a>(rows: &[&ResultRow], keys: &'a [Option<String>]) -> Vec<Vote<'a>> {
    keys.iter().zip(rows).map(|(k, r)| Vote { answer: k.as_deref(), correct: r.correct == Some(true) }).collect()
}

/// Returns the score of every row, or `None` if any row has no score.
fn scores(rows: &[&ResultRow], reduction: StepReduction) -> Option<Vec<f64>> {
    rows.iter().map(|r| score(r, reduction)).collect()
}

fn score(row: &ResultRow, reduction: StepReduction) -> Option<f64> {
    match reduction {
        StepReduction::Min => row.prm_min,
        StepReduction::Product => row.prm_product,
        StepReduction::Last => row.prm_last,
        StepReduction::Mean => None,
    }
}

/// Returns the class of a row's answer in a vote, or `None` if the row has no answer.
fn key(row: &ResultRow) -> Option<String> {
    if row.correct == Some(true) {
        return Some("right".into());
    }
    let text = row.answer.as_deref()?.trim();
    let number = text.replace([',', '$'], "").parse::<f64>().ok().filter(|x| x.is_finite());
    // The prefix distinguishes an answer that reads "right" from the class of correct answers.
    (!text.is_empty()).then(|| number.map_or_else(|| format!("text {text}"), |x| format!("number {x}")))
}
