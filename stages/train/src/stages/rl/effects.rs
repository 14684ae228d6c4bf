//! Measures the input of an update: its rollouts, and the spread of their advantages.
//!
//! If a mechanism is to keep something out of the update, or to give credit that other forms do not give, these
//! quantities must show it on any weights. Recipes check them.

use trainyard_learn::{Batch, Group, Rollout, TokenGrid, TurnSummary};

/// Returns metrics of a batch and its advantages, by name.
pub fn metrics(batch: &Batch, advantages: &TokenGrid) -> Vec<(&'static str, f64)> {
    let trained: Vec<&Rollout> = batch.rollouts().filter(|r| r.loss_tokens() > 0).collect();
    let share =
        |of: &dyn Fn(&Rollout) -> bool| trained.iter().filter(|r| of(r)).count() as f64 / trained.len().max(1) as f64;
    let tokens: Vec<f64> = batch.rollouts().zip(advantages).flat_map(|(r, a)| of_mask(r, a)).collect();
    let (given, learned) =
        trained.iter().map(|r| of_demonstrations(r)).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let trained_tokens = trained.iter().map(|r| r.loss_tokens()).sum::<usize>();
    let mut list = vec![
        ("given_in_update", learned as f64 / trained_tokens.max(1) as f64),
        ("trained_rollouts", trained.len() as f64),
        ("trained_tokens", trained_tokens as f64),
        ("void_in_update", share(&|r| r.turns.iter().any(TurnSummary::is_void))),
        ("truncated_in_update", share(&|r| r.truncated())),
        ("trained_observations", trained.iter().map(|r| observed(r)).sum::<usize>() as f64),
        ("pass_rate_lopsidedness", batch.groups.iter().map(lopsidedness).fold(0.0, f64::max)),
        ("tool_errors_in_passes", tool_errors_in_passes(&trained)),
        ("advantage_abs", mean(&tokens.iter().map(|a| a.abs()).collect::<Vec<f64>>())),
        ("advantage_in_rollout", within_rollouts(batch, advantages)),
        ("advantage_between_groups", between_groups(batch, advantages)),
    ];
    if given > 0 {
        list.push(("given_learned_share", learned as f64 / given as f64));
    }
    list
}

/// Returns the number of the agent's tokens that come from a demonstration, and the number of these tokens in the loss.
fn of_demonstrations(rollout: &Rollout) -> (usize, usize) {
    let given = rollout.turns.iter().map(|t| t.end.min(rollout.given).saturating_sub(t.first)).sum();
    (given, rollout.mask.iter().take(rollout.given).filter(|m| **m).count())
}

fn of_mask(rollout: &Rollout, advantages: &[f64]) -> Vec<f64> {
    advantages.iter().zip(&rollout.mask).filter(|(_, m)| **m).map(|(a, _)| *a).collect()
}

/// Counts the tokens in the loss that are in none of the agent's turns.
fn observed(rollout: &Rollout) -> usize {
    let outside = |t: usize| rollout.turns.iter().all(|turn| !(turn.first..turn.end).contains(&t));
    rollout.mask.iter().enumerate().filter(|(t, m)| **m && outside(*t)).count()
}

/// Returns |2p − 1| of the pass rate p of a group: 0 = half of the rollouts are correct, 1 = all or none.
fn lopsidedness(group: &Group) -> f64 {
    let right = group.rollouts.iter().filter(|r| r.correct).count() as f64;
    (2.0 * right / group.rollouts.len().max(1) as f64 - 1.0).abs()
}

/// Returns the share of failed calls among the calls of correct rollouts.
fn tool_errors_in_passes(trained: &[&Rollout]) -> f64 {
    let (calls, errors) = trained
        .iter()
        .filter(|r| r.correct)
        .fold((0, 0), |(c, e), r| (c + u64::from(r.trajectory.tool_calls), e + u64::from(r.trajectory.tool_errors)));
    errors as f64 / calls.max(1) as f64
}

/// Returns the mean over rollouts of the standard deviation of the advantages of their tokens.
fn within_rollouts(batch: &Batch, advantages: &TokenGrid) -> f64 {
    let rows: Vec<Vec<f64>> =
        batch.rollouts().zip(advantages).map(|(r, a)| of_mask(r, a)).filter(|row| !row.is_empty()).collect();
    mean(&rows.iter().map(|row| deviation(row)).collect::<Vec<f64>>())
}

/// Returns the standard deviation over groups of the spread (standard deviation over rollouts) of their advantages.
fn between_groups(batch: &Batch, advantages: &TokenGrid) -> f64 {
    let mut rows = advantages.iter();
    let spread = |group: &Group, rows: &mut std::slice::Iter<'_, Vec<f64>>| {
        let means: Vec<f64> = group.rollouts.iter().zip(rows.by_ref()).map(|(r, a)| mean(&of_mask(r, a))).collect();
        deviation(&means)
    };
    deviation(&batch.groups.iter().map(|g| spread(g, &mut rows)).collect::<Vec<f64>>())
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// Returns the population standard deviation; 0 for an empty list.
fn deviation(values: &[f64]) -> f64 {
    let center = mean(values);
    mean(&values.iter().map(|v| (v - center).powi(2)).collect::<Vec<f64>>()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Trajectory;

    #[test]
    fn spreads_by_hand() {
        let rollout = |correct: bool, calls: u32, errors: u32| Rollout {
            trajectory: Trajectory { tool_calls: calls, tool_errors: errors, ..Trajectory::default() },
            mask: vec![false, true, true],
            correct,
            ..Rollout::default()
        };
        let group = |rollouts: Vec<Rollout>| Group { rollouts, ..Group::default() };
        let void = Rollout { turns: vec![TurnSummary::default()], ..rollout(false, 0, 0) };
        let batch = Batch {
            step: 0,
            groups: vec![
                group(vec![rollout(true, 3, 1), void]),
                group(vec![rollout(true, 1, 0), rollout(false, 9, 9)]),
            ],
        };
        let a = vec![vec![0.0, 1.0, 3.0], vec![0.0, -2.0, -2.0], vec![0.0, 1.0, 1.0], vec![0.0, 1.0, 1.0]];
        let found = metrics(&batch, &a);
        let of = |name: &str| found.iter().find(|m| m.0 == name).unwrap().1;
        assert_eq!(of("void_in_update"), 0.25);
        assert_eq!(of("tool_errors_in_passes"), 0.25);
        assert_eq!(of("trained_tokens"), 8.0);
        assert_eq!(of("given_in_update"), 0.0);
        assert_eq!(of("trained_observations"), 8.0, "no turn holds a token here");
        assert_eq!(of("pass_rate_lopsidedness"), 0.0);
        assert_eq!(of("advantage_abs"), 1.5);
        assert_eq!(of("advantage_in_rollout"), 0.25);
        assert_eq!(of("advantage_between_groups"), 1.0);
        assert!(metrics(&Batch::default(), &Vec::new()).iter().all(|m| m.1 == 0.0));
    }

    #[test]
    fn tokens_of_demonstrations_are_counted_where_the_agent_acts() {
        let turn = |first, end| TurnSummary { first, end, ..TurnSummary::default() };
        // Two given tokens of the first turn, one of them in the loss; one of the second.
        let mask = vec![false, true, false, false, true, true];
        let r = Rollout { mask, given: 5, turns: vec![turn(1, 3), turn(4, 6)], ..Rollout::default() };
        assert_eq!(of_demonstrations(&r), (3, 2));
    }
}
