//! Resamples paired differences over training seeds.
//!
//! The two-level bootstrap resamples seeds, then problems within each drawn seed. Reports show it next to the t
//! interval of [`super::PooledEstimate`], because with few seeds it is too narrow.

use trainyard_core::Chance;

/// Differences `a − b` of one seed, one per problem.
pub type SeedDifferences<'a> = &'a [f64];

/// Returns the 95% percentile interval of the mean over seeds by the two-level bootstrap. `None` with fewer than two
/// seeds, or with a seed without problems.
pub fn two_level_bootstrap(seeds: &[SeedDifferences<'_>], resamples: usize, chance: &Chance) -> Option<(f64, f64)> {
    if seeds.len() < 2 || resamples == 0 || seeds.iter().any(|problems| problems.is_empty()) {
        return None;
    }
    let mut means: Vec<f64> = (0..resamples)
        .map(|resample| {
            let mut draws = chance.at("two-level bootstrap", &[resample as u64]);
            let mut sum = 0.0;
            for _ in 0..seeds.len() {
                let problems = seeds[draws.below(seeds.len() as u64) as usize];
                let drawn = (0..problems.len()).map(|_| problems[draws.below(problems.len() as u64) as usize]);
                sum += drawn.sum::<f64>() / problems.len() as f64;
            }
            sum / seeds.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some((super::bootstrap::quantile(&means, 0.025), super::bootstrap::quantile(&means, 0.975)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bootstrap_covers_both_levels_and_repeats() {
        let spread = [1.0, -1.0, 1.0, -1.0];
        let (wide, narrow) = ([0.5; 4], [0.5; 4]);
        let chance = Chance::new(3);
        assert_eq!(two_level_bootstrap(&[&wide, &narrow], 500, &chance), Some((0.5, 0.5)), "nothing varies");
        let (low, high) = two_level_bootstrap(&[&spread, &spread], 500, &chance).unwrap();
        assert!(low < -0.3 && high > 0.3, "problems vary: {low} {high}");
        let (low, high) = two_level_bootstrap(&[&[0.0; 4], &[1.0; 4]], 500, &chance).unwrap();
        assert_eq!((low, high), (0.0, 1.0), "seeds vary");
        assert_eq!(
            two_level_bootstrap(&[&spread, &spread], 50, &chance),
            two_level_bootstrap(&[&spread, &spread], 50, &chance)
        );
        assert_eq!(two_level_bootstrap(&[&spread], 50, &chance), None);
        assert_eq!(two_level_bootstrap(&[&spread, &[]], 50, &chance), None);
    }
}
