//! Computes axes: a range of data, rounded outward to ticks at 1, 2 or 5 times a power of ten.

/// Linear axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisScale {
    /// Lower end of the axis, in data units.
    pub low: f64,
    /// Upper end of the axis, in data units.
    pub high: f64,
    /// Distance between two ticks.
    pub step: f64,
    /// Values of the ticks, ascending.
    pub ticks: Vec<f64>,
}

impl AxisScale {
    /// Creates an axis over `[low, high]` with about `tick_count` ticks; a range of width 0 is widened. The ends are
    /// ticks if `round`.
    pub fn new(low: f64, high: f64, tick_count: usize, round: bool) -> Self {
        let (low, high) = widen(low, high);
        let step = nice_step((high - low) / tick_count.max(1) as f64);
        // A small tolerance keeps an end in place if it is a multiple of the step up to rounding.
        let (first, last) = if round {
            ((low / step + 1e-9).floor(), (high / step - 1e-9).ceil())
        } else {
            ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor())
        };
        let ticks = (0..=(last - first).max(0.0) as usize).map(|i| (first + i as f64) * step).collect();
        let (low, high) = if round { (first * step, last * step) } else { (low, high) };
        Self { low, high, step, ticks }
    }

    /// Returns the position of a value on a line from `start` to `end`.
    pub fn place(&self, value: f64, start: f64, end: f64) -> f64 {
        start + (value - self.low) / (self.high - self.low) * (end - start)
    }
}

fn widen(low: f64, high: f64) -> (f64, f64) {
    if high > low {
        return (low, high);
    }
    let margin = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
    (low - margin, low + margin)
}

fn nice_step(raw: f64) -> f64 {
    let power = 10f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= raw * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        let s = AxisScale::new(0.13, 0.97, 5, true);
        assert_eq!((s.low, s.high, s.ticks.len()), (0.0, 1.0, 6));
        let x = AxisScale::new(0.0, 87.0, 6, false);
        assert_eq!(x.ticks, [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!((x.low, x.high), (0.0, 87.0));
    }

    #[test]
    fn a_flat_range_is_widened() {
        for v in [0.0, 5.0, -3.0, 1e-9, 1e12] {
            let s = AxisScale::new(v, v, 5, true);
            assert!(s.low <= v && v <= s.high && s.high > s.low && s.ticks.len() > 1, "{v}: {s:?}");
        }
    }

    #[test]
    fn places_are_linear() {
        let s = AxisScale::new(0.0, 10.0, 5, true);
        assert_eq!((s.place(0.0, 100.0, 0.0), s.place(5.0, 100.0, 0.0), s.place(10.0, 100.0, 0.0)), (100.0, 50.0, 0.0));
    }
}
