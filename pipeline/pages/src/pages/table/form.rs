//! Forms of the page of rows: condition, and columns.

use super::params::RowsParams;
use crate::text::visible;
use maud::{Markup, html};
use trainyard_views::table_rows::TableRows;

/// Columns that can be chosen in the form; others can be named in the address.
const COLUMNS: usize = 200;

/// Form with the condition, which keeps the chosen columns.
pub fn condition(params: &RowsParams) -> Markup {
    html! {
        form .filters method="get" role="search" {
            label .condition {
                span { "Rows where (a SQL expression, such as " code { "reward > 0.5" } ")" }
                input type="search" name="where" value=(params.condition) spellcheck="false" autocomplete="off";
            }
            @for column in &params.columns { input type="hidden" name="column" value=(column); }
            button type="submit" { "Find" }
        }
        form .filters method="get" {
            label { "Row with the id" input type="search" name="id" value=(params.id); }
            label { "From row" input type="number" name="from" min="0" inputmode="numeric"; }
            @for column in &params.columns { input type="hidden" name="column" value=(column); }
            button type="submit" { "Go" }
        }
    }
}

/// Form with the columns, which keeps the condition.
pub fn columns(params: &RowsParams, found: &TableRows) -> Markup {
    let hidden = found.columns.len().saturating_sub(found.shown.len());
    html! {
        details .facets {
            summary { "Columns: " (found.shown.len()) " shown, " (hidden) " more" }
            form .filters method="get" {
                @if !params.condition.is_empty() { input type="hidden" name="where" value=(params.condition); }
                fieldset .columns {
                    legend { "Columns" }
                    @for name in found.columns.iter().take(COLUMNS) {
                        label .check {
                            input type="checkbox" name="column" value=(name) checked[found.shown.contains(name)];
                            (visible(name))
                        }
                    }
                }
                button type="submit" { "Show" }
            }
        }
    }
}
