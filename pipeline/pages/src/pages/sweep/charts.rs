//! Charts of a sweep: differences from the baseline with intervals, and learning curves of the instances.

use super::address::Shown;
use crate::charts::{IntervalBar, LineChart, Series, interval_bars};
use crate::layout::empty;
use crate::text::visible;
use maud::{Markup, html};
use trainyard_views::sweep::{InstanceCurve, SweepCurves, SweepView};

/// Maximum bars.
const MAX_BARS: usize = 40;

/// Draws the differences of the first metric from the baseline.
pub fn differences(found: &SweepView) -> Markup {
    let (Some(metric), Some(baseline)) = (found.metrics.first(), &found.baseline) else { return html! {} };
    let bars: Vec<IntervalBar> = found
        .differences
        .iter()
        .take(MAX_BARS)
        .map(|row| IntervalBar { name: row.name.clone(), value: row.difference, interval: row.interval })
        .collect();
    let title = format!("{} minus {}", visible(metric), visible(baseline));
    html! {
        h2 { "Differences of " (visible(metric)) }
        @if bars.is_empty() {
            (empty("No other row has this metric for the same values of the pooled axis."))
        } @else {
            p .muted { "Paired by the pooled axis, with 95% t intervals over the pairs; one pair has no interval." }
            (interval_bars(&title, &bars))
            ul .legend {
                @for (row, bar) in found.differences.iter().zip(&bars) {
                    li {
                        (visible(&row.name)) ": " (bar.text()) ", " (row.pairs)
                        @if row.pairs == 1 { " pair" } @else { " pairs" }
                    }
                }
            }
        }
        @if found.differences.len() > MAX_BARS {
            p .muted { (found.differences.len() - MAX_BARS) " more rows; pool them over an axis." }
        }
    }
}

/// Draws a learning curve of the instances, and the choice of it.
pub fn curves(shown: &Shown<'_>, found: &SweepView, drawn: &SweepCurves, instances: usize) -> Markup {
    html! {
        h2 #curves { "Learning curves" }
        @if drawn.names.is_empty() {
            (empty("No instance has reported a learning curve."))
        } @else {
            form .filters method="get" action="#curves" {
                label {
                    "Curve"
                    select name="curve" {
                        @for name in &drawn.names {
                            @let is_chosen = drawn.name.as_ref() == Some(name);
                            option value=(name) selected[is_chosen] { (visible(name)) }
                        }
                    }
                }
                @for (name, value) in shown.parameters_without("curve") {
                    input type="hidden" name=(name) value=(visible(value));
                }
                button type="submit" { "Draw" }
            }
            (chart(found, drawn).draw())
            @if instances > drawn.curves.len() {
                p .muted { (drawn.curves.len()) " of " (instances) " instances are drawn." }
            }
        }
    }
}

fn chart(found: &SweepView, drawn: &SweepCurves) -> LineChart {
    let series = |curve: &InstanceCurve| Series {
        name: visible(axes(&curve.stage, &found.stage)).into_owned(),
        points: curve.points.iter().map(|(step, value)| (*step as f64, *value)).collect(),
    };
    LineChart {
        title: format!("{} by step", visible(drawn.name.as_deref().unwrap_or("Learning curve"))),
        series: drawn.curves.iter().map(series).collect(),
        smoothing: 0.0,
        is_log: false,
    }
}

/// Returns the axes of an instance without the name of its stage.
fn axes<'a>(key: &'a str, stage: &str) -> &'a str {
    key.strip_prefix(stage).filter(|rest| !rest.is_empty()).unwrap_or(key)
}
