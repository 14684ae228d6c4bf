//! Counts numbers in buckets of equal width while they are read, without knowing their range before.
//!
//! The width is a power of two. It doubles, and neighbors are joined, while the numbers span more than ten buckets, so
//! the final buckets depend on the numbers only, in whatever order and batches they come.

use std::collections::BTreeMap;

/// Maximum number of buckets between the least and the greatest number.
const MAX_BUCKETS: i64 = 10;
/// Binary exponent of the least width.
const LEAST_EXPONENT: i32 = -20;
/// Binary exponent of the greatest number that a bucket's index may have.
const INDEX_EXPONENT: i32 = 50;

/// Counts of numbers. Numbers that are not finite are left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// Binary exponent of the width, above the least one.
    growth: i32,
    /// Counts by index: bucket `i` begins at `i` times the width.
    counts: BTreeMap<i64, u64>,
    range: Option<(f64, f64)>,
}

/// One bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Least number that belongs to the bucket.
    pub low: f64,
    /// Bound that the numbers are below; of the last bucket, the greatest number that was counted.
    pub high: f64,
    /// Counted numbers.
    pub count: u64,
}

impl Histogram {
    /// Counts a number.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        while (value / self.width()).abs() >= exact_power(INDEX_EXPONENT) {
            self.widen();
        }
        *self.counts.entry((value / self.width()).floor() as i64).or_insert(0) += 1;
        while self.span() > MAX_BUCKETS {
            self.widen();
        }
        self.range = Some(self.range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
    }
    /// Returns the buckets in order, including empty ones between others; the first begins at the least number.
    pub fn buckets(&self) -> Vec<Bucket> {
        let (Some((least, greatest)), Some((first, last))) = (self.range, self.ends()) else { return Vec::new() };
        let bucket = |index: i64| Bucket {
            low: (index as f64 * self.width()).max(least),
            high: ((index + 1) as f64 * self.width()).min(greatest),
            count: self.counts.get(&index).copied().unwrap_or(0),
        };
        (first..=last).map(bucket).collect()
    }

    fn width(&self) -> f64 {
        exact_power(LEAST_EXPONENT + self.growth)
    }
    fn widen(&mut self) {
        self.growth += 1;
        let mut joined = BTreeMap::new();
        for (index, count) in &self.counts {
            *joined.entry(index.div_euclid(2)).or_insert(0) += count;
        }
        self.counts = joined;
    }
    fn ends(&self) -> Option<(i64, i64)> {
        Some((*self.counts.first_key_value()?.0, *self.counts.last_key_value()?.0))
    }
    fn span(&self) -> i64 {
        self.ends().map_or(0, |(first, last)| last - first + 1)
    }
}

fn exact_power(exponent: i32) -> f64 {
    2.0_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::default();
        values.into_iter().for_each(|value| histogram.add(value));
        histogram
    }

    fn counts(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64, u64)> {
        of(values).buckets().iter().map(|b| (b.low, b.high, b.count)).collect()
    }

    #[test]
    fn buckets_fit_the_numbers() {
        assert_eq!(counts([]), []);
        assert_eq!(counts([0.75]), [(0.75, 0.75, 1)]);
        let eighths: Vec<_> = counts((0..=16).map(|i| f64::from(i) / 16.0));
        let expected = (0..8).map(|i| (f64::from(i) / 8.0, f64::from(i + 1) / 8.0, 2)).chain([(1.0, 1.0, 1)]);
        assert_eq!(eighths, expected.collect::<Vec<_>>());
        assert_eq!(
            counts([-3.0, 5.0, 5.5, f64::NAN, f64::INFINITY]),
            [
                (-3.0, -2.0, 1),
                (-2.0, -1.0, 0),
                (-1.0, 0.0, 0),
                (0.0, 1.0, 0),
                (1.0, 2.0, 0),
                (2.0, 3.0, 0),
                (3.0, 4.0, 0),
                (4.0, 5.0, 0),
                (5.0, 5.5, 2)
            ]
        );
    }

    #[test]
    fn the_order_of_the_numbers_does_not_matter() {
        let values: Vec<f64> = (0..1_000).map(|i| f64::from((i * 7919) % 1_000 - 300) * 0.37).collect();
        let forward = of(values.iter().copied());
        assert_eq!(of(values.iter().rev().copied()), forward);
        assert!((6..=10).contains(&forward.buckets().len()));
        assert_eq!(forward.buckets().iter().map(|b| b.count).sum::<u64>(), 1_000);
        let extremes = [1e-300, f64::MAX, -f64::MAX, 0.0];
        let all = of(extremes);
        assert_eq!(of(extremes.into_iter().rev()), all);
        assert_eq!(all.buckets().iter().map(|b| b.count).sum::<u64>(), 4);
    }
}
