//! Implements `demonstration_prefix` (Prefix-RFT, 2507.01679): some rollouts of every group begin with part of a
//! demonstration, and the policy continues it.
//!
//! If no rollout succeeds, the group has no training signal. A given beginning makes success more likely, and the
//! group's baseline decides whether it helped. The given part shrinks over the run from nearly all tokens to almost
//! zero, and the policy always samples at least the last token. Problems without a demonstration get a plain group.

use super::{Tally, from_root};
use crate::part::{Draw, EpisodePrefix, Needs, PoolDemonstration, ProblemPool, Progress, RlPart, Spawn, Strategy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce};

/// Given part of a demonstration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PrefixLength {
    /// The scheduled share.
    #[default]
    Schedule,
    /// A share drawn uniformly between the scheduled one and `first_share`.
    Uniform,
}

/// Options of `demonstration_prefix`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DemonstrationPrefix {
    /// Number of rollouts per group that begin with a demonstration.
    #[schemars(range(min = 1))]
    pub hybrids: u32,
    /// Share of a demonstration's agent tokens given at the first step.
    #[schemars(range(min = 0, max = 1))]
    pub first_share: f64,
    /// Share at which the schedule ends.
    #[schemars(range(min = 0, max = 1))]
    pub last_share: f64,
    /// Whether the scheduled share is given, or one drawn between it and `first_share`.
    pub length: PrefixLength,
    /// Placebo: the demonstration is that of another problem of the pool, drawn by chance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
    #[serde(skip)]
    tally: Tally,
}

impl Default for DemonstrationPrefix {
    fn default() -> Self {
        Self {
            hybrids: 1,
            first_share: 0.95,
            last_share: 0.05,
            length: PrefixLength::Schedule,
            by_chance: false,
            tally: Tally::default(),
        }
    }
}

