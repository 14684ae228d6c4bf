//! Finds the step in which two rows with tokens diverge, and cuts rows after a step.
//!
//! Steps end at `step_ends` (which `prm` writes); in rows without `step_ends`, a step is an agent turn.

use trainyard_tables::Trajectory;

/// Returns the exclusive ends of a row's steps.
fn step_ends(row: &Trajectory) -> Vec<usize> {
    if !row.step_ends.is_empty() {
        return row.step_ends.iter().map(|end| *end as usize).collect();
    }
    let tokens = row.token_ids.len();
    let is_last =
        |t: &usize| row.loss_mask[*t] && (t + 1 == tokens || !row.loss_mask[t + 1] || row.turn[t + 1] != row.turn[*t]);
    (0..tokens).filter(is_last).map(|t| t + 1).collect()
}

/// Returns the ends of the first steps in which two rows differ, or `None` if the difference is not written by the
/// agent, or if one is a prefix of the other.
pub fn first_difference(a: &Trajectory, b: &Trajectory) -> Option<(usize, usize)> {
    let common = a.token_ids.iter().zip(&b.token_ids).take_while(|(x, y)| x == y).count();
    let is_agent = |row: &Trajectory| row.loss_mask.get(common).copied().unwrap_or(false);
    if !is_agent(a) || !is_agent(b) {
        return None;
    }
    let end = |row: &Trajectory| step_ends(row).into_iter().find(|end| *end > common);
    Some((end(a)?, end(b)?))
}

/// Returns the score of the step that ends at `end`, or `None` if no step ends there or its score is missing or not
/// finite.
pub fn score_at(row: &Trajectory, end: usize) -> Option<f64> {
    let place = step_ends(row).iter().position(|other| *other == end)?;
    row.step_scores.as_ref()?.get(place).map(|score| f64::from(*score)).filter(|score| score.is_finite())
}

/// Returns the row up to token `end`, where a step ends. Its messages end with the turn of the last token.
pub fn cut(row: &Trajectory, end: usize) -> Trajectory {
    fn part<T: Clone>(list: &[T], end: usize) -> Vec<T> {
        list[..end.min(list.len())].to_vec()
    }
    fn some<T: Clone>(list: &Option<Vec<T>>, end: usize) -> Option<Vec<T>> {
        list.as_deref().map(|list| part(list, end))
    }
    let steps = row.step_ends.iter().filter(|at| **at as usize <= end).count();
    let turns = usize::from(row.turn[end - 1]) + 1;
    Trajectory {
        token_ids: part(&row.token_ids, end),
        loss_mask: part(&row.loss_mask, end),
        turn: part(&row.turn, end),
        logprobs: some(&row.logprobs, end),
        entropies: some(&row.entropies, end),
        weights_version: some(&row.weights_version, end),
        step_ends: part(&row.step_ends, steps),
        step_labels: some(&row.step_labels, steps),
        step_scores: some(&row.step_scores, steps),
        turn_rewards: part(&row.turn_rewards, turns),
        messages: part(&row.messages, messages_of(row, turns)),
        turns: turns as u32,
        answer: None,
        ..row.clone()
    }
}

/// Returns the number of messages up to the end of the agent's turn number `turns`, counted from 1 after the prompt.
fn messages_of(row: &Trajectory, turns: usize) -> usize {
    let agent_messages: Vec<usize> = (0..row.messages.len()).filter(|&i| row.messages[i].role == "assistant").collect();
    let in_prompt = agent_messages.len().saturating_sub(row.turns as usize);
    agent_messages.get(in_prompt + turns - 1).map_or(row.messages.len(), |at| at + 1)
}
