//! Tables of differing keys and metrics, which the comparisons of runs and of artifacts share.

use crate::charts::signed;
use crate::layout::scrolling;
use crate::text::{cut, number};
use maud::{Markup, html};
use serde_json::Value;
use trainyard_views::diff::{ConfigChange, MetricChange};

/// Maximum rows of a list.
pub const MAX_ROWS: usize = 200;
/// Maximum characters of a value.
const CHARS: usize = 240;

/// Renders differing keys below a heading; nothing without any.
pub fn keys(title: &str, changes: &[ConfigChange]) -> Markup {
    html! {
        @if !changes.is_empty() {
            h2 { (title) }
            (scrolling(title, &key_table(changes)))
            (more(changes.len(), MAX_ROWS))
        }
    }
}

/// Returns the table of differing keys.
pub fn key_table(changes: &[ConfigChange]) -> Markup {
    html! {
        table {
            thead { tr { th { "Key" } th { "A" } th { "B" } } }
            tbody {
                @for change in changes.iter().take(MAX_ROWS) {
                    tr {
                        td .mono { (short(&change.path)) }
                        td .wide { (value(change.a.as_ref())) }
                        td .wide { (value(change.b.as_ref())) }
                    }
                }
            }
        }
    }
}

fn value(value: Option<&Value>) -> Markup {
    match value {
        None => html! { span .muted { "absent" } },
        Some(Value::String(text)) => html! { code { (short(text)) } },
        Some(other) => html! { code { (short(&other.to_string())) } },
    }
}

/// Returns the beginning of a text, made visible.
pub fn short(text: &str) -> String {
    let (shown, hidden) = cut(text, CHARS);
    if hidden > 0 { format!("{shown}… {hidden} more") } else { shown.into_owned() }
}

/// Returns the table of metrics, those that differ first.
pub fn metrics(changes: &[MetricChange]) -> Markup {
    let (changed, equal): (Vec<&MetricChange>, Vec<&MetricChange>) = changes.iter().partition(|row| row.is_changed());
    let rows: Vec<&MetricChange> = changed.into_iter().chain(equal).collect();
    html! {
        (scrolling("Metrics", &html! {
            table {
                thead { tr { th { "Metric" } th .n { "A" } th .n { "B" } th .n { "B − A" } } }
                tbody {
                    @for row in rows.iter().take(MAX_ROWS) {
                        tr {
                            td .mono { (short(&row.name)) }
                            td .n { (side(row.a, row.interval_a)) }
                            td .n { (side(row.b, row.interval_b)) }
                            td .n {
                                @match row.difference {
                                    Some(0.0) => span .muted { "equal" },
                                    Some(difference) => (signed(difference)),
                                    None => span .muted { "–" },
                                }
                            }
                        }
                    }
                }
            }
        }))
        (more(rows.len(), MAX_ROWS))
    }
}

fn side(value: Option<f64>, interval: Option<(f64, f64)>) -> String {
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", number(low), number(high))).unwrap_or_default();
    value.map_or_else(|| "–".to_string(), |value| number(value) + &interval)
}

/// Returns a note about the entries of a list that are not shown.
pub fn more(count: usize, shown: usize) -> Markup {
    html! { @if count > shown { p .muted { (count - shown) " more" } } }
}
