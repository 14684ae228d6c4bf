//! Reads the rollouts of one problem that share a baseline.

use super::forks::{ForkMember, ForkNode, trees};
use super::reading::{BATCH, blocking, first_line, open};
use crate::find::ResolvedOutput;
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::{
    AnswerVerdict, ChosenRows, RolloutFacts, TableSource, Trajectory, decode_part, read_facts, row_count,
};

/// Maximum members that are read.
const MEMBERS: usize = 64;
/// Maximum groups of the same number that are listed.
const CHOICES: usize = 200;
/// Rows read at a time.
const PART: u64 = 100_000;
/// Rows before and after a row among which its group is looked for.
const NEAR: u64 = 2_000;
/// Maximum characters of a member's last message.
const TEXT: usize = 2_000;
/// Columns of a member.
const COLUMNS: [&str; 24] = [
    "id",
    "problem_id",
    "group",
    "sample",
    "loss_mask",
    "advantages",
    "fork_of",
    "fork_at",
    "messages",
    "rewards",
    "reward",
    "stop_reason",
    "status",
    "turns",
    "tool_errors",
    "answer",
    "level",
    "verdicts",
    "update",
    "expected",
    "extracted",
    "verifier",
    "correct",
    "unreadable",
];

/// Selects a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupQuery {
    /// Number of the group.
    pub group: u32,
    /// Number of the update; with several updates, `None` lists the groups.
    pub step: Option<u32>,
    /// Id of the problem.
    pub problem: Option<String>,
    /// Row near which the group is; `None` examines all rows.
    pub near: Option<u64>,
}

/// Rollouts of one problem that share a baseline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutGroup {
    /// Groups that the query selects, at most 200; members are read if there is one.
    pub choices: Vec<GroupChoice>,
    /// Number of further groups.
    pub more_choices: usize,
    /// Members, at most 64.
    pub members: Vec<GroupMember>,
    /// Number of further members.
    pub more_members: usize,
    /// Trees of forks; empty without forks.
    pub forks: Vec<ForkNode>,
    /// Examined rows.
    pub examined: Range<u64>,
    /// Number of rows of the table.
    pub total: u64,
}

/// Group of a table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupChoice {
    /// Number of the update.
    pub step: Option<u32>,
    /// Id of the problem.
    pub problem_id: String,
    /// Numbers of the rows, in the order of the table.
    pub rows: Vec<u64>,
}

/// Rollout of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupMember {
    /// Number of the row, from 0.
    pub row: u64,
    /// The rollout, without messages and values of tokens.
    pub rollout: Trajectory,
    /// Verdict on the answer.
    pub verdict: AnswerVerdict,
    /// Number of sampled tokens.
    pub sampled: usize,
    /// Advantages of the sampled tokens; `None` before an update used the row.
    pub advantage: Option<AdvantageRange>,
    /// First line of the problem.
    pub problem: String,
    /// Beginning of the last message, and the number of characters after it.
    pub last: (String, usize),
}

/// Advantages of the sampled tokens of a rollout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdvantageRange {
    /// Mean.
    pub mean: f64,
    /// Least advantage.
    pub low: f64,
    /// Greatest advantage.
    pub high: f64,
}

impl GroupMember {
    /// Returns whether a filter dropped the rollout.
    pub fn is_dropped(&self) -> bool {
        self.rollout.verdicts.iter().any(|verdict| !verdict.keep)
    }
}

/// Reads a group. Errors: invalid (not trajectories, no such group), data (a damaged table), those of the store.
pub async fn group(store: &Store, artifact: &str, found: &ResolvedOutput, query: GroupQuery) -> Result<RolloutGroup> {
    let table = open(store, artifact, found).await?;
    let artifact = artifact.to_string();
    blocking(move || {
        let group = read(&table, &query)?;
        if group.choices.is_empty() {
            let Range { start, end } = group.examined;
            return Err(Error::invalid(format!(
                "{artifact} has no group {} in its rows {start} to {end}",
                query.group
            ))
            .help("open the group from one of its rollouts"));
        }
        Ok(group)
    })
    .await
}