impl PartOptions for DemonstrationPrefix {
    const KIND: &'static str = "demonstration_prefix";
    const SUMMARY: &'static str = "some rollouts per group continue part of a demonstration (Prefix-RFT, 2507.01679)";
    const DOC: &'static str = "The first `hybrids` rollouts of a group begin with the first round(s·n) of the n own\n\
        tokens of a demonstration of their problem, at most n − 1: whole turns are replayed in the environment, the\n\
        rest opens the next turn. s = last_share + (first_share − last_share)·(1 + cos πt)/2 with t = finished\n\
        share of the run; with length `uniform`, s is drawn between that and first_share. With several demonstrations\n\
        each hybrid takes a different one, starting at random. The given tokens stay in the mask; the filter\n\
        `prefix_entropy` chooses which of them are learned.\n\n\
        The paper's appendix is reported to draw uniformly between a bound with this schedule and 0.95, which is\n\
        length `uniform`. Needs demonstrations, an altered start, and groups. Metrics of the last step: prefix_share\n\
        (mean share of its demonstration that a hybrid was given; absent without hybrids), hybrids (per group).\n\
        Source: 2507.01679.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("hybrids", "rollouts per group", "Rollouts that continue a demonstration.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("hybrids"),
            MetricInfo::new(
                "prefix_share",
                "share",
                "Share of a demonstration's tokens that is given to a rollout that continues one.",
            )
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("prefix_share"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let hybrids = OptionProblem::out_of_range("/hybrids", self.hybrids, 1..);
        let mut problems: Vec<OptionProblem> =
            hybrids.map(|p| p.help("use the strategy `independent` for groups without hybrids")).into_iter().collect();
        let shares = [("/first_share", self.first_share), ("/last_share", self.last_share)];
        problems.extend(shares.into_iter().filter_map(|(at, share)| OptionProblem::out_of_range(at, share, 0.0..=1.0)));
        problems.extend(OptionProblem::reversed_bounds(
            ("/last_share", self.last_share),
            ("/first_share", self.first_share),
        ));
        problems
    }
}

impl RlPart for DemonstrationPrefix {
    fn needs(&self) -> Needs {
        Needs { demonstrations: true, altered_start: true, groups: true, ..Needs::NONE }
    }
}

impl Strategy for DemonstrationPrefix {
    fn start(&mut self, draw: &Draw, pool: &ProblemPool, size: u32, progress: Progress, chance: &Chance) -> Vec<Spawn> {
        self.tally.begin(progress);
        self.tally.add("hybrids", 0.0, draw.problems.len());
        let mut spawns = from_root(draw, size);
        for spawn in spawns.iter_mut().filter(|s| s.sample < self.hybrids) {
            let group = spawn.group as u64;
            let own = draw.problems[spawn.group];
            let shown = if self.by_chance { other(pool, own, &chance.child("other", &[group])) } else { Some(own) };
            let Some(demonstrations) = shown.map(|place| &pool.problems[place].demonstrations) else { continue };
            if demonstrations.is_empty() {
                continue;
            }
            let first = chance.at("demonstration", &[group]).below(demonstrations.len() as u64) as usize;
            let demonstration = &demonstrations[(first + spawn.sample as usize) % demonstrations.len()];
            let lowest = self.scheduled(progress.share());
            let share = match self.length {
                PrefixLength::Schedule => lowest,
                PrefixLength::Uniform => {
                    lowest
                        + (self.first_share - lowest) * chance.at("prefix", &[group, u64::from(spawn.sample)]).uniform()
                }
            };
            let Some((prefix, given)) = take_prefix(demonstration, share) else { continue };
            spawn.prefix = Some(prefix);
            self.tally.add("hybrids", 1.0, 0);
            self.tally.add("prefix_share", given, 1);
        }
        spawns
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.tally.metrics()
    }
}

impl DemonstrationPrefix {
    /// Returns the share along half a cosine from `first_share` to `last_share`.
    fn scheduled(&self, done: f64) -> f64 {
        self.last_share + (self.first_share - self.last_share) * (1.0 + (std::f64::consts::PI * done).cos()) / 2.0
    }
}

/// Returns another problem of the pool that has a demonstration, or `None` if there is no such problem.
fn other(pool: &ProblemPool, problem: usize, chance: &Chance) -> Option<usize> {
    let indexes: Vec<usize> =
        (0..pool.problems.len()).filter(|&i| i != problem && !pool.problems[i].demonstrations.is_empty()).collect();
    (!indexes.is_empty()).then(|| *chance.at("problem", &[]).choose(&indexes))
}

/// Returns the first `share` of a demonstration's tokens, and the exact share, or `None` if the prefix has no tokens.
fn take_prefix(demonstration: &PoolDemonstration, share: f64) -> Option<(EpisodePrefix, f64)> {
    let all: usize = demonstration.turns.iter().map(Vec::len).sum();
    let given = ((share * all as f64).round() as usize).min(all.saturating_sub(1));
    if given == 0 {
        return None;
    }
    let mut prefix = EpisodePrefix { demonstration: demonstration.id.clone(), ..EpisodePrefix::default() };
    let mut remaining = given;
    for turn in &demonstration.turns {
        if remaining < turn.len() {
            prefix.partial = turn[..remaining].to_vec();
            break;
        }
        prefix.turns.push(turn.clone());
        remaining -= turn.len();
    }
    Some((prefix, given as f64 / all as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::PoolProblem;

    /// Returns two turns of 3 and 7 tokens, in the row with the id of the tag.
    fn demonstration(tag: u32) -> PoolDemonstration {
        let turns = vec![(0..3).map(|i| tag + i).collect(), (3..10).map(|i| tag + i).collect()];
        PoolDemonstration { id: tag.to_string(), turns }
    }
    fn pool() -> ProblemPool {
        let problem = |demonstrations: Vec<PoolDemonstration>| PoolProblem { demonstrations, ..PoolProblem::default() };
        ProblemPool {
            problems: vec![
                problem(vec![]),
                problem(vec![demonstration(100)]),
                problem(vec![demonstration(200), demonstration(300)]),
            ],
        }
    }
    fn started(part: &mut DemonstrationPrefix, problems: &[usize], step: u64) -> Vec<Spawn> {
        let draw = Draw { problems: problems.to_vec(), ..Draw::default() };
        part.start(&draw, &pool(), 4, Progress { step, steps: 10 }, &Chance::new(7))
    }
    fn fixed(share: f64) -> DemonstrationPrefix {
        DemonstrationPrefix { first_share: share, last_share: share, ..DemonstrationPrefix::default() }
    }

    #[test]
    fn placebo_uses_a_demonstration_of_another_problem() {
        let mut part = DemonstrationPrefix { by_chance: true, ..fixed(0.5) };
        let first = |spawn: &Spawn| spawn.prefix.as_ref().map(|p| p.turns[0][0]);
        let named = |spawn: &Spawn| spawn.prefix.as_ref().map(|p| p.demonstration.clone());
        let spawns = started(&mut part, &[1, 2], 0);
        let hybrids: Vec<Option<u32>> = spawns.iter().filter(|s| s.sample == 0).map(first).collect();
        assert!(matches!(hybrids[0], Some(200 | 300)), "{hybrids:?}");
        assert_eq!(hybrids[1], Some(100), "the only other one");
        for spawn in spawns.iter().filter(|s| s.sample == 0) {
            assert_eq!(named(spawn), first(spawn).map(|tag| tag.to_string()), "the row whose tokens are given");
        }
    }

    #[test]
    fn prefix_has_whole_turns_and_part_of_the_next() {
        let whole = demonstration(100);
        let of = |share: f64| take_prefix(&whole, share);
        let (first, second) = (whole.turns[0].clone(), &whole.turns[1]);
        let prefix = |turns, partial: &[u32]| EpisodePrefix {
            turns,
            partial: partial.to_vec(),
            demonstration: "100".to_string(),
        };
        assert_eq!(of(0.5), Some((prefix(vec![first.clone()], &second[..2]), 0.5)));
        assert_eq!(of(0.2), Some((prefix(vec![], &first[..2]), 0.2)));
        assert_eq!(of(0.3), Some((prefix(vec![first.clone()], &[]), 0.3)));
        assert_eq!(of(1.0), Some((prefix(vec![first], &second[..6]), 0.9)), "one token remains");
        assert_eq!(of(0.04), None, "0.4 of a token");
        let short = |turns| PoolDemonstration { id: "short".to_string(), turns };
        assert_eq!(take_prefix(&short(vec![vec![1]]), 1.0), None);
        assert_eq!(take_prefix(&short(vec![]), 1.0), None);
    }

    #[test]
    fn schedule_is_a_cosine() {
        let part = DemonstrationPrefix::default();
        for (done, share) in [(0.0, 0.95), (0.5, 0.5), (1.0, 0.05), (1.0 / 3.0, 0.725)] {
            assert!((part.scheduled(done) - share).abs() < 1e-12, "{done}");
        }
    }

    #[test]
    fn one_hybrid_per_group_with_a_demonstration() {
        let mut part = fixed(0.5);
        let spawns = started(&mut part, &[1, 0, 1], 0);
        assert_eq!(spawns.len(), 12);
        let hybrids: Vec<(usize, u32)> =
            spawns.iter().filter(|s| s.prefix.is_some()).map(|s| (s.group, s.sample)).collect();
        assert_eq!(hybrids, [(0, 0), (2, 0)]);
        assert_eq!(part.metrics(), [("hybrids", 2.0 / 3.0), ("prefix_share", 0.5)]);
        started(&mut part, &[0], 1);
        assert_eq!(part.metrics(), [("hybrids", 0.0)], "another step, no demonstration");
    }

    #[test]
    fn several_hybrids_take_different_demonstrations() {
        let mut part = DemonstrationPrefix { hybrids: 2, ..fixed(0.5) };
        let mut tags: Vec<u32> =
            started(&mut part, &[2], 0).into_iter().filter_map(|s| s.prefix).map(|p| p.turns[0][0]).collect();
        tags.sort_unstable();
        assert_eq!(tags, [200, 300]);
        let many = DemonstrationPrefix { hybrids: 9, ..fixed(0.5) };
        assert_eq!(started(&mut many.clone(), &[1], 0).len(), 4, "no more than the group holds");
    }

    #[test]
    fn given_shares_shrink_and_stay_in_bounds() {
        let mut last = 1.0;
        for step in 0..10 {
            let mut part = DemonstrationPrefix::default();
            let given =
                |part: &mut DemonstrationPrefix| started(part, &[1; 30], step).into_iter().filter_map(|s| s.prefix);
            let sizes: Vec<usize> =
                given(&mut part).map(|p| p.turns.iter().map(Vec::len).sum::<usize>() + p.partial.len()).collect();
            assert!(sizes.iter().all(|n| *n == sizes[0] && *n < 10));
            assert!(sizes[0] as f64 <= last * 10.0);
            last = sizes[0] as f64 / 10.0;
            let lowest = part.scheduled(step as f64 / 10.0);
            let mut uniform = DemonstrationPrefix { length: PrefixLength::Uniform, ..DemonstrationPrefix::default() };
            given(&mut uniform).count();
            let drawn = uniform.metrics().iter().find(|(n, _)| *n == "prefix_share").unwrap().1;
            assert!(drawn >= lowest - 0.051 && drawn < 0.9001, "{drawn} at step {step}");
            assert!(step < 7 || drawn > lowest + 0.1, "the mean draw lies between its bounds: {drawn}");
        }
    }

    #[test]
    fn impossible_options_are_rejected() {
        let ok = DemonstrationPrefix::default();
        assert!(ok.check().is_empty());
        let wrong = [
            DemonstrationPrefix { hybrids: 0, ..ok.clone() },
            DemonstrationPrefix { first_share: 1.5, ..ok.clone() },
            DemonstrationPrefix { last_share: f64::NAN, ..ok.clone() },
            DemonstrationPrefix { first_share: 0.1, last_share: 0.2, ..ok },
        ];
        assert!(wrong.iter().all(|w| !w.check().is_empty()));
    }
}
