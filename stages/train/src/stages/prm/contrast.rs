//! Contrasts correct and incorrect rollouts of one problem: a ranking loss, and the share of pairs that a head ranks
//! correctly.
//!
//! A head learns step labels mostly from the difficulty of a problem, which does not help best-of-k to choose between
//! two answers to one problem. The difficulty cancels in the difference of two scores of one problem: the ranking loss
//! is ln(1 + exp(z_wrong − z_right)) at the last step (Bradley-Terry, as for outcome reward models in 2203.02155),
//! averaged over the pairs of a batch.

use super::example::{Example, sigmoid};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Error, Result};
use trainyard_tables::{EpisodeStatus, Trajectory};

/// Limits of distinct rollouts of one problem and outcome; further rollouts add little information.
const RIGHT: usize = 2;
const WRONG: usize = 4;

/// Returns whether the final outcome of a row is correct: its reward component is 1 or more. `None` if the row has no
/// such component or no tokens, or if the infrastructure lost it.
pub fn outcome(row: &Trajectory, component: &str) -> Option<bool> {
    let counts = row.status == EpisodeStatus::Ok && !row.token_ids.is_empty();
    row.rewards.get(component).filter(|_| counts).map(|value| *value >= 1.0)
}

/// Selects the rows to contrast, by problem: distinct rows of problems with both outcomes. Rows with the fewest tool
/// errors and calls come first, because an obvious failure needs no judge. Errors: data, if no row has the component.
pub fn select(rows: Vec<Trajectory>, component: &str) -> Result<Vec<Trajectory>> {
    if !rows.is_empty() && rows.iter().all(|r| outcome(r, component).is_none()) {
        let names: BTreeSet<&str> = rows.iter().flat_map(|r| r.rewards.keys().map(String::as_str)).collect();
        let names: Vec<&str> = names.into_iter().collect();
        return Err(Error::data(format!("no row of input `contrast` has the reward `{component}`"))
            .help(format!("set `outcome` to the component that marks right answers: {}", names.join(", "))));
    }
    let mut problems: BTreeMap<String, [Vec<Trajectory>; 2]> = BTreeMap::new();
    for row in rows {
        if let Some(right) = outcome(&row, component) {
            problems.entry(row.problem_id.clone()).or_default()[usize::from(right)].push(row);
        }
    }
    let both = problems.into_values().filter(|sides| sides.iter().all(|side| !side.is_empty()));
    Ok(both.flat_map(|[wrong, right]| [distinct(wrong, WRONG), distinct(right, RIGHT)].concat()).collect())
}

/// Splits rows into training and held-out ones. All rows of a problem are on the side of the problem's labels, or, if
/// it has no labels, on the side that `hold_out` chooses.
pub fn split(
    rows: Vec<Trajectory>,
    train: &[Trajectory],
    held: &[Trajectory],
    hold_out: impl FnOnce(Vec<Trajectory>) -> (Vec<Trajectory>, Vec<Trajectory>),
) -> (Vec<Trajectory>, Vec<Trajectory>) {
    let problems = |rows: &[Trajectory]| rows.iter().map(|r| r.problem_id.clone()).collect::<BTreeSet<String>>();
    let (trained, measured) = (problems(train), problems(held));
    let (learned, rest): (Vec<Trajectory>, Vec<Trajectory>) =
        rows.into_iter().partition(|r| trained.contains(&r.problem_id));
    let (judged, free): (Vec<Trajectory>, Vec<Trajectory>) =
        rest.into_iter().partition(|r| measured.contains(&r.problem_id));
    let (mut learn, mut judge) = hold_out(free);
    learn.extend(learned);
    judge.extend(judged);
    (learn, judge)
}

fn distinct(mut rows: Vec<Trajectory>, limit: usize) -> Vec<Trajectory> {
    rows.sort_by(|a, b| (a.tool_errors, a.tool_calls, &a.token_ids).cmp(&(b.tool_errors, b.tool_calls, &b.token_ids)));
    rows.dedup_by(|a, b| a.token_ids == b.token_ids);
    rows.truncate(limit);
    rows
}

/// Returns the indexes (correct, incorrect) of all pairs of rollouts of one problem.
pub fn pairs(examples: &[&Example]) -> Vec<(usize, usize)> {
    let mut problems: BTreeMap<&str, [Vec<usize>; 2]> = BTreeMap::new();
    for (i, example) in examples.iter().enumerate() {
        if let Some(right) = example.right {
            problems.entry(&example.problem).or_default()[usize::from(right)].push(i);
        }
    }
    problems
        .values()
        .flat_map(|[wrong, right]| right.iter().flat_map(move |&r| wrong.iter().map(move |&w| (r, w))))
        .collect()
}

