use super::*;
use crate::strategies::tests::{live, play};

const PILOT_DONE: GroupBudget = GroupBudget { started: 1, budget: 8 };
const OPEN: GroupBudget = GroupBudget { started: 4, budget: 8 };

fn started(part: &mut EntropyBalancedStrategy, problems: usize) -> Vec<Spawn> {
    let draw = Draw { problems: vec![0; problems], ..Draw::default() };
    part.start(&draw, &ProblemPool::default(), 8, Progress { step: 0, steps: 1 }, &Chance::new(0))
}
/// Returns the number of roots of a group of 8 whose first rollout has these entropies per turn.
fn planned_roots(part: &mut EntropyBalancedStrategy, turns: &[&[f64]]) -> u32 {
    started(part, 1);
    for upto in 1..=turns.len() {
        assert_eq!(
            part.at_turn(&live(&turns[..upto]), &OPEN, &Chance::new(0)),
            StrategyAction::Continue,
            "the first rollout is not forked"
        );
    }
    let more = part.refill(0, &PILOT_DONE);
    assert_eq!(
        part.refill(0, &GroupBudget { started: 1 + more, ..OPEN }),
        7 - more,
        "the rest is filled from the root"
    );
    more + 1
}
/// Returns a part whose group 0 already has its roots.
fn branching(options: EntropyBalancedStrategy) -> EntropyBalancedStrategy {
    let mut part = options;
    started(&mut part, 1);
    part.refill(0, &PILOT_DONE);
    part
}

#[test]
fn roots_match_hand_computation() {
    // σ(ln 3) = 3/4 and σ(−ln 3) = 1/4 of 8.
    let mut part = EntropyBalancedStrategy { beta: 3.0f64.ln(), ..EntropyBalancedStrategy::default() };
    assert_eq!(planned_roots(&mut part, &[&[2.0], &[1.0]]), 6);
    assert_eq!(planned_roots(&mut part, &[&[2.0, 2.0], &[0.5], &[1.5, 1.5]]), 6, "H_tool is the mean over turns: 1");
    assert_eq!(planned_roots(&mut part, &[&[1.0], &[2.0]]), 2);
    assert_eq!(planned_roots(&mut part, &[&[2.0]]), 4, "no tool result: half");
    assert_eq!(planned_roots(&mut part, &[]), 4, "an episode without a turn: half");
    assert_eq!(planned_roots(&mut part, &[&[1.0], &[99.0]]), 2, "at least one that may be forked");
    assert_eq!(planned_roots(&mut part, &[&[99.0], &[1.0]]), 8);
    part.normalizer = 2.0;
    assert_eq!(planned_roots(&mut part, &[&[3.0], &[1.0]]), 6, "two nats count as one");
}

