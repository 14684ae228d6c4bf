//! Implements `shared_prefix` (ARPO's hard attribution), which gives tokens that rollouts share through forks the mean
//! advantage of all rollouts that contain them.
//!
//! A token before a fork is part of every branch, so its credit is not the outcome of one branch (2507.19849). The soft
//! form needs no part: with equal ratios, the sum over the copies of a shared token equals that of the means. Only
//! forks share tokens; equal tokens of separate rollouts are not shared.

use crate::batch::{Batch, Rollout, TokenGrid};
use crate::part::{Modulation, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, Reduce};

/// `shared_prefix` has no options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SharedPrefix {
    /// Metric of the last batch; `None` without tokens in the loss.
    #[serde(skip)]
    last_share: Option<f64>,
}

impl PartOptions for SharedPrefix {
    const KIND: &'static str = "shared_prefix";
    const SUMMARY: &'static str = "tokens shared through forks get the mean advantage of their rollouts (ARPO, hard)";
    const DOC: &'static str = "A fork shares its tokens before `fork_at` with the rollout it was forked from, and\n\
        with that rollout's ancestors as far as they share them in turn. A of a shared token ← mean of A over all\n\
        rollouts of the group that have it in the loss; the sum over them does not change. If a parent left the group\n\
        (dropped by a filter or a selection), its forks still share with each other, but not with its ancestors.\n\
        Needs forks and groups. Source: 2507.19849.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("share", "share", "Share of the tokens in the loss that several rollouts hold.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("shared_prefix_share"),
        ]
    }
}

impl RlPart for SharedPrefix {
    fn needs(&self) -> Needs {
        Needs { fork: true, groups: true, ..Needs::NONE }
    }
}

impl Modulation for SharedPrefix {
    fn apply(&mut self, batch: &Batch, advantages: &mut TokenGrid) {
        let (mut shared, mut all) = (0usize, 0usize);
        let mut rest = advantages.as_mut_slice();
        for group in &batch.groups {
            let (rows, after) = std::mem::take(&mut rest).split_at_mut(group.rollouts.len());
            rest = after;
            shared += attribute(&group.rollouts, rows);
            all += group.rollouts.iter().map(Rollout::loss_tokens).sum::<usize>();
        }
        self.last_share = if all > 0 { Some(shared as f64 / all as f64) } else { None };
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.last_share.map(|s| ("share", s)).into_iter().collect()
    }
}

/// Sets the shared tokens of one group to their mean advantage. Returns the number of tokens in the loss that are
/// shared.
fn attribute(rollouts: &[Rollout], rows: &mut [Vec<f64>]) -> usize {
    let family: BTreeMap<u32, &Rollout> = rollouts.iter().map(|r| (r.trajectory.sample, r)).collect();
    // Sample that created the token, and its place → every copy of it.
    let mut copies: BTreeMap<(u32, usize), Vec<usize>> = BTreeMap::new();
    for (i, rollout) in rollouts.iter().enumerate() {
        for t in (0..rollout.mask.len()).filter(|&t| rollout.mask[t]) {
            copies.entry((origin_sample(&family, rollout, t), t)).or_default().push(i);
        }
    }
    let mut shared = 0;
    for ((_, t), holders) in copies.into_iter().filter(|(_, holders)| holders.len() > 1) {
        let mean = holders.iter().map(|&i| rows[i][t]).sum::<f64>() / holders.len() as f64;
        for &i in &holders {
            rows[i][t] = mean;
        }
        shared += holders.len();
    }
    shared
}

