//! Decides which request that waits for this machine goes first. The decision is a pure function of the holdings and
//! the waiting requests.
//!
//! The user with the smallest holding goes first, then the run with the smallest, then the longest wait. A request that
//! does not fit is passed over for a while, to avoid idle resources; after [`RESERVE_AFTER`] its resources are
//! reserved, so that small requests do not starve a large one, and after [`PRIORITY_AFTER`] it goes before all others,
//! so that an endless sequence of new runs does not starve a run with a large holding.

use super::record::SlotRecord;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trainyard_engine::PoolMachine;

/// How long others may pass a request that does not fit.
const RESERVE_AFTER: Duration = Duration::from_secs(30);
/// Wait after which a request goes before all others.
const PRIORITY_AFTER: Duration = Duration::from_secs(600);
/// Shares are counted in millionths of the machine.
const WHOLE: u64 = 1_000_000;

/// Remaining resources of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FreeResources {
    cpus: u32,
    /// `u64::MAX` if the total is unknown.
    memory: u64,
    gpus: BTreeSet<u32>,
}

impl FreeResources {
    fn of(machine: &PoolMachine, held: &[SlotRecord]) -> Self {
        let memory = if machine.memory == 0 { u64::MAX } else { machine.memory };
        let mut free = Self { cpus: machine.cpus, memory, gpus: machine.gpus.iter().map(|gpu| gpu.index).collect() };
        held.iter().for_each(|holding| free.take(holding));
        free
    }
    fn take(&mut self, request: &SlotRecord) {
        self.cpus = self.cpus.saturating_sub(request.cpus);
        if self.memory != u64::MAX {
            self.memory = self.memory.saturating_sub(request.memory);
        }
        self.gpus.retain(|gpu| !request.gpus.contains(gpu));
    }
    fn fits(&self, request: &SlotRecord) -> bool {
        request.cpus <= self.cpus
            && request.memory <= self.memory
            && request.gpus.iter().all(|gpu| self.gpus.contains(gpu))
    }
}

/// Returns whether `request`, which `line` does not contain, may be taken now: it must fit into the resources that the
/// requests before it leave.
pub(super) fn may_take(
    machine: &PoolMachine,
    held: &[SlotRecord],
    line: &[SlotRecord],
    request: &SlotRecord,
    now: i64,
) -> bool {
    let shares = UsageShares::of(machine, held);
    let mut free = FreeResources::of(machine, held);
    let rank = shares.rank(request, now);
    let mut earlier: Vec<&SlotRecord> = line.iter().filter(|other| shares.rank(other, now) < rank).collect();
    earlier.sort_by_key(|other| shares.rank(other, now));
    for other in earlier {
        if free.fits(other) || waited(other, now) >= RESERVE_AFTER {
            free.take(other);
        }
    }
    free.fits(request)
}

/// Holdings of users and runs, in millionths of the machine.
struct UsageShares<'a> {
    users: BTreeMap<u32, u64>,
    runs: BTreeMap<&'a str, u64>,
}

impl<'a> UsageShares<'a> {
    fn of(machine: &PoolMachine, held: &'a [SlotRecord]) -> Self {
        Self {
            users: shares(machine, held, |holding| holding.holder.user),
            runs: shares(machine, held, |holding| holding.holder.run.as_str()),
        }
    }
    /// Returns the position in line as a sort key: first the requests that waited for [`PRIORITY_AFTER`], oldest first,
    /// then all others by the user's holding, the run's holding and the start of the wait.
    fn rank(&self, request: &SlotRecord, now: i64) -> (Reverse<bool>, u64, u64, i64) {
        if waited(request, now) >= PRIORITY_AFTER {
            return (Reverse(true), 0, 0, request.since);
        }
        let user = self.users.get(&request.holder.user).copied().unwrap_or(0);
        let run = self.runs.get(request.holder.run.as_str()).copied().unwrap_or(0);
        (Reverse(false), user, run, request.since)
    }
}

fn waited(request: &SlotRecord, now: i64) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(request.since)).unwrap_or(0))
}