fn read(table: &TableSource, query: &GroupQuery) -> Result<RolloutGroup> {
    let total = row_count(table)?;
    let examined = match query.near {
        Some(row) => row.saturating_sub(NEAR).min(total)..row.saturating_add(NEAR).min(total),
        None => 0..total,
    };
    let mut choices = choices(table, examined.clone(), query)?;
    let more_choices = choices.len().saturating_sub(CHOICES);
    choices.truncate(CHOICES);
    let mut group = RolloutGroup { more_choices, examined, total, ..RolloutGroup::default() };
    if let [one] = choices.as_slice() {
        group.more_members = one.rows.len().saturating_sub(MEMBERS);
        group.members = members(table, &one.rows[..one.rows.len().min(MEMBERS)])?;
        group.members.sort_by_key(|member| (member.rollout.sample, member.row));
        group.forks = trees(group.members.iter().map(|member| ForkMember::of(member.row, &member.rollout)).collect());
    }
    group.choices = choices;
    Ok(group)
}

/// Returns the groups that a query selects, by update and problem.
fn choices(table: &TableSource, examined: Range<u64>, query: &GroupQuery) -> Result<Vec<GroupChoice>> {
    let mut found = BTreeMap::<(Option<u32>, String), Vec<u64>>::new();
    let mut start = examined.start;
    while start < examined.end {
        let end = start.saturating_add(PART).min(examined.end);
        let facts = read_facts(table, start..end, false)?;
        let is_selected = |row: &&RolloutFacts| {
            let problem = &facts.problems[row.problem as usize];
            row.group == query.group
                && query.step.is_none_or(|step| row.update == Some(step))
                && query.problem.as_ref().is_none_or(|wanted| wanted == problem)
        };
        for row in facts.rows.iter().filter(is_selected) {
            let key = (row.update, facts.problems[row.problem as usize].clone());
            found.entry(key).or_default().push(row.row);
        }
        start = end;
    }
    Ok(found.into_iter().map(|((step, problem_id), rows)| GroupChoice { step, problem_id, rows }).collect())
}

fn members(table: &TableSource, rows: &[u64]) -> Result<Vec<GroupMember>> {
    let mut members = Vec::with_capacity(rows.len());
    let mut left = rows.iter().copied();
    for batch in ChosenRows::open(table, &COLUMNS, rows, BATCH)? {
        for rollout in decode_part::<Trajectory>(table.path(), &batch?)? {
            members.extend(left.next().map(|row| member(row, rollout)));
        }
    }
    Ok(members)
}

fn member(row: u64, mut rollout: Trajectory) -> GroupMember {
    let messages = std::mem::take(&mut rollout.messages);
    let (mask, advantages) = (std::mem::take(&mut rollout.loss_mask), rollout.advantages.take());
    let question = messages.iter().find(|message| message.role == "user").map_or("", |message| &message.content);
    let last = messages.last().map_or("", |message| &message.content);
    GroupMember {
        row,
        verdict: ForkMember::of(row, &rollout).verdict,
        sampled: mask.iter().filter(|is_sampled| **is_sampled).count(),
        advantage: advantages.and_then(|advantages| advantage_range(&advantages, &mask)),
        problem: first_line(question, 300),
        last: beginning(last, TEXT),
        rollout,
    }
}

fn advantage_range(advantages: &[f32], mask: &[bool]) -> Option<AdvantageRange> {
    let sampled = || advantages.iter().zip(mask).filter(|(_, is_sampled)| **is_sampled).map(|(a, _)| f64::from(*a));
    let count = sampled().count();
    let (low, high) =
        sampled().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), a| (f64::min(low, a), f64::max(high, a)));
    (count > 0).then(|| AdvantageRange { mean: sampled().sum::<f64>() / count as f64, low, high })
}

/// Returns the first characters of a text, and the number of those after them.
fn beginning(text: &str, limit: usize) -> (String, usize) {
    match text.char_indices().nth(limit) {
        Some((end, _)) => (text[..end].to_string(), text[end..].chars().count()),
        None => (text.to_string(), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advantages_are_those_of_sampled_tokens() {
        let found = advantage_range(&[9.0, 1.0, -2.0, 0.0], &[false, true, true, false]).unwrap();
        assert_eq!((found.mean, found.low, found.high), (-0.5, -2.0, 1.0));
        assert_eq!(advantage_range(&[9.0], &[false]), None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(beginning("äöü", 2), ("äö".to_string(), 1));
        assert_eq!(beginning("ä", 2), ("ä".to_string(), 0));
    }
}
