//! Drives groups of forking strategies as the training loop does.

use super::forking::{entropy_jumps, opening};
use crate::part::{Draw, GroupBudget, LiveSequence, ProblemPool, Progress, Strategy, StrategyAction};
use trainyard_core::Chance;

/// Returns a root that has just sampled its last turn, with these entropies turn by turn.
pub fn live(entropies: &[&[f64]]) -> LiveSequence {
    let before: usize = entropies.iter().rev().skip(1).map(|t| t.len()).sum();
    LiveSequence {
        turn: entropies.len() as u32 - 1,
        first: 7 + before,
        entropies: entropies.iter().map(|t| t.to_vec()).collect(),
        ..LiveSequence::default()
    }
}

/// Result of a group.
pub struct Played {
    /// Number of sequences started from the root, per wave.
    pub waves: Vec<u32>,
    pub forked: u32,
    /// Number of sequences that reached their last turn.
    ended: u32,
}

/// Runs one group of `size` sequences with `turns` turns and random entropies. A fork beyond the budget fails the test.
pub fn play(strategy: &mut dyn Strategy, size: u32, turns: u32, chance: Chance) -> Played {
    let draw = Draw { problems: vec![0], ..Draw::default() };
    let first =
        strategy.start(&draw, &ProblemPool::default(), size, Progress { step: 0, steps: 1 }, &chance).len() as u32;
    let mut view = GroupBudget { started: 0, budget: strategy.max_sequences(size) };
    let mut played = Played { waves: Vec::new(), forked: 0, ended: 0 };
    let mut wave = first;
    while wave > 0 {
        let mut living: Vec<LiveSequence> =
            (0..wave).map(|i| LiveSequence { sample: view.started + i, ..LiveSequence::default() }).collect();
        view.started += wave;
        played.waves.push(wave);
        while !living.is_empty() {
            living.sort_by_key(|l| l.sample);
            living = round(strategy, std::mem::take(&mut living), turns, &mut view, &mut played, &chance);
        }
        assert_eq!(played.ended, view.started);
        wave = strategy.refill(0, &view).min(view.budget - view.started);
    }
    played
}

/// Samples a turn of every living sequence, and calls the strategy for each.
fn round(
    strategy: &mut dyn Strategy,
    living: Vec<LiveSequence>,
    turns: u32,
    view: &mut GroupBudget,
    played: &mut Played,
    chance: &Chance,
) -> Vec<LiveSequence> {
    let mut next = Vec::new();
    for mut live in living {
        let mut draws = chance.at("entropies", &[u64::from(live.sample), u64::from(live.turn)]);
        live.entropies.push((0..3).map(|_| 2.0 * draws.uniform()).collect());
        if let StrategyAction::Fork { copies, .. } = strategy.at_turn(&live, view, chance) {
            assert!(copies > 0 && copies <= view.budget - view.started, "a fork of {copies} beyond the budget");
            for _ in 0..copies {
                let mut copy =
                    LiveSequence { sample: view.started, forks: live.forks + 1, since_fork: Some(0), ..live.clone() };
                copy.entropies.pop();
                view.started += 1;
                played.forked += 1;
                next.push(copy);
            }
        }
        live.turn += 1;
        live.since_fork = live.since_fork.map(|n| n + 1);
        if live.turn == turns {
            played.ended += 1;
        } else {
            next.push(live);
        }
    }
    next
}

#[test]
fn openings_and_jumps_match_hand_computation() {
    assert_eq!(opening(&[1.0, 2.0, 9.0], 2), Some(1.5));
    assert_eq!(opening(&[1.0], 20), Some(1.0));
    assert_eq!(opening(&[], 20), None);
    assert_eq!(entropy_jumps(&live(&[&[1.0, 3.0], &[4.0], &[], &[1.0]]), 20, 2.0), [Some(1.0), None, Some(-0.5)]);
    assert!(entropy_jumps(&LiveSequence::default(), 20, 1.0).is_empty());
    assert!(entropy_jumps(&live(&[&[], &[1.0]]), 20, 1.0).is_empty());
}
