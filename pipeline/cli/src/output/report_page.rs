//! Formats a report: its tables, metrics and comparisons, curves as sparklines, and notes.

use super::clean::{AllowedCodes, clean};
use super::human::table;
use super::metrics::{number, row_text};
use super::sparkline::sparkline;
use super::style::Style;
use trainyard_api::report::{Curve, ReportCell, Series, StageReport, Table};
use trainyard_train::stages::report::markdown;

/// Maximum rows of a table.
const ROWS: usize = 40;
/// Maximum bars of a sparkline: with its numbers, a curve fits 80 columns.
const BARS: usize = 24;

/// Formats a report, without a line feed at the end.
pub fn page(report: &StageReport) -> String {
    let mut parts = vec![heading(&report.title)];
    parts.extend((!report.summary.is_empty()).then(|| plain(&report.summary)));
    parts.extend(report.tables.iter().map(titled));
    let metrics = markdown::metrics(report);
    parts.extend((!metrics.rows.is_empty()).then(|| titled(&metrics)));
    if !report.comparisons.is_empty() {
        let rows: String = report.comparisons.iter().map(|row| format!("\n  {}", row_text(row))).collect();
        parts.push(format!("{}{}", heading("Comparisons"), plain(&rows)));
    }
    parts.extend(report.curves.iter().map(curve));
    parts.extend(report.notes.iter().map(|note| plain(note)));
    parts.join("\n\n")
}

/// Escapes a text of a report, including codes for colors, which the terminal would otherwise obey.
fn plain(text: &str) -> String {
    clean(text, AllowedCodes::Nothing).into_owned()
}

fn heading(title: &str) -> String {
    Style::of_stdout().bold(&plain(title))
}

fn titled(of: &Table) -> String {
    let cells = |row: &Vec<ReportCell>| row.iter().map(markdown::cell).collect::<Vec<String>>();
    let rows: Vec<Vec<String>> = of.rows.iter().take(ROWS).map(cells).collect();
    let columns: Vec<String> = of.columns.iter().map(|name| plain(name)).collect();
    let header: Vec<&str> = columns.iter().map(String::as_str).collect();
    let hidden = of.rows.len() - rows.len();
    let more = match hidden {
        0 => String::new(),
        hidden => format!("\n… {hidden} more rows; `--format json` has all"),
    };
    format!("{}\n{}{more}", heading(&of.title), table(&header, &rows))
}

/// Formats a chart: a line for each series with its first, last, lowest and highest value.
fn curve(chart: &Curve) -> String {
    let ends = || chart.series.iter().flat_map(|series| series.points.first().into_iter().chain(series.points.last()));
    let first = ends().map(|[x, _]| *x).fold(f64::INFINITY, f64::min);
    let last = ends().map(|[x, _]| *x).fold(f64::NEG_INFINITY, f64::max);
    let y = if chart.y.is_empty() { String::new() } else { format!(", {}", plain(&chart.y)) };
    let range = match first <= last {
        true => format!(", {} {} to {}", plain(&chart.x), number(first), number(last)),
        false => String::new(),
    };
    let rows: Vec<Vec<String>> = chart.series.iter().map(line).collect();
    let header = ["series", "curve", "first", "last", "min", "max"];
    format!("{}{y}{range}\n{}", heading(&chart.title), table(&header, &rows))
}

fn line(series: &Series) -> Vec<String> {
    let values: Vec<f64> = series.points.iter().map(|[_, y]| *y).filter(|y| y.is_finite()).collect();
    let low = values.iter().copied().reduce(f64::min);
    let high = values.iter().copied().reduce(f64::max);
    let numbers = [values.first().copied(), values.last().copied(), low, high];
    let numbers = numbers.map(|value| value.map(number).unwrap_or_default());
    [series.name.clone(), sparkline(&values, BARS)].into_iter().chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Comparison;

    fn report() -> StageReport {
        let mut report = StageReport::new("Evaluation");
        report.summary = "Two models on one set.".into();
        report.metric("problems", 300.0).note("Greedy.");
        let mut rows = Table::new("Accuracy", ["model", "accuracy"]);
        rows.row([ReportCell::text("rl"), ReportCell::interval(0.5, Some((0.25, 0.75)))]);
        report.table(rows);
        report.comparisons.push(Comparison { a: Some(0.7), b: Some(0.5), ..Comparison::of("accuracy") });
        report.curve(Curve::new("Loss", "step", "nats").with("train", [(1.0, 2.0), (2.0, 1.5), (3.0, 0.25)]));
        report
    }

    #[test]
    fn tables_and_curves_are_formatted() {
        let expected = "Evaluation\n\nTwo models on one set.\n\n\
                        Accuracy\nmodel  accuracy\nrl     0.500 [0.250, 0.750]\n\n\
                        Metrics\nmetric    value  unit\nproblems    300\n\n\
                        Comparisons\n  accuracy 0.500 → 0.700\n\n\
                        Loss, nats, step 1 to 3\n\
                        series  curve  first   last    min  max\n\
                        train   █▆▁        2  0.250  0.250    2\n\n\
                        Greedy.";
        assert_eq!(page(&report()), expected);
        assert_eq!(page(&StageReport::new("Empty\x1b[31m")), "Empty\\u{1b}[31m");
    }

    #[test]
    fn long_tables_are_cut_and_curves_fit_80_columns() {
        let mut rows = Table::new("Rows", ["n"]);
        (0..50).for_each(|n| {
            rows.row([ReportCell::number(f64::from(n))]);
        });
        assert!(titled(&rows).ends_with("\n39\n… 10 more rows; `--format json` has all"));
        let points = (0..1_000).map(|n| (f64::from(n), -0.123_456 * f64::from(n)));
        let chart = Curve::new("Loss", "step", "").with("validation_loss", points);
        let text = curve(&chart);
        assert!(text.starts_with("Loss, step 0 to 999\nseries"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
