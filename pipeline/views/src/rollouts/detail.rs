//! Reads one rollout.

use super::forks::{ForkMember, ForkNode, trees};
use super::reading::{blocking, open, require_row};
use crate::find::ResolvedOutput;
use crate::step_labels::{self, MessageLabels};
use std::collections::BTreeSet;
use std::ops::Range;
use std::str::FromStr;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::{
    AnswerVerdict, BatchReader, ReadSlice, TableSource, Trajectory, answers_in_prompt, decode_part, errored_turns,
};

/// Columns with a value for each token that a conversation does not need.
const LEFT_OUT: [&str; 4] = ["logprobs", "entropies", "weights_version", "advantages"];
/// Rows before and after a row among which its group is looked for.
const NEAR: u64 = 1_000;
/// Maximum members of a tree of forks.
const MEMBERS: usize = 100;

/// One rollout.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutDetail {
    /// Number of the row, from 0.
    pub row: u64,
    /// Number of rows of the table.
    pub rows: u64,
    /// The rollout, without token ids, their turns, and their sampled values.
    pub rollout: Trajectory,
    /// Verdict on the answer.
    pub verdict: AnswerVerdict,
    /// Number of assistant messages that belong to the prompt: turns are counted after them.
    pub prompt_answers: usize,
    /// Turns with a failed tool call; empty if the rollout counts no failed calls.
    pub failed_turns: BTreeSet<u16>,
    /// Labels of the steps of each message.
    pub step_labels: MessageLabels,
    /// Sequences that the model read separately.
    pub contexts: Vec<ContextRow>,
    /// Trees of forks of the group, from at most 100 of its rows around this one; empty without forks.
    pub forks: Vec<ForkNode>,
}

/// Sequence that the model read separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRow {
    /// Positions of the tokens.
    pub tokens: Range<usize>,
    /// Number of sampled tokens.
    pub sampled: usize,
}

/// Text of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MessagePart {
    /// Content.
    #[default]
    Content,
    /// Reasoning before the content.
    Reasoning,
    /// Tool calls, as JSON text.
    Calls,
}

impl MessagePart {
    /// Returns the name of the part.
    pub fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::Reasoning => "reasoning",
            Self::Calls => "calls",
        }
    }
}

impl FromStr for MessagePart {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::Content, Self::Reasoning, Self::Calls].into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| format!("`{name}` is no part of a message: write content, reasoning or calls"))
    }
}

/// Reads a rollout. Errors: invalid (no such row, not trajectories), data (a damaged table), those of the store.
pub async fn detail(store: &Store, artifact: &str, found: &ResolvedOutput, row: u64) -> Result<RolloutDetail> {
    let table = open(store, artifact, found).await?;
    let artifact = artifact.to_string();
    blocking(move || {
        let rows = require_row(&table, &artifact, row)?;
        let mut rollout = one(&table, row, |column| !LEFT_OUT.contains(&column))?;
        let prompt_answers = answers_in_prompt(&rollout);
        let failed_turns = if rollout.tool_errors > 0 { errored_turns(&rollout) } else { BTreeSet::new() };
        let step_labels = step_labels::of_rollout(&rollout);
        (rollout.token_ids, rollout.turn) = (Vec::new(), Vec::new());
        let contexts = contexts(&rollout);
        let forks = trees(near_members(&table, row, &rollout)?);
        let verdict = ForkMember::of(row, &rollout).verdict;
        Ok(RolloutDetail { row, rows, rollout, verdict, prompt_answers, failed_turns, step_labels, contexts, forks })
    })
    .await
}