/// Returns the sample for which token `t` of a rollout was first sampled.
fn origin_sample(family: &BTreeMap<u32, &Rollout>, rollout: &Rollout, t: usize) -> u32 {
    let mut sample = rollout.trajectory.sample;
    let mut at = Some(rollout);
    // No ancestry is longer than the group, so records that form a cycle terminate, too.
    for _ in 0..family.len() {
        match at.and_then(|r| r.fork_of.zip(r.trajectory.fork_at)) {
            Some((parent, first)) if t < first as usize => {
                sample = parent;
                at = family.get(&parent).copied();
            }
            _ => break,
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Group;
    use trainyard_tables::Trajectory;

    /// Returns a rollout of a prompt token and five sampled ones.
    fn rollout(sample: u32, fork: Option<(u32, usize)>) -> Rollout {
        Rollout {
            trajectory: Trajectory { sample, fork_at: fork.map(|f| f.1 as u32), ..Trajectory::default() },
            fork_of: fork.map(|f| f.0),
            mask: vec![false, true, true, true, true, true],
            ..Rollout::default()
        }
    }
    fn batch(groups: Vec<Vec<Rollout>>) -> Batch {
        Batch { step: 0, groups: groups.into_iter().map(|rollouts| Group { rollouts, ..Group::default() }).collect() }
    }
    fn nested() -> Vec<Rollout> {
        vec![rollout(0, None), rollout(1, Some((0, 3))), rollout(2, Some((1, 5)))]
    }

    #[test]
    fn nested_forks_match_hand_computation() {
        let batch = batch(vec![nested()]);
        let mut a = batch.spread(&[3.0, 0.0, -6.0]);
        let mut part = SharedPrefix::default();
        part.apply(&batch, &mut a);
        // Tokens 1 and 2 belong to all three, 3 and 4 to the forks, 5 to each alone.
        let expected =
            [[0.0, -1.0, -1.0, 3.0, 3.0, 3.0], [0.0, -1.0, -1.0, -3.0, -3.0, 0.0], [0.0, -1.0, -1.0, -3.0, -3.0, -6.0]];
        assert_eq!(a, expected);
        assert_eq!(a.iter().flatten().sum::<f64>(), 5.0 * (3.0 + 0.0 - 6.0), "the sum does not change");
        assert_eq!(part.metrics(), [("share", 10.0 / 15.0)]);
    }

    #[test]
    fn groups_and_roots_share_nothing() {
        let batch = batch(vec![nested(), vec![rollout(0, None), rollout(1, None)]]);
        let mut a = batch.spread(&[0.0, 0.0, 0.0, 2.0, -2.0]);
        let mut part = SharedPrefix::default();
        part.apply(&batch, &mut a);
        assert_eq!(a, batch.spread(&[0.0, 0.0, 0.0, 2.0, -2.0]));
        assert_eq!(part.metrics(), [("share", 10.0 / 25.0)]);
    }

    #[test]
    fn tokens_outside_the_loss_are_not_shared() {
        let mut group = nested();
        group[1].mask[2] = false;
        let batch = batch(vec![group]);
        let mut a = batch.spread(&[3.0, 0.0, -6.0]);
        SharedPrefix::default().apply(&batch, &mut a);
        assert_eq!([a[0][2], a[1][2], a[2][2]], [-1.5, 0.0, -1.5]);
        assert_eq!([a[0][1], a[1][1], a[2][1]], [-1.0; 3]);
    }

    #[test]
    fn forks_of_a_dropped_parent_still_share() {
        let batch = batch(vec![vec![rollout(0, None), rollout(2, Some((1, 5))), rollout(3, Some((1, 4)))]]);
        let mut a = batch.spread(&[3.0, 1.0, -1.0]);
        SharedPrefix::default().apply(&batch, &mut a);
        assert_eq!(a[0], [0.0, 3.0, 3.0, 3.0, 3.0, 3.0]);
        assert_eq!(a[1], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        assert_eq!(a[2], [0.0, 0.0, 0.0, 0.0, -1.0, -1.0]);
    }

    #[test]
    fn cyclic_forks_terminate() {
        let batch = batch(vec![vec![rollout(0, Some((1, 9))), rollout(1, Some((0, 9)))]]);
        let mut a = batch.spread(&[1.0, 0.0]);
        SharedPrefix::default().apply(&batch, &mut a);
        assert!(a.iter().flatten().all(|x| x.is_finite()));
    }
}
