//! Computes percentile bootstrap intervals over clusters, for statistics without a formula for their error (AUC,
//! calibration error).
//!
//! Whole clusters are drawn with replacement, so samples of one problem stay together. Resample `i` draws from
//! `chance.at("bootstrap", &[i])`, so equal inputs give equal results. Resamples on which the statistic is undefined
//! are skipped. The interval is `None` if more than half of the resamples are skipped, with fewer than two clusters, or
//! without resamples.

use std::collections::BTreeMap;
use trainyard_core::Chance;

/// Returns the 95% interval of `statistic`, or `None` if it cannot be estimated. `statistic` gets the indexes of the
/// items in a resample (with repeats).
pub fn bootstrap_interval<K: Ord>(
    clusters: &[K],
    resamples: usize,
    chance: &Chance,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Option<(f64, f64)> {
    let mut members: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for (i, c) in clusters.iter().enumerate() {
        members.entry(c).or_default().push(i);
    }
    let members: Vec<Vec<usize>> = members.into_values().collect();
    if members.len() < 2 || resamples == 0 {
        return None;
    }
    let mut values = Vec::with_capacity(resamples);
    let mut items = Vec::with_capacity(clusters.len());
    for resample in 0..resamples {
        let mut draws = chance.at("bootstrap", &[resample as u64]);
        items.clear();
        for _ in 0..members.len() {
            items.extend_from_slice(draws.choose::<Vec<usize>>(&members));
        }
        values.extend(statistic(&items).filter(|v| v.is_finite()));
    }
    if values.len() * 2 < resamples {
        return None;
    }
    values.sort_by(f64::total_cmp);
    Some((quantile(&values, 0.025), quantile(&values, 0.975)))
}

/// Interpolates linearly between order statistics; `sorted` must not be empty.
pub(super) fn quantile(sorted: &[f64], q: f64) -> f64 {
    let place = q * (sorted.len() - 1) as f64;
    let low = place.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::clustered_mean;

    #[test]
    fn interval_of_a_mean_agrees_with_the_formula() {
        let mut draws = Chance::new(2).at("data", &[]);
        let values: Vec<f64> = (0..400).map(|_| draws.uniform()).collect();
        let clusters: Vec<usize> = (0..400).map(|i| i / 2).collect();
        let formula = clustered_mean(&values, &clusters).unwrap().interval().unwrap();
        let interval = bootstrap_interval(&clusters, 2_000, &Chance::new(1), |items| {
            Some(items.iter().map(|i| values[*i]).sum::<f64>() / items.len() as f64)
        })
        .unwrap();
        assert!(
            (interval.0 - formula.0).abs() < 0.01 && (interval.1 - formula.1).abs() < 0.01,
            "{interval:?} {formula:?}"
        );
    }

    #[test]
    fn results_repeat_and_undefined_cases_are_none() {
        let run = || bootstrap_interval(&[1, 2, 3], 50, &Chance::new(4), |i| Some(i[0] as f64));
        assert_eq!(run(), run());
        assert_eq!(bootstrap_interval(&[1, 1], 50, &Chance::new(4), |_| Some(1.0)), None);
        assert_eq!(bootstrap_interval(&[1, 2], 50, &Chance::new(4), |_| None), None);
    }

    #[test]
    fn quantiles() {
        assert_eq!(
            (quantile(&[1.0, 2.0, 3.0], 0.5), quantile(&[1.0, 2.0], 0.25), quantile(&[5.0], 0.9)),
            (2.0, 1.25, 5.0)
        );
    }
}
