//! Horizontal bars of differences with their intervals.

use super::scale::Scale;
use crate::text::{cut, number, visible};
use maud::{Markup, html};

const WIDTH: f64 = 560.0;
/// Places of the bars; the values are to their right.
const LEFT: f64 = 20.0;
const RIGHT: f64 = 470.0;
/// Height of a name and the bar below it.
const ROW: f64 = 42.0;
/// Place of the middle of the bar.
const MIDDLE: f64 = 30.0;
const BOTTOM: f64 = 22.0;
/// Characters of a name: as many as fit at the larger letters of narrow screens.
const NAME: usize = 60;

/// Difference with its interval.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalBar {
    /// Name of the bar.
    pub name: String,
    /// Length of the bar.
    pub value: f64,
    /// Lower and upper end of the interval.
    pub interval: Option<(f64, f64)>,
}

impl IntervalBar {
    /// Formats the value and its interval.
    pub fn text(&self) -> String {
        let interval = self.interval.map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
        format!("{}{}", signed(self.value), interval.unwrap_or_default())
    }
}

/// Formats a difference with its sign.
pub fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", number(value)) } else { number(value) }
}

/// Draws bars from 0, each with its interval as a line with ends. Nothing is drawn without a finite value.
pub fn interval_bars(title: &str, bars: &[IntervalBar]) -> Markup {
    let bars: Vec<&IntervalBar> = bars.iter().filter(|bar| bar.value.is_finite()).collect();
    if bars.is_empty() {
        return html! { p .empty { "no differences" } };
    }
    let ends = |bar: &&IntervalBar| {
        let (low, high) = bar.interval.filter(|(low, high)| low.is_finite() && high.is_finite()).unwrap_or_default();
        [0.0, bar.value, low, high]
    };
    let ends: Vec<f64> = bars.iter().flat_map(ends).collect();
    let low = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let high = ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = Scale::linear((low, high), (LEFT, RIGHT));
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let height = bars.len() as f64 * ROW + BOTTOM;
    let words: Vec<String> = bars.iter().map(|bar| format!("{} {}", visible(&bar.name), bar.text())).collect();
    html! {
        figure .chart {
            figcaption { (title) }
            svg .chart viewBox=(format!("0 0 {WIDTH} {height}")) role="img"
                aria-label=(format!("{title}: {}", words.join("; "))) {
                @for value in scale.ticks(4) {
                    path .axis d=(format!("M{:.1} 0V{:.1}", scale.place(value), height - BOTTOM)) {}
                    text .tick x=(format!("{:.1}", scale.place(value))) y=(height - 6.0) text-anchor="middle" {
                        (number(value))
                    }
                }
                path .zero d=(format!("M{:.1} 0V{:.1}", scale.place(0.0), height - BOTTOM)) {}
                @for (at, bar) in bars.iter().enumerate() { (drawn(at, bar, &scale)) }
            }
        }
    }
}

fn drawn(at: usize, bar: &IntervalBar, scale: &Scale) -> Markup {
    #[expect(clippy::cast_precision_loss, reason = "a few rows")]
    let top = at as f64 * ROW;
    let middle = top + MIDDLE;
    let (zero, end) = (scale.place(0.0), scale.place(bar.value));
    let (name, hidden) = cut(&bar.name, NAME);
    html! {
        text .on-bar x="0" y=(top + 16.0) { (name) @if hidden > 0 { "…" } }
        rect .bar .c0 x=(format!("{:.1}", zero.min(end))) y=(middle - 6.0) height="12"
            width=(format!("{:.1}", (end - zero).abs())) {}
        @if let Some((low, high)) = bar.interval {
            @let (low, high) = (scale.place(low), scale.place(high));
            path .whisker d=(format!("M{low:.1} {0}H{high:.1}M{low:.1} {1}V{2}M{high:.1} {1}V{2}", middle, middle - 4.0,
                middle + 4.0)) {}
        }
        text x=(RIGHT + 8.0) y=(middle + 4.0) { (signed(bar.value)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, value: f64, interval: Option<(f64, f64)>) -> IntervalBar {
        IntervalBar { name: name.into(), value, interval }
    }

    #[test]
    fn bars_begin_at_zero_and_have_their_interval() {
        // The scale is from −1 to 2 on 20 to 470: 0 at 170, 1 at 320.
        let drawn = interval_bars("difference", &[bar("lr=2", 1.0, Some((-1.0, 2.0)))]).into_string();
        assert!(
            drawn.contains("<rect class=\"bar c0\" x=\"170.0\" y=\"24\" height=\"12\" width=\"150.0\">"),
            "{drawn}"
        );
        assert!(drawn.contains("M20.0 30H470.0"), "{drawn}");
        assert!(drawn.contains("aria-label=\"difference: lr=2 +1 [-1, 2]\""), "{drawn}");
    }

    #[test]
    fn long_names_have_a_line_of_their_own() {
        let name = "learning_rate=0.001,group_size=16,seed=1";
        let drawn = interval_bars("d", &[bar("a", 1.0, None), bar(name, 1.0, None)]).into_string();
        assert!(drawn.contains(&format!("<text class=\"on-bar\" x=\"0\" y=\"58\">{name}</text>")), "{drawn}");
        assert!(drawn.contains("viewBox=\"0 0 560 106\""), "{drawn}");
    }

    #[test]
    fn hostile_names_stay_text_and_missing_values_are_left_out() {
        let drawn = interval_bars("d", &[bar("<script>\u{202e}", -0.5, None), bar("x", f64::NAN, None)]).into_string();
        assert!(drawn.contains("&lt;script&gt;") && !drawn.contains("<script>"), "{drawn}");
        assert!(!drawn.contains('\u{202e}'), "{drawn}");
        assert!(!drawn.contains("class=\"whisker\"") && drawn.contains("-0.5"), "{drawn}");
        assert!(interval_bars("d", &[]).into_string().contains("no differences"));
    }
}
