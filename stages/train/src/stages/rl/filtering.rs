//! Applies filters to rollouts and records their verdicts, under names that identify the filters.

use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_learn::{Filter, Group, Rollout, RolloutVerdict};
use trainyard_tables::Verdict;

/// Returns the name of every part of a list in recorded verdicts: its kind, with `_2`, `_3` … if a kind is repeated.
pub fn rule_names(parts: &[Value]) -> Vec<String> {
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let name = |part| {
        let kind = kind_of(part);
        let count = seen.entry(kind).or_default();
        *count += 1;
        if *count == 1 { kind.to_string() } else { format!("{kind}_{count}") }
    };
    parts.iter().map(name).collect()
}

/// Returns the kind of a part: `{kind: void_turn, …}` or `void_turn`.
pub fn kind_of(part: &Value) -> &str {
    part.as_str().or_else(|| part["kind"].as_str()).unwrap_or("unknown")
}

/// Records that the strategy did not select a rollout.
pub fn not_selected(rollout: &mut Rollout, strategy: &str) {
    let reason = "not selected by the strategy".to_string();
    rollout.trajectory.verdicts.push(Verdict { rule: strategy.to_string(), keep: false, reason });
}

/// Applies the filters in order; a later filter sees only the rollouts left by the earlier ones. Records every
/// objection in the rollout, and moves dropped rollouts to `dropped`. Returns the number of groups emptied by filters
/// that do not request a replacement.
pub fn filter(
    groups: &mut [Group],
    filters: &mut [Box<dyn Filter>],
    names: &[String],
    dropped: &mut Vec<Rollout>,
) -> usize {
    let mut emptied = 0;
    for (part, name) in filters.iter_mut().zip(names) {
        let verdicts = part.judge(groups);
        for (group, verdicts) in groups.iter_mut().zip(verdicts) {
            let had = !group.rollouts.is_empty();
            for (mut rollout, verdict) in std::mem::take(&mut group.rollouts).into_iter().zip(verdicts) {
                let list = if apply(&mut rollout, verdict, name) { &mut group.rollouts } else { &mut *dropped };
                list.push(rollout);
            }
            emptied += usize::from(had && group.rollouts.is_empty() && !part.resamples());
        }
    }
    emptied
}

/// Records a judgment and applies its mask. Returns false if the rollout is dropped.
fn apply(rollout: &mut Rollout, judgment: RolloutVerdict, name: &str) -> bool {
    let (keep, reason) = match judgment {
        RolloutVerdict::Keep => return true,
        RolloutVerdict::Drop(reason) => (false, reason),
        RolloutVerdict::Mask(ranges, reason) => {
            for (first, end) in ranges {
                let end = end.min(rollout.mask.len());
                rollout.mask[first.min(end)..end].fill(false);
            }
            (true, reason)
        }
    };
    if !reason.is_empty() {
        rollout.trajectory.verdicts.push(Verdict { rule: name.to_string(), keep, reason });
    }
    keep
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_learn::RlPart;
    use trainyard_tables::Trajectory;

    #[test]
    fn repeated_kinds_get_numbered_names() {
        let parts = [json!({"kind": "void_turn"}), json!("overlong"), json!({"kind": "void_turn", "action": "mask"})];
        assert_eq!(rule_names(&parts), ["void_turn", "overlong", "void_turn_2"]);
    }

    /// Filter that drops the rollouts of one sample and masks the first token of the others.
    struct DropSample(u32);
    impl RlPart for DropSample {}
    impl Filter for DropSample {
        fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
            let judge = |r: &Rollout| {
                if r.trajectory.sample == self.0 {
                    RolloutVerdict::Drop(format!("it is sample {}", self.0))
                } else {
                    RolloutVerdict::Mask(vec![(0, 1)], "its first token".into())
                }
            };
            groups.iter().map(|g| g.rollouts.iter().map(judge).collect()).collect()
        }
        fn resamples(&self) -> bool {
            self.0 != 1
        }
    }

    #[test]
    fn verdicts_are_recorded_on_rollouts() {
        let rollout = |sample| Rollout::new(Trajectory { sample, loss_mask: vec![true; 2], ..Trajectory::default() });
        let mut groups = [Group { rollouts: vec![rollout(0), rollout(1)], ..Group::default() }];
        let mut filters: Vec<Box<dyn Filter>> = vec![Box::new(DropSample(0)), Box::new(DropSample(1))];
        let mut dropped = Vec::new();
        let names = rule_names(&[json!("a"), json!("a")]);
        assert_eq!(filter(&mut groups, &mut filters, &names, &mut dropped), 1, "the second filter emptied the group");
        assert!(groups[0].rollouts.is_empty());
        let rules = |r: &Rollout| -> Vec<(String, bool)> {
            r.trajectory.verdicts.iter().map(|v| (v.rule.clone(), v.keep)).collect()
        };
        assert_eq!(rules(&dropped[0]), [("a".to_string(), false)]);
        assert_eq!(rules(&dropped[1]), [("a".to_string(), true), ("a_2".to_string(), false)]);
        assert_eq!(
            (dropped[1].mask.as_slice(), dropped[1].trajectory.loss_mask.as_slice()),
            (&[false, true][..], &[true; 2][..])
        );
    }
}
