//! Arranges the rollouts of a group as trees of forks.

use std::collections::{BTreeMap, BTreeSet};
use trainyard_tables::{AnswerVerdict, Trajectory};

/// Rollout in a tree of forks.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ForkMember {
    /// Number of the row, from 0.
    pub row: u64,
    /// Id of the row.
    pub id: String,
    /// Index within the group.
    pub sample: u32,
    /// Id of the rollout that it was forked from.
    pub fork_of: Option<String>,
    /// Index of the first token after the fork.
    pub fork_at: Option<u32>,
    /// Weighted sum of the reward's components.
    pub reward: f64,
    /// Verdict on the answer.
    pub verdict: AnswerVerdict,
}

/// Rollout with the rollouts that were forked from it.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkNode {
    /// The rollout.
    pub member: ForkMember,
    /// Rollouts forked from it, in the order of their forks.
    pub forks: Vec<Self>,
}

impl ForkMember {
    /// Returns the member of a row.
    pub(super) fn of(row: u64, rollout: &Trajectory) -> Self {
        let check = rollout.answer_check.as_ref();
        Self {
            row,
            id: rollout.id.clone(),
            sample: rollout.sample,
            fork_of: rollout.fork_of.clone(),
            fork_at: rollout.fork_at,
            reward: rollout.reward,
            verdict: AnswerVerdict::of(
                check.map(|check| check.correct),
                check.is_some_and(|check| check.unreadable.is_some()),
            ),
        }
    }
}

/// Arranges members as trees. A fork whose source is not among them is a root. Returns an empty list if there are no
/// forks.
pub(super) fn trees(members: Vec<ForkMember>) -> Vec<ForkNode> {
    if members.iter().all(|member| member.fork_of.is_none()) {
        return Vec::new();
    }
    let ids: BTreeSet<String> = members.iter().map(|member| member.id.clone()).collect();
    let (mut roots, mut forks) = (Vec::new(), BTreeMap::<String, Vec<ForkMember>>::new());
    for member in members {
        match member.fork_of.clone().filter(|source| ids.contains(source) && *source != member.id) {
            Some(source) => forks.entry(source).or_default().push(member),
            None => roots.push(member),
        }
    }
    let mut nodes: Vec<ForkNode> = roots.into_iter().map(|root| node(root, &mut forks)).collect();
    // A circle of forks has no root: begin it anywhere.
    while let Some((source, mut circle)) = forks.pop_first() {
        let first = circle.remove(0);
        if !circle.is_empty() {
            forks.insert(source, circle);
        }
        nodes.push(node(first, &mut forks));
    }
    nodes
}

/// Moves the forks of a member out of the map, so each is taken once.
fn node(member: ForkMember, forks: &mut BTreeMap<String, Vec<ForkMember>>) -> ForkNode {
    let mut own = forks.remove(&member.id).unwrap_or_default();
    own.sort_by_key(|fork| (fork.fork_at, fork.row));
    let forks = own.into_iter().map(|fork| node(fork, forks)).collect();
    ForkNode { member, forks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, source: Option<&str>, at: u32) -> ForkMember {
        let fork_of = source.map(str::to_string);
        ForkMember { id: id.into(), fork_of, fork_at: Some(at), ..ForkMember::default() }
    }

    fn outline(nodes: &[ForkNode]) -> String {
        let one = |node: &ForkNode| match node.forks.is_empty() {
            true => node.member.id.clone(),
            false => format!("{}({})", node.member.id, outline(&node.forks)),
        };
        nodes.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn forks_are_below_their_source_in_the_order_of_tokens() {
        let members = vec![
            member("a", None, 0),
            member("b", Some("a"), 9),
            member("c", Some("a"), 4),
            member("d", Some("b"), 12),
        ];
        assert_eq!(outline(&trees(members)), "a(c b(d))");
        let absent = vec![member("x", Some("gone"), 3), member("y", None, 0)];
        assert_eq!(outline(&trees(absent)), "x y");
        assert!(trees(vec![member("a", None, 0)]).is_empty(), "no forks");
    }

    #[test]
    fn circles_end() {
        let circle = vec![member("a", Some("b"), 1), member("b", Some("a"), 1), member("c", Some("c"), 1)];
        let found = trees(circle);
        assert_eq!(outline(&found), "c b(a)");
    }
}