/// Returns the holding of each user or run: the largest of its fractions of CPUs, memory and GPUs.
fn shares<'a, K: Ord>(
    machine: &PoolMachine,
    held: &'a [SlotRecord],
    whose: impl Fn(&'a SlotRecord) -> K,
) -> BTreeMap<K, u64> {
    let mut sums: BTreeMap<K, (u64, u64, u64)> = BTreeMap::new();
    for holding in held {
        let sum = sums.entry(whose(holding)).or_default();
        sum.0 += u64::from(holding.cpus);
        sum.1 = sum.1.saturating_add(holding.memory);
        sum.2 += holding.gpus.len() as u64;
    }
    let part = |held: u64, of: u64| {
        let millionths = u128::from(held) * u128::from(WHOLE) / u128::from(of.max(1));
        if of == 0 { 0 } else { u64::try_from(millionths).unwrap_or(u64::MAX) }
    };
    let (cpus, memory, gpus) = (u64::from(machine.cpus), machine.memory, machine.gpus.len() as u64);
    let largest = |(c, m, g): (u64, u64, u64)| part(c, cpus).max(part(m, memory)).max(part(g, gpus));
    sums.into_iter().map(|(whose, sum)| (whose, largest(sum))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::record::SlotHolder;
    use super::*;
    use proptest::prelude::*;
    use trainyard_core::Chance;

    fn machine(cpus: u32) -> PoolMachine {
        PoolMachine { name: "this".into(), cpus, memory: 0, gpus: Vec::new() }
    }
    fn request(run: &str, cpus: u32, since: i64) -> SlotRecord {
        let holder = SlotHolder { run: run.into(), ..SlotHolder::default() };
        SlotRecord { cpus, holder, since, ..SlotRecord::default() }
    }

    #[test]
    fn run_with_smaller_holding_goes_first() {
        let held = [request("rich", 2, 0), request("poor", 1, 0)];
        let (rich, poor) = (request("rich", 1, 10), request("poor", 1, 20));
        let turn =
            |me: &SlotRecord, other: &SlotRecord| may_take(&machine(4), &held, std::slice::from_ref(other), me, 30);
        assert!(!turn(&rich, &poor) && turn(&poor, &rich), "though the other has waited longer");
        assert!(may_take(&machine(4), &held, &[], &rich, 30), "no other request waits");
        assert!(!may_take(&machine(3), &held, &[], &poor, 30), "there is nothing left");
    }

    #[test]
    fn user_share_is_independent_of_run_count() {
        let of = |user: u32, run: &str, since| {
            let holder = SlotHolder { user, run: run.into(), ..SlotHolder::default() };
            SlotRecord { holder, ..request(run, 1, since) }
        };
        let held = [of(1, "a", 0), of(1, "b", 0), of(2, "c", 0)];
        let (new, poor) = (of(1, "d", 10), of(2, "c", 20));
        let turn =
            |me: &SlotRecord, other: &SlotRecord| may_take(&machine(4), &held, std::slice::from_ref(other), me, 30);
        assert!(!turn(&new, &poor) && turn(&poor, &new), "a new run of the user who holds more comes second");
        assert!(may_take(&machine(4), &held, &[], &new, 30), "no other request waits");
    }

    #[test]
    fn oversized_request_is_passed_over_for_a_limited_time() {
        let held = [request("a", 3, 0)];
        let (large, small) = (request("b", 4, 0), request("c", 1, 5));
        assert!(may_take(&machine(4), &held, std::slice::from_ref(&large), &small, 29_999));
        assert!(!may_take(&machine(4), &held, std::slice::from_ref(&large), &small, 30_000));
    }

    #[test]
    fn gpus_are_requested_by_index() {
        let machine = PoolMachine {
            gpus: (0..2).map(|index| trainyard_engine::Gpu { index, memory: 1 }).collect(),
            ..machine(4)
        };
        let gpu = |index| SlotRecord { gpus: vec![index], ..request("a", 1, 0) };
        assert!(may_take(&machine, &[gpu(0)], &[], &gpu(1), 0));
        assert!(!may_take(&machine, &[gpu(0)], &[], &gpu(0), 0));
    }

    /// Runs that repeatedly request slots; each step ends one attempt or grants one request.
    struct World {
        machine: PoolMachine,
        held: Vec<SlotRecord>,
        line: Vec<SlotRecord>,
        now: i64,
    }

    impl World {
        /// Tries all requests; takes and returns the first whose turn it is.
        fn give(&mut self, order: usize) -> Option<SlotRecord> {
            let count = self.line.len();
            for at in (0..count).map(|at| (at + order) % count.max(1)) {
                let me = self.line[at].clone();
                let others: Vec<SlotRecord> =
                    self.line.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, other)| other.clone()).collect();
                if may_take(&self.machine, &self.held, &others, &me, self.now) {
                    self.line.remove(at);
                    self.held.push(SlotRecord { since: self.now, ..me.clone() });
                    return Some(me);
                }
            }
            None
        }
        fn holds(&self, run: &str) -> usize {
            self.held.iter().filter(|h| h.holder.run == run).count()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Equal runs with more equal attempts than fit: a run that gets a slot while others wait holds at most one
        /// slot more than the smallest holding among the waiting runs.
        #[test]
        fn no_run_exceeds_its_share_while_another_waits(
            seed in any::<u64>(),
            runs in 2usize..6,
            cpus in 2u32..12,
        ) {
            let mut draws = Chance::new(seed).at("line", &[]);
            let names: Vec<String> = (0..runs).map(|n| format!("run-{n}")).collect();
            let mut world = World { machine: machine(cpus), held: Vec::new(), line: Vec::new(), now: 0 };
            for _ in 0..300 {
                world.now += 200;
                for name in &names {
                    // Each run almost always has a waiting request.
                    if draws.below(4) > 0 && !world.line.iter().any(|w| w.holder.run == *name) {
                        world.line.push(request(name, 1, world.now + draws.below(100) as i64));
                    }
                }
                let mut given = Vec::new();
                while let Some(one) = world.give(draws.below(7) as usize) {
                    given.push(one.holder.run);
                }
                // The requests that still wait did not fit.
                if let Some(least) = world.line.iter().map(|w| world.holds(&w.holder.run)).min() {
                    for run in &given {
                        prop_assert!(world.holds(run) <= least + 1, "{run} has {}, another {least}", world.holds(run));
                    }
                }
                if !world.held.is_empty() {
                    let at = draws.below(world.held.len() as u64) as usize;
                    world.held.swap_remove(at);
                }
            }
        }

        /// A request for all resources of the machine gets its turn among an endless sequence of small requests.
        #[test]
        fn large_request_is_not_starved(seed in any::<u64>(), cpus in 2u32..9) {
            let mut draws = Chance::new(seed).at("line", &[]);
            let line = vec![request("large", cpus, 0)];
            let mut world = World { machine: machine(cpus), held: Vec::new(), line, now: 1 };
            for turn in 0..2_000u64 {
                world.now += 1_000;
                while world.line.len() < 4 {
                    // New runs have no holding yet.
                    world.line.push(request(&format!("small-{turn}-{}", world.line.len()), 1, world.now));
                }
                while let Some(given) = world.give(draws.below(5) as usize) {
                    if given.holder.run == "large" {
                        return Ok(());
                    }
                }
                if draws.below(2) == 0 && !world.held.is_empty() {
                    world.held.remove(0);
                }
            }
            prop_assert!(false, "starved");
        }
    }
}
