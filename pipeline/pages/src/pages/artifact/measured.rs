//! Metrics and comparisons of the stage that made an artifact.

use crate::layout::scrolling;
use crate::text::{number, visible};
use maud::{Markup, html};
use std::collections::BTreeMap;
use trainyard_core::{Comparison, Manifest};

/// Metrics above which the list is folded.
const OPEN: usize = 24;

/// Lists the metrics and comparisons.
pub fn section(manifest: &Manifest) -> Markup {
    html! {
        @if !manifest.metrics.is_empty() {
            h2 { "Metrics of the stage" }
            details open[manifest.metrics.len() <= OPEN] {
                summary { (manifest.metrics.len()) " metrics" }
                (metrics(&manifest.metrics))
            }
        }
        @if !manifest.comparisons.is_empty() {
            h2 { "Comparisons" }
            (comparisons(&manifest.comparisons))
        }
    }
}

fn metrics(metrics: &BTreeMap<String, f64>) -> Markup {
    scrolling(
        "Metrics",
        &html! {
            table {
                thead { tr { th { "Metric" } th .n { "Value" } } }
                tbody {
                    @for (name, value) in metrics {
                        tr { td { (visible(name)) } td .n { (number(*value)) } }
                    }
                }
            }
        },
    )
}

/// Lists comparisons: both sides, and the difference with its interval.
pub fn comparisons(rows: &[Comparison]) -> Markup {
    let side = |value: Option<f64>| value.map(number).unwrap_or_default();
    scrolling(
        "Comparisons",
        &html! {
            table {
                thead {
                    tr {
                        th { "Metric" } th .n { "Baseline" } th .n { "Value" } th .n { "Difference" }
                        th { "95% interval" } th .n { "Problems" } th { "Unit" }
                    }
                }
                tbody {
                    @for row in rows {
                        tr {
                            td { (visible(&row.metric)) }
                            td .n { (side(row.b)) }
                            td .n { (side(row.a)) }
                            td .n { (side(row.difference)) }
                            td { @if let Some((low, high)) = row.low.zip(row.high) { (interval(low, high)) } }
                            td .n { @if let Some(n) = row.n { (n) } }
                            td { (visible(&row.unit)) }
                        }
                    }
                }
            }
        },
    )
}

fn interval(low: f64, high: f64) -> String {
    format!("{} to {}", number(low), number(high))
}
