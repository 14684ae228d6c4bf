//! Draws a curve as one line of text.

/// Levels of a sparkline, from the lowest.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws finite values in order as bars between their minimum and maximum, at most `width` of them. A bar of several
/// values is their mean; equal values are drawn at half height.
pub fn sparkline(values: &[f64], width: usize) -> String {
    let values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let bars = means(&values, width);
    let low = bars.iter().copied().fold(f64::INFINITY, f64::min);
    let high = bars.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let level = |value: f64| match high > low {
        true => LEVELS[((value - low) / (high - low) * (LEVELS.len() - 1) as f64).round() as usize],
        false => LEVELS[LEVELS.len() / 2 - 1],
    };
    bars.into_iter().map(level).collect()
}

/// Returns the means of `width` adjacent parts of nearly equal length, or all values if there are no more.
fn means(values: &[f64], width: usize) -> Vec<f64> {
    let count = width.min(values.len());
    let part = |at: usize| &values[at * values.len() / count..(at + 1) * values.len() / count];
    let mean = |part: &[f64]| part.iter().map(|value| value / part.len() as f64).sum::<f64>();
    (0..count).map(|at| mean(part(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_bars_between_minimum_and_maximum() {
        let rising: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(sparkline(&rising, 20), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[2.0, 1.0], 20), "█▁");
        assert_eq!(sparkline(&[3.0, 3.0], 20), "▄▄");
        assert_eq!(sparkline(&[f64::NAN, 1.0, f64::INFINITY, 2.0], 20), "▁█");
        assert_eq!(sparkline(&[], 20), "");
        assert_eq!(sparkline(&[1.0], 0), "");
    }

    #[test]
    fn adjacent_values_share_a_bar() {
        assert_eq!(means(&[1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
        assert_eq!(means(&[1.0, 2.0, 3.0, 6.0, 9.0], 2), [1.5, 6.0]);
        let many: Vec<f64> = (0..1_000).map(f64::from).collect();
        assert_eq!(sparkline(&many, 24).chars().count(), 24);
    }

    #[test]
    fn large_values_do_not_overflow() {
        assert_eq!(sparkline(&[f64::MAX, f64::MAX, f64::MAX, 0.0], 2), "█▁");
    }
}
