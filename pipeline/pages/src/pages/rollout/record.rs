//! Row of any table as names and values.

use crate::layout::scrolling;
use crate::text::{count, cut};
use maud::{Markup, html};
use serde_json::Value;
use trainyard_views::rollouts::TableRecord;

/// Maximum characters of a value.
const VALUE: usize = 4_000;
/// Maximum columns.
const COLUMNS: usize = 500;

/// Shows the cells of a row.
pub fn cells(found: &TableRecord) -> Markup {
    let more = found.cells.len().saturating_sub(COLUMNS);
    html! {
        (scrolling("Cells of the row", &html! {
            table {
                thead { tr { th { "Column" } th { "Value" } } }
                tbody {
                    @for (name, value) in found.cells.iter().take(COLUMNS) {
                        tr { th scope="row" { (cut(name, 120).0) } td .wide { (cell(value)) } }
                    }
                }
            }
        }))
        @if more > 0 { p .muted { (count(more as u64)) " more columns" } }
    }
}

fn cell(value: &Value) -> Markup {
    let text = match value {
        Value::Null => return html! { span .muted { "no value" } },
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        other => return html! { (other.to_string()) },
    };
    let (shown, more) = cut(&text, VALUE);
    html! { pre { (shown) } @if more > 0 { p .muted { (count(more as u64)) " more characters" } } }
}