#[test]
fn groups_are_measured_separately() {
    let mut part = EntropyBalancedStrategy { beta: 3.0f64.ln(), ..EntropyBalancedStrategy::default() };
    assert_eq!(started(&mut part, 2).iter().map(|s| (s.group, s.sample)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    for (group, turns) in [(0, [[2.0], [1.0]]), (1, [[1.0], [2.0]])] {
        let turns: [&[f64]; 2] = [&turns[0], &turns[1]];
        for upto in 1..=2 {
            let seen = LiveSequence { group, ..live(&turns[..upto]) };
            part.at_turn(&seen, &OPEN, &Chance::new(0));
        }
    }
    assert_eq!([part.refill(0, &PILOT_DONE), part.refill(1, &PILOT_DONE)], [5, 1]);
    assert_eq!(part.metrics(), [("forks", 0.0), ("roots", 4.0), ("roots_slope", 2.0)]);
}

#[test]
fn consecutive_uncertain_turns_are_penalized() {
    let action =
        |part: &mut EntropyBalancedStrategy, turns: &[&[f64]]| part.at_turn(&live(turns), &OPEN, &Chance::new(0));
    let mut part = branching(EntropyBalancedStrategy { penalty: 0.25, ..EntropyBalancedStrategy::default() });
    // ΔH = 1: 0.7 alone, 0.7·0.75 = 0.525 after one uncertain turn, 0.7·0.5 = 0.35 after two.
    assert_eq!(action(&mut part, &[&[1.0], &[2.0]]), StrategyAction::Fork { at: 8, copies: 1 });
    assert_eq!(action(&mut part, &[&[1.0], &[2.0], &[2.0]]), StrategyAction::Fork { at: 9, copies: 1 });
    assert_eq!(action(&mut part, &[&[1.0], &[2.0], &[2.0], &[2.0]]), StrategyAction::Continue);
    assert_eq!(
        action(&mut part, &[&[1.0], &[2.0], &[1.0], &[2.0]]),
        StrategyAction::Fork { at: 10, copies: 1 },
        "a calm turn ends the chain"
    );
    assert_eq!(action(&mut part, &[&[1.0], &[1.0]]), StrategyAction::Continue, "0.5 is not above the threshold");
    let metrics = part.metrics();
    assert_eq!(metrics, [("fork_chain", 4.0 / 3.0), ("forks", 3.0), ("roots", 4.0)], "chains of 1, 2 and 1");
    let mut free = branching(EntropyBalancedStrategy { penalty: 0.0, ..EntropyBalancedStrategy::default() });
    assert_ne!(action(&mut free, &[&[1.0], &[2.0], &[2.0], &[2.0]]), StrategyAction::Continue);
}

#[test]
fn fresh_copies_and_full_groups_are_not_forked() {
    let mut part = branching(EntropyBalancedStrategy::default());
    let risen = live(&[&[0.0], &[5.0]]);
    let copy = LiveSequence { forks: 1, since_fork: Some(0), ..risen.clone() };
    assert_eq!(part.at_turn(&copy, &OPEN, &Chance::new(0)), StrategyAction::Continue);
    assert_eq!(part.at_turn(&risen, &GroupBudget { started: 8, ..OPEN }, &Chance::new(0)), StrategyAction::Continue);
    assert_ne!(part.at_turn(&risen, &OPEN, &Chance::new(0)), StrategyAction::Continue);
}

#[test]
fn groups_are_filled_exactly() {
    for seed in 0..40 {
        let (size, beam) = (2 + (seed % 7) as u32, 2 + (seed % 3) as u32);
        for rule in [ForkRule::Threshold, ForkRule::Chance] {
            let mut part = EntropyBalancedStrategy { beam, rule, ..EntropyBalancedStrategy::default() };
            let played = play(&mut part, size, 4, Chance::new(seed));
            assert_eq!(played.waves[0], 1);
            assert_eq!(played.forked + played.waves.iter().sum::<u32>(), size);
            let roots = f64::from(1 + played.waves[1]);
            assert!(
                part.metrics().contains(&("roots", roots))
                    && part.metrics().contains(&("forks", f64::from(played.forked)))
            );
        }
    }
}

#[test]
fn no_state_crosses_draws() {
    let mut part = EntropyBalancedStrategy::default();
    planned_roots(&mut part, &[&[2.0], &[1.0]]);
    assert!(part.save().is_null());
    let mut fresh = EntropyBalancedStrategy::default();
    assert_eq!(planned_roots(&mut part, &[&[1.0], &[1.5]]), planned_roots(&mut fresh, &[&[1.0], &[1.5]]));
}

#[test]
fn impossible_options_are_rejected() {
    let ok = EntropyBalancedStrategy::default();
    assert!(ok.check().is_empty());
    let wrong = [
        EntropyBalancedStrategy { penalty: 1.5, ..ok.clone() },
        EntropyBalancedStrategy { penalty: f64::NAN, ..ok.clone() },
        EntropyBalancedStrategy { beam: 0, ..ok.clone() },
        EntropyBalancedStrategy { normalizer: -1.0, ..ok.clone() },
        EntropyBalancedStrategy { beta: f64::INFINITY, ..ok },
    ];
    assert!(wrong.iter().all(|w| !w.check().is_empty()));
}
