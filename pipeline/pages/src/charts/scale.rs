//! Linear and logarithmic scales and their ticks.

/// Map from values to places on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    /// Least value.
    low: f64,
    /// Greatest value.
    high: f64,
    /// Place of the least value.
    start: f64,
    /// Place of the greatest value.
    end: f64,
    is_log: bool,
}

impl Scale {
    /// Returns a linear scale of the values `low` to `high` on the places `start` to `end`. A range without an extent
    /// is widened.
    pub fn linear((low, high): (f64, f64), (start, end): (f64, f64)) -> Self {
        let pad = if high > low { 0.0 } else { low.abs().max(1.0) * 0.05 };
        Self { low: low - pad, high: high + pad, start, end, is_log: false }
    }
    /// Returns a logarithmic scale. Values at or below 0 are at the start.
    pub fn log((low, high): (f64, f64), places: (f64, f64)) -> Self {
        let low = if low > 0.0 { low } else { f64::MIN_POSITIVE };
        let high = high.max(low);
        Self { is_log: true, ..Self::linear((low.log10(), high.log10()), places) }
    }
    /// Returns the place of a value, within the axis.
    pub fn place(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.start + share * (self.end - self.start)
    }
    /// Returns the values of about `count` ticks.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        let values = ticks((self.low, self.high), count);
        if self.is_log { values.into_iter().map(|value| 10f64.powf(value)).collect() } else { values }
    }
}

/// Returns about `count` round values (1, 2 or 5 times a power of ten apart) within a range.
pub fn ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && high > low) || count == 0 {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a few ticks")]
    let raw = (high - low) / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil();
    let values = (0..=count * 2).map(|number| {
        #[expect(clippy::cast_precision_loss, reason = "a few ticks")]
        let value = (first + number as f64) * step;
        value
    });
    // A sum such as -0.1 + 0.1 is a tiny number instead of 0.
    values
        .take_while(|value| *value <= high + step * 1e-9)
        .map(|v| if v.abs() < step * 1e-9 { 0.0 } else { v })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks((0.0, 100.0), 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks((-0.1, 0.1), 4), [-0.1, -0.05, 0.0, 0.05, 0.1]);
        assert!(ticks((1.0, 1.0), 4).is_empty() && ticks((0.0, f64::INFINITY), 4).is_empty());
    }

    #[test]
    fn places_are_within_the_axis() {
        let scale = Scale::linear((0.0, 10.0), (100.0, 0.0));
        assert_eq!([0.0, 5.0, 10.0, 99.0].map(|value| scale.place(value)), [100.0, 50.0, 0.0, 0.0]);
        let log = Scale::log((1.0, 100.0), (0.0, 2.0));
        assert_eq!([1.0, 10.0, 100.0, 0.0].map(|value| log.place(value)), [0.0, 1.0, 2.0, 0.0]);
        assert_eq!(Scale::linear((3.0, 3.0), (0.0, 1.0)).place(3.0), 0.5, "a constant is in the middle");
    }
}