/// Reads a text of a message, of which only the messages of the row are read.
///
/// Errors: invalid (no such row, message or text, not trajectories), data (a damaged table), those of the store.
pub async fn message_text(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    (row, message, part): (u64, usize, MessagePart),
) -> Result<String> {
    let table = open(store, artifact, found).await?;
    let artifact = artifact.to_string();
    blocking(move || {
        require_row(&table, &artifact, row)?;
        let mut messages = one(&table, row, |column| column == "messages")?.messages;
        let count = messages.len();
        let missing = || {
            Error::invalid(format!("{artifact} row {row} has no message {message}: it has {count} messages"))
                .help("messages are counted from 0")
        };
        if message >= count {
            return Err(missing());
        }
        let found = messages.swap_remove(message);
        let text = match part {
            MessagePart::Content => Some(found.content),
            MessagePart::Reasoning => found.reasoning_content,
            MessagePart::Calls => found.tool_calls,
        };
        text.ok_or_else(|| Error::invalid(format!("message {message} has no {}", part.name())))
    })
    .await
}

/// Reads the columns of a row that a condition selects.
fn one(table: &TableSource, row: u64, is_wanted: impl Fn(&str) -> bool) -> Result<Trajectory> {
    let schema = trainyard_tables::read_schema(table)?;
    let columns: Vec<String> =
        schema.fields().iter().map(|field| field.name().clone()).filter(|name| is_wanted(name)).collect();
    let part = ReadSlice { offset: row as usize, limit: Some(1), columns: Some(&columns) };
    let batch = BatchReader::open_part(table, &part)?.next().transpose()?;
    let rows = batch.map(|batch| decode_part::<Trajectory>(table.path(), &batch)).transpose()?;
    rows.and_then(|mut rows| rows.pop()).ok_or_else(|| Error::bug(format!("row {row} is missing")))
}

fn contexts(rollout: &Trajectory) -> Vec<ContextRow> {
    let count = rollout.loss_mask.len();
    let ends = rollout.restarts.iter().map(|at| (*at as usize).min(count)).chain([count]);
    let mut start = 0;
    let context = |end: usize| {
        let end = end.max(start);
        let tokens = std::mem::replace(&mut start, end)..end;
        let sampled = rollout.loss_mask[tokens.clone()].iter().filter(|is_sampled| **is_sampled).count();
        ContextRow { tokens, sampled }
    };
    ends.map(context).filter(|context| !context.tokens.is_empty()).collect()
}

/// Reads the members of a rollout's group among the rows around it.
fn near_members(table: &TableSource, row: u64, rollout: &Trajectory) -> Result<Vec<ForkMember>> {
    let columns = [
        "id",
        "problem_id",
        "group",
        "sample",
        "fork_of",
        "fork_at",
        "reward",
        "update",
        "expected",
        "extracted",
        "verifier",
        "correct",
        "unreadable",
    ]
    .map(str::to_string);
    let first = row.saturating_sub(NEAR);
    let part = ReadSlice { offset: first as usize, limit: Some(2 * NEAR as usize), columns: Some(&columns) };
    let mut members = Vec::new();
    let mut at = first;
    for batch in BatchReader::open_part(table, &part)? {
        for other in decode_part::<Trajectory>(table.path(), &batch?)? {
            let is_member = other.group == rollout.group
                && other.update == rollout.update
                && other.problem_id == rollout.problem_id;
            if is_member && members.len() < MEMBERS {
                members.push(ForkMember::of(at, &other));
            }
            at += 1;
        }
    }
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_count_sampled_tokens() {
        let rollout =
            Trajectory { loss_mask: vec![false, true, false, true, true], restarts: vec![2], ..Trajectory::default() };
        let expected = [ContextRow { tokens: 0..2, sampled: 1 }, ContextRow { tokens: 2..5, sampled: 2 }];
        assert_eq!(contexts(&rollout), expected);
        let damaged = Trajectory { restarts: vec![4, 1, 99], ..rollout };
        assert_eq!(contexts(&damaged).iter().map(|context| context.tokens.len()).sum::<usize>(), 5);
        assert!(contexts(&Trajectory::default()).is_empty());
    }

    #[test]
    fn parts_have_names() {
        for part in [MessagePart::Content, MessagePart::Reasoning, MessagePart::Calls] {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert!("x".parse::<MessagePart>().is_err());
    }
}
