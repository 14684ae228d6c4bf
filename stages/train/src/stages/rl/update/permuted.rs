//! Permutes advantages among rollouts, as a placebo of reusing rollouts.

use super::columns::UpdateSample;
use trainyard_core::Chance;
use trainyard_learn::TokenGrid;

/// Shuffles the mean advantages of the rollouts in `used` among these rollouts. Each rollout gets its drawn mean on all
/// its tokens in the loss.
pub fn advantages(samples: &[UpdateSample<'_>], used: &[usize], chance: &Chance) -> TokenGrid {
    let mut grid: TokenGrid = samples.iter().map(|s| s.advantages.to_vec()).collect();
    let mut drawn: Vec<f64> = used.iter().map(|&i| mean(&samples[i])).collect();
    chance.at("advantages", &[]).shuffle(&mut drawn);
    for (&i, advantage) in used.iter().zip(drawn) {
        for (value, learned) in grid[i].iter_mut().zip(samples[i].mask()) {
            *value = if *learned { advantage } else { 0.0 };
        }
    }
    grid
}

/// Returns the samples with their advantages replaced by these.
pub fn samples<'a>(samples: &[UpdateSample<'a>], advantages: &'a TokenGrid) -> Vec<UpdateSample<'a>> {
    samples.iter().zip(advantages).map(|(s, row)| UpdateSample { advantages: row, ..*s }).collect()
}

/// Returns the mean advantage of the tokens in the loss, or 0 without such tokens.
fn mean(sample: &UpdateSample<'_>) -> f64 {
    let learned = || sample.advantages.iter().zip(sample.mask()).filter(|(_, learned)| **learned).map(|(a, _)| *a);
    learned().sum::<f64>() / learned().count().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_learn::Rollout;

    #[test]
    fn every_rollout_gets_the_advantage_of_one_of_them() {
        let rollouts: Vec<Rollout> =
            (0..12).map(|i| Rollout { mask: vec![false, true, i % 2 == 0], ..Rollout::default() }).collect();
        let before: TokenGrid =
            (0..12).map(|i| vec![0.0, f64::from(i), if i % 2 == 0 { f64::from(i) } else { 0.0 }]).collect();
        let sample = |i: usize| UpdateSample {
            rollout: &rollouts[i],
            advantages: &before[i],
            returns: None,
            weight: 1.0,
            group: i,
            pass_rate: 0.5,
        };
        let all: Vec<UpdateSample<'_>> = (0..12).map(sample).collect();
        let used: Vec<usize> = (1..12).collect();
        let grid = advantages(&all, &used, &Chance::new(5));
        let mut firsts: Vec<f64> = grid[1..].iter().map(|row| row[1]).collect();
        assert_ne!(firsts, (1..12).map(f64::from).collect::<Vec<_>>());
        firsts.sort_by(f64::total_cmp);
        assert_eq!(firsts, (1..12).map(f64::from).collect::<Vec<_>>());
        assert_eq!(grid[0], before[0], "unused ones keep theirs");
        assert!(grid.iter().all(|row| row[0] == 0.0) && grid[3][2] == 0.0, "tokens out of the loss stay 0");
        assert_eq!(samples(&all, &grid)[4].advantages, grid[4]);
    }
}
