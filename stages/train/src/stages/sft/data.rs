//! From trajectories to token sequences with a loss mask.
//!
//! Rows with tokens (rollouts) are used as they are; rows without (demonstrations) are encoded with the model's
//! template, every turn under the context that the model would have before it. Where the template rewrites what came
//! before, one row gives several sequences. Only the agent's tokens are in the loss, and a turn whose tool call failed
//! is context to read, not an example to imitate.

use crate::model::expect_same_text;
use std::collections::BTreeSet;
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::template::{Conversation, Encoded};
use trainyard_tables::{Message, Trajectory};

/// One sequence to learn from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Example {
    /// Token ids of the whole sequence.
    pub tokens: Vec<u32>,
    /// Of the length of `tokens`.
    pub mask: Vec<bool>,
}

impl Example {
    /// Tokens whose prediction is learned; a first token has none.
    pub fn loss_tokens(&self) -> usize {
        self.mask.iter().skip(1).filter(|m| **m).count()
    }
}

/// The examples of some rows, and what was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prepared {
    /// Examples with at least one token in the loss, in the order of the rows.
    pub examples: Vec<Example>,
    /// Rows that gave them.
    pub rows: usize,
    /// Rows left out because they exceed the token limit.
    pub too_long: usize,
    /// Rows with no token in the loss.
    pub empty: usize,
    /// Turns left out of the loss because their tool call failed.
    pub masked_turns: usize,
}

/// Encodes rows in order. `most` = tokens that a sequence may have.
pub fn prepare(model: &ModelFolder, rows: &[Trajectory], mask_errored_turns: bool, most: usize) -> Result<Prepared> {
    expect_same_text(model, rows, "`trajectories`")?;
    let mut prepared = Prepared::default();
    for row in rows {
        let mut encoded = encode(model, row).at(format!("trajectory `{}`", row.id))?;
        if mask_errored_turns {
            let errored = if row.tool_errors > 0 {
                errored_turns(&row.messages, answers_in_prompt(row))
            } else {
                BTreeSet::new()
            };
            prepared.masked_turns += mask_turns(&mut encoded.loss_mask, &encoded.turn, &errored);
        }
        let examples: Vec<Example> = examples(&encoded).filter(|e| e.loss_tokens() > 0).collect();
        if encoded.longest() > most {
            prepared.too_long += 1;
        } else if examples.is_empty() {
            prepared.empty += 1;
        } else {
            prepared.rows += 1;
            prepared.examples.extend(examples);
        }
    }
    Ok(prepared)
}

/// One for each context.
fn examples(encoded: &Encoded) -> impl Iterator<Item = Example> {
    encoded.contexts().into_iter().map(|context| Example {
        tokens: encoded.token_ids[context.clone()].to_vec(),
        mask: encoded.loss_mask[context].to_vec(),
    })
}

fn encode(model: &ModelFolder, row: &Trajectory) -> Result<Encoded> {
    if row.token_ids.is_empty() {
        return Conversation::encode(&model.chat, &row.messages, row.tools.as_deref());
    }
    Ok(Encoded {
        token_ids: row.token_ids.clone(),
        loss_mask: row.loss_mask.clone(),
        turn: row.turn.clone(),
        prompt_tokens: row.prompt_tokens as usize,
        restarts: row.restarts.iter().map(|at| *at as usize).collect(),
    })
}

/// Assistant messages that belong to the prompt of a rollout, whose turns are counted after it. A row without tokens
/// is encoded here, and every one is a turn.
fn answers_in_prompt(row: &Trajectory) -> usize {
    let all = row.messages.iter().filter(|m| m.role == "assistant").count();
    if row.token_ids.is_empty() { 0 } else { all.saturating_sub(row.turns as usize) }
}

/// Agent turns (from 0) followed by a failed tool result. The first `skipped` assistant messages do not count as turns.
fn errored_turns(messages: &[Message], skipped: usize) -> BTreeSet<u16> {
    let mut said = 0;
    let mut errored = BTreeSet::new();
    for message in messages {
        match message.role.as_str() {
            "assistant" => said += 1,
            "tool" if said > skipped && reads_as_error(&message.content) => {
                errored.extend(u16::try_from(said - skipped - 1))
            }
            _ => {}
        }
    }
    errored
}

