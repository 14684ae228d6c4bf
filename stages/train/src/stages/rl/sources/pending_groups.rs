//! Chooses the next ended group such that no group exceeds the maximum staleness.

use std::collections::{BTreeMap, VecDeque};
use trainyard_learn::Rollout;

/// Groups that were started and are not used yet.
#[derive(Default)]
pub struct PendingGroups {
    /// Number → the step that started it.
    pub started: BTreeMap<u32, u64>,
    /// Ended groups among them, in order of arrival.
    pub ended: VecDeque<Vec<Rollout>>,
}

impl PendingGroups {
    /// Takes the next of the ended groups. Some groups must be used by a certain step. If there are as many such open
    /// groups as positions until that step (`places` in this step, `groups_per_step` in each later one), only these
    /// groups may be used: the loop waits for slow groups and does not leave them out. Returns `None` if no ended group
    /// may be used.
    pub fn next(
        &mut self,
        step: u64,
        max_staleness: u64,
        places: usize,
        groups_per_step: usize,
    ) -> Option<Vec<Rollout>> {
        let due = |started: u64, by: u64| started + max_staleness <= by;
        let tight = |ahead: &u64| {
            let due_by_then = self.started.values().filter(|started| due(**started, step + ahead)).count();
            due_by_then >= places + groups_per_step * *ahead as usize
        };
        let by = (0..=max_staleness).find(tight).map(|ahead| step + ahead);
        let group_of = |members: &[Rollout]| members.first().map_or(0, |m| m.trajectory.group);
        let may = |number: u32| by.is_none_or(|by| self.started.get(&number).is_some_and(|started| due(*started, by)));
        let at = self.ended.iter().position(|members| may(group_of(members)))?;
        let members = self.ended.remove(at)?;
        self.started.remove(&group_of(&members));
        Some(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Trajectory;

    fn ended(group: u32) -> Vec<Rollout> {
        vec![Rollout { trajectory: Trajectory { group, ..Trajectory::default() }, ..Rollout::default() }]
    }

    #[test]
    fn slow_groups_keep_their_places() {
        // Two groups of step 0 still run; both must be used by step 2, one per step, so step 1 may use no other group.
        let mut intake = PendingGroups { started: [(0, 0), (1, 0), (2, 1)].into(), ended: [ended(2)].into() };
        assert!(intake.next(1, 2, 1, 1).is_none());
        intake.ended.push_back(ended(1));
        assert_eq!(intake.next(1, 2, 1, 1), Some(ended(1)), "the newer one waits");
        assert!(intake.next(2, 2, 1, 1).is_none(), "the last one of step 0 is due");
        intake.ended.push_back(ended(0));
        assert_eq!(intake.next(2, 2, 1, 1), Some(ended(0)));
        assert_eq!(intake.next(3, 2, 1, 1), Some(ended(2)));
    }

    #[test]
    fn groups_that_have_time_are_used_in_order_of_arrival() {
        let mut intake = PendingGroups { started: [(0, 0), (1, 0)].into(), ended: [ended(1)].into() };
        assert_eq!(intake.next(0, 2, 2, 2), Some(ended(1)));
    }
}
