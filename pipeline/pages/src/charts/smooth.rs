//! Thins and smooths the points of a curve before it is drawn.

/// Points of a line above which neighbors are averaged: more than pixels are of no use.
const MAX_POINTS: usize = 1_000;

/// Returns at most [`MAX_POINTS`] finite points: means of neighbors, if there are more.
pub fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let is_finite = |(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let finite: Vec<(f64, f64)> = points.iter().copied().filter(is_finite).collect();
    let size = finite.len().div_ceil(MAX_POINTS).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        #[expect(clippy::cast_precision_loss, reason = "a few neighbors")]
        let count = chunk.len() as f64;
        (chunk.iter().map(|p| p.0).sum::<f64>() / count, chunk.iter().map(|p| p.1).sum::<f64>() / count)
    };
    finite.chunks(size).map(mean).collect()
}

/// Returns the exponential mean of the points, corrected for its start. `weight`: share of the past, below 1.
pub fn smoothed(points: &[(f64, f64)], weight: f64) -> Vec<(f64, f64)> {
    let (mut sum, mut total) = (0.0, 0.0);
    let next = |(x, y): &(f64, f64)| {
        sum = weight * sum + (1.0 - weight) * y;
        total = weight * total + (1.0 - weight);
        (*x, sum / total)
    };
    points.iter().map(next).collect()
}

/// Returns at most `count` of the items, evenly spread, the last one included.
pub fn spread<T: Clone>(items: &[T], count: usize) -> Vec<T> {
    if items.len() <= count || count == 0 {
        return items.iter().take(count).cloned().collect();
    }
    (1..=count).map(|number| items[number * items.len() / count - 1].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_begins_at_the_first_value() {
        assert_eq!(smoothed(&[(0.0, 4.0), (1.0, 4.0)], 0.9), [(0.0, 4.0), (1.0, 4.0)]);
        let smooth = smoothed(&[(0.0, 0.0), (1.0, 1.0)], 0.5);
        assert!((smooth[1].1 - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(smoothed(&[(0.0, 1.0), (1.0, 9.0)], 0.0), [(0.0, 1.0), (1.0, 9.0)]);
    }

    #[test]
    fn many_points_are_averaged() {
        let points: Vec<(f64, f64)> = (0..2_500).map(|n| (f64::from(n), f64::from(n % 2))).collect();
        let thin = thinned(&points);
        assert_eq!((thin.len(), thin[0]), (834, (1.0, 1.0 / 3.0)));
        assert_eq!(thinned(&[(1.0, f64::NAN), (2.0, 3.0)]), [(2.0, 3.0)]);
    }

    #[test]
    fn spread_items_end_with_the_last() {
        let items: Vec<usize> = (1..=10).collect();
        assert_eq!(spread(&items, 3), [3, 6, 10]);
        assert_eq!(spread(&items, 20), items);
        assert!(spread(&items, 0).is_empty());
    }
}