/// Returns ln(1 + exp(wrong − right)) and its slope by `wrong`; the slope by `right` is the negative.
pub fn ranking_loss(right: f64, wrong: f64) -> (f64, f64) {
    let gap = wrong - right;
    (gap.max(0.0) + (-gap.abs()).exp().ln_1p(), sigmoid(gap))
}

/// Ranking of the pairs of each problem by their last scores.
#[derive(Debug, Default)]
pub struct Ranking {
    /// Whether the correct rollout of each pair has the higher score: 1, 0, or ½ for equal scores.
    pub shares: Vec<f64>,
    /// Problem of each pair.
    pub problems: Vec<String>,
}

/// Ranks pairs. `scores`: the last score of every example. With `alike`, only pairs with equally many tool calls and
/// tool errors are ranked, which differ only in their text.
pub fn ranking(examples: &[&Example], scores: &[f64], alike: bool) -> Ranking {
    let mut found = Ranking::default();
    for (right, wrong) in pairs(examples) {
        let (a, b) = (examples[right], examples[wrong]);
        if alike && (a.tool_calls, a.tool_errors) != (b.tool_calls, b.tool_errors) {
            continue;
        }
        let gap = scores[right] - scores[wrong];
        found.shares.push(if gap == 0.0 { 0.5 } else { f64::from(u8::from(gap > 0.0)) });
        found.problems.push(a.problem.clone());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(problem: &str, tokens: &[u32], right: Option<f64>, errors: u32) -> Trajectory {
        Trajectory {
            problem_id: problem.into(),
            token_ids: tokens.to_vec(),
            tool_errors: errors,
            rewards: right.into_iter().map(|value| ("answer".to_string(), value)).collect(),
            ..Trajectory::default()
        }
    }

    #[test]
    fn problems_with_both_outcomes_are_contrasted_by_distinct_rows() {
        let rows = vec![
            row("a", &[1, 2], Some(1.0), 0),
            row("a", &[1, 2], Some(1.0), 0),
            row("a", &[1, 9], Some(0.0), 3),
            row("a", &[1, 8], Some(0.0), 0),
            row("a", &[1, 7], None, 0),
            row("b", &[1], Some(1.0), 0),
        ];
        let kept: Vec<Vec<u32>> = select(rows, "answer").unwrap().into_iter().map(|r| r.token_ids).collect();
        assert_eq!(kept, [vec![1, 8], vec![1, 9], vec![1, 2]], "wrong ones without tool errors first");
        let e = select(vec![row("a", &[1], Some(1.0), 0)], "correct").unwrap_err();
        assert!(e.help.unwrap().contains("answer"));
        assert!(select(Vec::new(), "answer").unwrap().is_empty());
    }

    #[test]
    fn problems_are_either_trained_on_or_held_out() {
        let one = |problem: &str| row(problem, &[1], Some(1.0), 0);
        let halves = |mut rows: Vec<Trajectory>| {
            let second = rows.split_off(rows.len() / 2);
            (rows, second)
        };
        let (learn, judge) = split(["a", "b", "c", "d"].map(one).to_vec(), &[one("a")], &[one("b")], halves);
        let names = |rows: &[Trajectory]| rows.iter().map(|r| r.problem_id.clone()).collect::<Vec<_>>();
        assert_eq!((names(&learn), names(&judge)), (vec!["c".into(), "a".into()], vec!["d".into(), "b".into()]));
    }

    #[test]
    fn the_slope_of_the_ranking_loss_is_the_finite_difference() {
        for (right, wrong) in [(0.3, 0.0), (-2.0, 1.0), (0.0, 30.0)] {
            let difference = (ranking_loss(right, wrong + 1e-6).0 - ranking_loss(right, wrong - 1e-6).0) / 2e-6;
            assert!((difference - ranking_loss(right, wrong).1).abs() < 1e-8);
            let difference = (ranking_loss(right + 1e-6, wrong).0 - ranking_loss(right - 1e-6, wrong).0) / 2e-6;
            assert!((difference + ranking_loss(right, wrong).1).abs() < 1e-8);
        }
        assert!(ranking_loss(-800.0, 800.0).0.is_finite());
    }

    #[test]
    fn ranking_compares_within_problems() {
        let one = |problem: &str, right: Option<bool>, tool_calls| Example {
            problem: problem.into(),
            right,
            tool_calls,
            ..Example::default()
        };
        let examples = [
            one("a", Some(true), 1),
            one("a", Some(false), 1),
            one("a", Some(false), 2),
            one("b", Some(false), 1),
            one("b", None, 1),
        ];
        let examples: Vec<&Example> = examples.iter().collect();
        assert_eq!(pairs(&examples), [(0, 1), (0, 2)]);
        let scores = [0.5, 0.5, 0.1, 0.9, 0.9];
        assert_eq!(ranking(&examples, &scores, false).shares, [0.5, 1.0]);
        assert_eq!(ranking(&examples, &scores, true).shares, [0.5]);
    }
}
