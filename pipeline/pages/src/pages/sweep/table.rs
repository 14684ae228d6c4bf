//! Table of a sweep: axes and metrics as columns, sorted by links in the head.

use super::address::Shown;
use crate::layout::scrolling;
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::sweep::{SweepCell, SweepRow, SweepView, axes_of};

/// Maximum rows.
const MAX_ROWS: usize = 500;
/// Instances of a row that are linked.
const MAX_LINKS: usize = 8;

/// Renders the table.
pub fn content(shown: &Shown<'_>, found: &SweepView) -> Markup {
    let rows = &found.rows[..found.rows.len().min(MAX_ROWS)];
    let table = html! {
        table {
            thead {
                tr {
                    @for axis in shown_axes(found) { (head(shown, axis, false)) }
                    th { "Instances" }
                    @for metric in &found.metrics { (head(shown, metric, true)) }
                }
            }
            tbody { @for row in rows { (line(shown, found, row)) } }
        }
    };
    html! {
        h2 { "Instances" }
        @if let Some(pooled) = &found.pooled {
            p .muted { "Means over " code { (visible(pooled)) } " ± standard deviation, with the number of values." }
        }
        (scrolling("Instances of the sweep", &table))
        @if found.rows.len() > rows.len() {
            p .muted { (count((found.rows.len() - rows.len()) as u64)) " more rows; pool them over an axis." }
        }
    }
}

fn shown_axes(found: &SweepView) -> impl Iterator<Item = &String> {
    found.axes.iter().filter(|axis| found.pooled.as_ref() != Some(axis))
}

/// Returns a column's head with the link that sorts by it: metrics the largest first.
fn head(shown: &Shown<'_>, name: &str, is_number: bool) -> Markup {
    let falling = format!("-{name}");
    let sort = shown.chosen.sort.as_deref();
    let (is_rising, is_falling) = (sort == Some(name), sort == Some(falling.as_str()));
    let next = if is_falling || (!is_number && !is_rising) { name } else { falling.as_str() };
    let order = if is_rising { Some("ascending") } else { is_falling.then_some("descending") };
    let class = if is_number { "n" } else { "axis" };
    html! {
        th .(class) aria-sort=[order] {
            a href=(shown.with("sort", next)) {
                (visible(name))
                @if is_rising { span aria-hidden="true" { " ▲" } }
                @if is_falling { span aria-hidden="true" { " ▼" } }
            }
        }
    }
}

fn line(shown: &Shown<'_>, found: &SweepView, row: &SweepRow) -> Markup {
    let axes = found.axes.iter().zip(&row.axes).filter(|(axis, _)| found.pooled.as_ref() != Some(axis));
    let is_baseline = found.baseline.as_deref() == Some(row.name.as_str());
    html! {
        tr {
            @for (_, value) in axes { td { (visible(value.as_deref().unwrap_or("–"))) } }
            td {
                @match row.stages.as_slice() {
                    [stage] => a href=(shown.links.stage(shown.run, stage)) { (statuses(row)) },
                    many => { (statuses(row)) ": " (instances(shown, found, many)) },
                }
                @if is_baseline { " " span .tag { "baseline" } }
            }
            @for cell in &row.cells { td .n { (value(cell)) } }
        }
    }
}

/// Returns links to pooled instances, by their values on the pooled axis.
fn instances(shown: &Shown<'_>, found: &SweepView, stages: &[String]) -> Markup {
    let value = |key: &str| {
        let pooled = axes_of(key).into_iter().find(|axis| found.pooled.as_ref() == Some(&axis.axis));
        pooled.map_or_else(|| key.to_string(), |axis| format!("{}={}", axis.axis, axis.value))
    };
    html! {
        @for (at, stage) in stages.iter().take(MAX_LINKS).enumerate() {
            @if at > 0 { ", " }
            a href=(shown.links.stage(shown.run, stage)) { (cut(&value(stage), 60).0) }
        }
        @if stages.len() > MAX_LINKS { " and " (stages.len() - MAX_LINKS) " more" }
    }
}

fn statuses(row: &SweepRow) -> String {
    let counts: Vec<String> = row.statuses.iter().map(|(status, count)| format!("{count} {status}")).collect();
    counts.join(", ")
}

fn value(cell: &SweepCell) -> Markup {
    html! {
        @match cell.mean {
            None => span .muted { "–" },
            Some(mean) => {
                (number(mean))
                @if let Some(deviation) = cell.deviation { " ± " (number(deviation)) }
                @if cell.values.len() > 1 { span .muted { " n=" (cell.values.len()) } }
            },
        }
    }
}
