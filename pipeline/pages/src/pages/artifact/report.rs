//! Content of a report: summary, tables, metrics, comparisons, curves, notes.

use super::measured::comparisons;
use crate::charts::{LineChart, Series};
use crate::layout::scrolling;
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_api::report::{Curve, ReportCell, ReportMetric, StageReport, Table};

/// Maximum rows of a table.
const ROWS: usize = 200;
/// Maximum characters of a cell.
const CELL: usize = 2_000;
/// Maximum tables, curves and notes.
const PARTS: usize = 60;

/// Shows a report.
pub fn section(report: &StageReport) -> Markup {
    html! {
        h2 { (visible(&report.title)) }
        @if !report.summary.is_empty() { p { (cut(&report.summary, CELL).0) } }
        @for of in report.tables.iter().take(PARTS) { (table(of)) }
        @if !report.curves.is_empty() {
            div .panels { @for of in report.curves.iter().take(PARTS) { (curve(of)) } }
        }
        (metrics(report))
        @if !report.comparisons.is_empty() {
            h3 { "Comparisons" }
            (comparisons(&report.comparisons))
        }
        @for note in report.notes.iter().take(PARTS) { p .muted { (cut(note, CELL).0) } }
    }
}

fn table(of: &Table) -> Markup {
    let is_number = |row: &Vec<ReportCell>, at: usize| !matches!(row.get(at), Some(ReportCell::Text(_)));
    let class = |at: usize| of.rows.iter().all(|row| is_number(row, at)).then_some("n");
    let classes: Vec<Option<&str>> = (0..of.columns.len()).map(class).collect();
    html! {
        h3 { (visible(&of.title)) }
        (scrolling(&of.title, &html! {
            table {
                thead {
                    tr {
                        @for (name, class) in of.columns.iter().zip(&classes) { th class=[class] { (visible(name)) } }
                    }
                }
                tbody {
                    @for row in of.rows.iter().take(ROWS) {
                        tr { @for (value, class) in row.iter().zip(&classes) { td class=[class] { (cell(value)) } } }
                    }
                }
            }
        }))
        @if of.rows.len() > ROWS { p .muted { (count((of.rows.len() - ROWS) as u64)) " more rows" } }
    }
}

fn cell(value: &ReportCell) -> Markup {
    html! {
        @match value {
            ReportCell::Empty => {}
            ReportCell::Text(text) => (cut(text, CELL).0),
            ReportCell::Number(value) => (number(*value)),
            ReportCell::Interval { value, low, high } => {
                (number(*value)) " [" (number(*low)) ", " (number(*high)) "]"
            }
        }
    }
}

fn curve(of: &Curve) -> Markup {
    let series = |series: &trainyard_api::report::Series| Series {
        name: series.name.clone(),
        points: series.points.iter().map(|[x, y]| (*x, *y)).collect(),
    };
    let y = if of.y.is_empty() { String::new() } else { format!(", {}", visible(&of.y)) };
    let title = format!("{}{y} by {}", visible(&of.title), visible(&of.x));
    LineChart { title, series: of.series.iter().map(series).collect(), smoothing: 0.0, is_log: false }.draw()
}

fn metrics(report: &StageReport) -> Markup {
    let shown: Vec<(&String, &ReportMetric)> = report.metrics.iter().filter(|(_, metric)| !metric.detail).collect();
    html! {
        @if !shown.is_empty() {
            h3 { "Metrics of the report" }
            (scrolling("Metrics of the report", &html! {
                table {
                    thead { tr { th { "Metric" } th .n { "Value" } th { "95% interval" } th { "Unit" } } }
                    tbody {
                        @for (name, metric) in shown {
                            tr {
                                td { (visible(name)) }
                                td .n { (number(metric.value)) }
                                td {
                                    @if let Some((low, high)) = metric.low.zip(metric.high) {
                                        (number(low)) " to " (number(high))
                                    }
                                }
                                td { (visible(&metric.unit)) }
                            }
                        }
                    }
                }
            }))
        }
    }
}
