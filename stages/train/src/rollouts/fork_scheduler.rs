//! Schedules groups whose sequences may fork: records which sequences are alive and which wait, and queries the
//! strategy.
//!
//! A strategy shares a budget among the sequences of a group, and its decisions must not depend on the duration of tool
//! calls. Sequences that have sampled a turn therefore wait until all living sequences of their group have. The
//! strategy is then queried in order of sample numbers.

use super::job::{EpisodeJob, EpisodeStart};
use super::live_episode::{LiveEpisode, WaitingEpisodes};
use std::collections::BTreeMap;
use trainyard_core::Chance;
use trainyard_learn::{GroupBudget, LiveSequence, Strategy, StrategyAction};

/// Groups of one call and their strategy.
pub struct ForkScheduler<'a> {
    strategy: &'a mut dyn Strategy,
    chance: Chance,
    budget: u32,
    groups: BTreeMap<u32, ForkGroup<'a>>,
}

#[derive(Default)]
struct ForkGroup<'a> {
    started: u32,
    done: u32,
    parked: WaitingEpisodes<'a>,
    /// Job of an additional sequence from the root.
    root: EpisodeJob,
}

impl<'a> ForkScheduler<'a> {
    /// Creates the state of one call; `size` = group size.
    pub fn new(strategy: &'a mut dyn Strategy, size: u32, chance: Chance) -> Self {
        let budget = strategy.max_sequences(size);
        Self { strategy, chance, budget, groups: BTreeMap::new() }
    }
    pub(super) fn started(&mut self, job: &EpisodeJob) {
        let members = self.groups.entry(job.group).or_default();
        members.started += 1;
        members.root = EpisodeJob { start: EpisodeStart::Root, scaffold: String::new(), ..job.clone() };
    }
    pub(super) fn park(&mut self, live: Box<LiveEpisode<'a>>) {
        self.groups.entry(live.job.group).or_default().parked.push(live);
    }
    /// Counts the sequences that wait for others of their group.
    pub(super) fn parked(&self) -> usize {
        self.groups.values().map(|m| m.parked.len()).sum()
    }
    /// Takes the living sequences of a group, sorted by sample number, if all of them wait; else returns `None`.
    pub(super) fn all_parked(&mut self, group: u32) -> Option<WaitingEpisodes<'a>> {
        let members = self.groups.get_mut(&group)?;
        let living = members.started - members.done;
        if living == 0 || (members.parked.len() as u32) < living {
            return None;
        }
        let mut parked = std::mem::take(&mut members.parked);
        parked.sort_by_key(|live| live.job.sample);
        Some(parked)
    }
    pub(super) fn decide(&mut self, group: u32, live: &LiveSequence) -> StrategyAction {
        let view = self.view(group);
        let place = [group.into(), live.sample.into(), live.turn.into()];
        self.strategy.at_turn(live, &view, &self.chance.child("turn", &place))
    }
    /// Reserves the sample number of an additional sequence, or returns `None` if the budget is used up.
    pub(super) fn reserve_sample(&mut self, group: u32) -> Option<u32> {
        let members = self.groups.get_mut(&group)?;
        if members.started >= self.budget {
            return None;
        }
        members.started += 1;
        Some(members.started - 1)
    }
    /// Records the end of a sequence. After the last sequence of a group, returns the jobs of the sequences that the
    /// strategy adds from the root.
    pub(super) fn member_ended(&mut self, group: u32) -> Vec<EpisodeJob> {
        let Some(members) = self.groups.get_mut(&group) else { return Vec::new() };
        members.done += 1;
        if members.done < members.started {
            return Vec::new();
        }
        let (first, root) = (members.started, members.root.clone());
        let more = self.strategy.refill(group as usize, &self.view(group)).min(self.budget.saturating_sub(first));
        (0..more).map(|i| EpisodeJob { sample: first + i, ..root.clone() }).collect()
    }
    fn view(&self, group: u32) -> GroupBudget {
        let started = self.groups.get(&group).map_or(0, |m| m.started);
        GroupBudget { started, budget: self.budget }
    }
}
