//! Pools the rows of a comparison over seeds.

use super::result::{SeedResult, SeedRow};
use serde::Serialize;
use trainyard_core::{Chance, Comparison, ComparisonField};
use trainyard_learn::statistics::{PooledEstimate, mean, two_level_bootstrap};

/// Number of resamples of the bootstrap.
const RESAMPLES: usize = 2_000;
/// Probability beyond each end of a two-sided 95% interval.
const TWO_SIDED: f64 = 0.025;
/// Probability beyond a one-sided 95% bound.
const ONE_SIDED: f64 = 0.05;

/// A row pooled over all seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PooledRow {
    /// Stage of the comparison.
    pub stage: String,
    /// Means over seeds. `low` and `high` are the two-sided 95% t interval over seeds, and `n` is the smallest number
    /// of problems of a seed.
    pub row: Comparison,
    /// One-sided 95% bounds over seeds.
    pub one_sided: Option<(f64, f64)>,
    /// Two-sided 95% interval of the bootstrap over seeds and problems; `None` for metrics of reports.
    pub bootstrap: Option<(f64, f64)>,
    /// Number of seeds.
    pub seeds: usize,
}

/// Pools the rows that every seed has, in the order of the first seed.
pub fn rows(results: &[SeedResult]) -> Vec<PooledRow> {
    let Some(first) = results.first() else { return Vec::new() };
    first.rows.iter().filter_map(|row| pooled(row, results)).collect()
}

fn pooled(row: &SeedRow, results: &[SeedResult]) -> Option<PooledRow> {
    let found: Vec<&SeedRow> = results.iter().map(|r| r.row(&row.stage, &row.row.metric)).collect::<Option<_>>()?;
    let of = |of: ComparisonField| found.iter().map(|r| r.row.get(of)).collect::<Option<Vec<f64>>>();
    let value = |side: ComparisonField| of(side).and_then(|values| mean(&values));
    let difference = of(ComparisonField::Difference).and_then(|values| PooledEstimate::of(&values));
    let interval = |tail: f64| difference.and_then(|pooled| pooled.interval(tail));
    let (low, high) = interval(TWO_SIDED).unzip();
    let problems: Vec<Vec<f64>> = found.iter().map(|r| spread(&r.differences)).collect();
    let problems: Vec<&[f64]> = problems.iter().map(Vec::as_slice).collect();
    let row_of = Comparison {
        a: value(ComparisonField::A),
        b: value(ComparisonField::B),
        difference: difference.map(|pooled| pooled.value),
        low,
        high,
        n: found.iter().map(|r| r.row.n).min().flatten(),
        ..row.row.clone()
    };
    Some(PooledRow {
        stage: row.stage.clone(),
        row: row_of,
        one_sided: interval(ONE_SIDED),
        bootstrap: two_level_bootstrap(&problems, RESAMPLES, &Chance::new(0)),
        seeds: results.len(),
    })
}

/// Repeats each difference by its count.
fn spread(counts: &[(f64, u64)]) -> Vec<f64> {
    counts.iter().flat_map(|(value, n)| std::iter::repeat_n(*value, *n as usize)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;

    fn seed(seed: u64, difference: f64) -> SeedResult {
        let avg = Comparison {
            a: Some(0.5 + difference),
            b: Some(0.5),
            difference: Some(difference),
            n: Some(400 + seed),
            ..Comparison::of("avg")
        };
        let forks = Comparison { a: Some(7.0), ..Comparison::of("forks") };
        let row = |row: Comparison, differences| SeedRow { stage: "effect".into(), row, differences };
        let rows = vec![row(avg, vec![(difference, 4)]), row(forks, Vec::new())];
        SeedResult { format: 1, recipe: "r".into(), seed, plan: Digest::of(b"p"), rows }
    }

    #[test]
    fn seeds_are_the_unit_of_the_interval() {
        let pooled = rows(&[seed(1, 0.1), seed(2, 0.2), seed(3, 0.3)]);
        let avg = &pooled[0];
        assert!((avg.row.difference.unwrap() - 0.2).abs() < 1e-12 && (avg.row.a.unwrap() - 0.7).abs() < 1e-12);
        // 0.2 ± t·0.1/√3 with t = 4.3027 (two-sided) and 2.9200 (one-sided).
        assert!((avg.row.low.unwrap() - (0.2 - 4.302_653 * 0.057_735)).abs() < 1e-5);
        assert!((avg.one_sided.unwrap().0 - (0.2 - 2.919_986 * 0.057_735)).abs() < 1e-5);
        assert_eq!((avg.seeds, avg.row.n), (3, Some(401)));
        let (low, high) = avg.bootstrap.unwrap();
        assert!((0.1..0.2).contains(&low) && 0.2 < high && high <= 0.3, "{low} {high}");
        let forks = &pooled[1];
        assert_eq!((forks.row.a, forks.row.difference, forks.bootstrap), (Some(7.0), None, None));
    }

    #[test]
    fn row_missing_from_a_seed_is_left_out() {
        let mut short = seed(2, 0.2);
        short.rows.remove(0);
        assert_eq!(rows(&[seed(1, 0.1), short]).len(), 1);
        assert!(rows(&[]).is_empty());
    }
}