/// Whether a tool's result ends like an error: `error: …`, or the last line of an exception (`NameError: …`,
/// `Exception`). Asked only of rows that count failed calls, since a program may print such a line on purpose.
fn reads_as_error(content: &str) -> bool {
    let last = content.trim_end().lines().next_back().unwrap_or("").trim_start();
    let name = last.split([':', ' ', '(']).next().unwrap_or("");
    name == "error" || ["Error", "Exception", "Interrupt", "Exit", "Iteration"].iter().any(|end| name.ends_with(end))
}

/// Takes the tokens of some turns out of the loss; returns how many turns had any.
fn mask_turns(mask: &mut [bool], turns: &[u16], errored: &BTreeSet<u16>) -> usize {
    let mut hit = BTreeSet::new();
    for (m, t) in mask.iter_mut().zip(turns) {
        if *m && errored.contains(t) {
            *m = false;
            hit.insert(*t);
        }
    }
    hit.len()
}

/// Splits rows by problem: (training, held out). About `share` of the problems are held out, at least one if there are
/// two.
pub fn hold_out(rows: Vec<Trajectory>, share: f64, chance: &Chance) -> (Vec<Trajectory>, Vec<Trajectory>) {
    let mut problems: Vec<String> =
        rows.iter().map(|r| r.problem_id.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    if share <= 0.0 || problems.len() < 2 {
        return (rows, Vec::new());
    }
    chance.at("hold out", &[]).shuffle(&mut problems);
    let count = ((problems.len() as f64 * share).round() as usize).clamp(1, problems.len() - 1);
    let held: BTreeSet<String> = problems.into_iter().take(count).collect();
    rows.into_iter().partition(|r| !held.contains(&r.problem_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_before_a_failed_result_is_masked() {
        let mut mask = [false, true, false, true, true, true];
        assert_eq!(mask_turns(&mut mask, &[0, 0, 1, 1, 2, 2], &BTreeSet::from([1, 5])), 1);
        assert_eq!(mask, [false, true, false, false, true, true]);
    }

    #[test]
    fn errors_are_read_from_the_last_line() {
        for text in [
            "NameError: name 'x' is not defined",
            "3\nZeroDivisionError: division by zero",
            "error: unknown tool",
            "Exception",
        ] {
            assert!(reads_as_error(text), "{text}");
        }
        for text in ["7", "", "no error here", "Errors: 0 found"] {
            assert!(!reads_as_error(text), "{text}");
        }
        let messages = [
            ("user", "q"),
            ("assistant", "a"),
            ("tool", "TypeError: x"),
            ("assistant", "b"),
            ("tool", "3"),
            ("assistant", "c"),
        ];
        let messages: Vec<Message> = messages.iter().map(|(r, c)| Message::new(r, *c)).collect();
        assert_eq!(errored_turns(&messages, 0), BTreeSet::from([0]));
    }

    #[test]
    fn answers_in_the_prompt_of_a_rollout_are_not_counted_as_turns() {
        let messages = [
            ("user", "q"),
            ("assistant", "a"),
            ("user", "r"),
            ("assistant", "b"),
            ("tool", "error: no"),
            ("assistant", "c"),
        ];
        let messages: Vec<Message> = messages.iter().map(|(r, c)| Message::new(r, *c)).collect();
        let rollout = Trajectory { messages, turns: 2, token_ids: vec![1], ..Trajectory::default() };
        assert_eq!(errored_turns(&rollout.messages, answers_in_prompt(&rollout)), BTreeSet::from([0]));
        let demonstration = Trajectory { token_ids: Vec::new(), ..rollout };
        assert_eq!(errored_turns(&demonstration.messages, answers_in_prompt(&demonstration)), BTreeSet::from([1]));
    }

    #[test]
    fn problems_are_held_out_whole() {
        let row = |i: usize| Trajectory { problem_id: (i / 3).to_string(), ..Trajectory::default() };
        let (train, held) = hold_out((0..30).map(row).collect(), 0.2, &Chance::new(1));
        assert_eq!((train.len(), held.len()), (24, 6));
        let ids: BTreeSet<&str> = held.iter().map(|r| r.problem_id.as_str()).collect();
        assert!(train.iter().all(|r| !ids.contains(r.problem_id.as_str())));
        assert_eq!(hold_out(vec![row(0)], 0.5, &Chance::new(1)).1.len(), 0);
    }
}
