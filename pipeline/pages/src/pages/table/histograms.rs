//! Distributions of the values of columns as bars, each with a table of the same numbers.

use crate::layout::scrolling;
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::histograms::{ColumnHistogram, TableHistograms, ValueCounts};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 90.0;
/// Height below the bars, for the numbers of the axis.
const BOTTOM: f64 = 16.0;
/// Width of a bar next to a value.
const VALUE_WIDTH: f64 = 120.0;
/// Characters of a value.
const VALUE: usize = 60;

/// Shows the distributions of columns, and the share of the rows that was read.
pub fn section(found: &TableHistograms) -> Markup {
    html! {
        @if !found.columns.is_empty() {
            h2 { "Distributions" }
            p .muted { (share(found)) }
            div .panels { @for column in &found.columns { (histogram(column)) } }
        }
    }
}

fn share(found: &TableHistograms) -> String {
    if found.rows == found.rows_total {
        return format!("Of all {} rows.", count(found.rows));
    }
    #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
    let percent = 100.0 * found.rows as f64 / found.rows_total.max(1) as f64;
    format!(
        "Of {} of {} rows ({}%): the first rows of {} of {} row groups, spread evenly over the table.",
        count(found.rows),
        count(found.rows_total),
        number(percent),
        found.groups,
        found.groups_total
    )
}

fn histogram(column: &ColumnHistogram) -> Markup {
    html! {
        section {
            h3 { (visible(&column.name)) }
            @match &column.values {
                ValueCounts::Numbers { low, high, bins } => (numbers(&column.name, (*low, *high), bins)),
                ValueCounts::Texts { frequent, distinct, count: all } => {
                    (values(&column.name, frequent, *all))
                    p .muted { (count(*distinct)) " different values" }
                }
                ValueCounts::Booleans { yes, no } => {
                    (values(&column.name, &[("true".to_string(), *yes), ("false".to_string(), *no)], yes + no))
                }
            }
            @if column.nulls > 0 { p .muted { (count(column.nulls)) " without a value" } }
        }
    }
}

fn numbers(name: &str, (low, high): (f64, f64), bins: &[u64]) -> Markup {
    let most = bins.iter().copied().max().unwrap_or(1).max(1);
    let bounds: Vec<(f64, f64)> = (0..bins.len()).map(|bin| bounds((low, high), bin, bins.len())).collect();
    let label = format!(
        "{}: {} values from {} to {}, at most {} in one of {} bins",
        visible(name),
        count(bins.iter().sum()),
        number(low),
        number(high),
        count(most),
        bins.len()
    );
    html! {
        svg .chart .histogram viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(label) {
            @for (bin, value) in bins.iter().enumerate() { (bar(bin, bins.len(), *value, most)) }
            path .axis d=(format!("M0 {0}H{WIDTH}", HEIGHT - BOTTOM)) {}
            text .tick x="0" y=(HEIGHT - 3.0) { (number(low)) }
            text .tick x=(WIDTH) y=(HEIGHT - 3.0) text-anchor="end" { (number(high)) }
        }
        details {
            summary { "As a table" }
            (scrolling(&format!("Distribution of {name}"), &html! {
                table {
                    thead { tr { th .n { "From" } th .n { "To" } th .n { "Rows" } } }
                    tbody {
                        @for ((from, to), value) in bounds.iter().zip(bins) {
                            tr { td .n { (number(*from)) } td .n { (number(*to)) } td .n { (count(*value)) } }
                        }
                    }
                }
            }))
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn bar(bin: usize, bins: usize, value: u64, most: u64) -> Markup {
    let width = WIDTH / bins as f64;
    let full = (HEIGHT - BOTTOM) * value as f64 / most as f64;
    let height = if value > 0 { full.max(1.0) } else { 0.0 };
    html! {
        rect .bar.c0 x=(format!("{:.1}", bin as f64 * width)) y=(format!("{:.1}", HEIGHT - BOTTOM - height))
            width=(format!("{:.1}", (width - 1.0).max(0.5))) height=(format!("{height:.1}")) {}
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few bins")]
fn bounds((low, high): (f64, f64), bin: usize, bins: usize) -> (f64, f64) {
    let at = |bin: usize| low * (1.0 - bin as f64 / bins as f64) + high * (bin as f64 / bins as f64);
    (at(bin), at(bin + 1))
}

fn values(name: &str, values: &[(String, u64)], all: u64) -> Markup {
    html! {
        (scrolling(&format!("Distribution of {name}"), &html! {
            table {
                thead { tr { th { "Value" } th .n { "Rows" } th { "Share" } } }
                tbody {
                    @for (value, rows) in values {
                        tr {
                            td .wide { (cut(value, VALUE).0) @if value.is_empty() { span .muted { "empty" } } }
                            td .n { (count(*rows)) }
                            td { (share_bar(*rows, all)) }
                        }
                    }
                }
            }
        }))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in an image")]
fn share_bar(rows: u64, all: u64) -> Markup {
    let share = rows as f64 / all.max(1) as f64;
    html! {
        svg .share viewBox=(format!("0 0 {VALUE_WIDTH} 10")) aria-hidden="true" {
            rect .bar.c0 x="0" y="0" height="10" width=(format!("{:.1}", (share * VALUE_WIDTH).max(1.0))) {}
        }
        " " (number(share * 100.0)) "%"
    }
}
