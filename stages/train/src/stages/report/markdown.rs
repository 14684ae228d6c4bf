//! Renders the joined report as Markdown: tables and metrics, no curves.

use super::numbers::{interval, number};
use trainyard_api::report::{ReportCell, StageReport, Table};

/// Renders the page.
pub fn page(title: &str, summary: &str, reports: &[StageReport]) -> String {
    let mut out = format!("# {title}\n");
    paragraph(&mut out, summary);
    for report in reports {
        out.push_str(&format!("\n## {}\n", report.title));
        paragraph(&mut out, &report.summary);
        for table in &report.tables {
            out.push_str(&format!("\n### {}\n\n", table.title));
            out.push_str(&render_table(table));
        }
        if report.metrics.values().any(|m| !m.detail) {
            out.push_str("\n### Metrics\n\n");
            out.push_str(&render_table(&metrics(report)));
        }
        for note in &report.notes {
            paragraph(&mut out, note);
        }
    }
    out
}

/// Returns a report's metrics as a table, without those that another table shows.
pub fn metrics(report: &StageReport) -> Table {
    let mut table = Table::new("Metrics", ["metric", "value", "unit"]);
    for (name, m) in report.metrics.iter().filter(|(_, m)| !m.detail) {
        table.row([
            ReportCell::text(name),
            ReportCell::interval(m.value, m.low.zip(m.high)),
            ReportCell::text(&m.unit),
        ]);
    }
    table
}

fn render_table(table: &Table) -> String {
    let mut out = format!("| {} |\n", table.columns.iter().map(|c| escape(c)).collect::<Vec<_>>().join(" | "));
    let dashes: Vec<&str> =
        (0..table.columns.len()).map(|i| if is_numeric(table, i) { "--:" } else { "---" }).collect();
    out.push_str(&format!("| {} |\n", dashes.join(" | ")));
    for row in &table.rows {
        out.push_str(&format!("| {} |\n", row.iter().map(|c| escape(&cell(c))).collect::<Vec<_>>().join(" | ")));
    }
    out
}

/// Returns a cell as plain text.
pub fn cell(cell: &ReportCell) -> String {
    match cell {
        ReportCell::Empty => String::new(),
        ReportCell::Text(text) => text.clone(),
        ReportCell::Number(value) => number(*value),
        ReportCell::Interval { value, low, high } => {
            let (value, range) = interval(*value, *low, *high);
            format!("{value} {range}")
        }
    }
}

/// Returns whether all cells of a column are numbers.
pub fn is_numeric(table: &Table, column: usize) -> bool {
    table.rows.iter().all(|row| !matches!(row.get(column), Some(ReportCell::Text(_))))
}

fn paragraph(out: &mut String, text: &str) {
    if !text.is_empty() {
        out.push_str(&format!("\n{text}\n"));
    }
}

fn escape(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
