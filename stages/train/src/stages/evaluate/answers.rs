//! Reports which answers were compared: the share of episodes without a readable one, and sample episodes.

use crate::results::ResultRow;
use crate::unreadable::{UNREADABLE, warn_if_many};
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::MetricInfo;

/// Sample episodes of each outcome and model.
const SAMPLES: usize = 2;
/// Maximum characters of an answer in the table.
const TEXT: usize = 80;

/// Declares the share of the last model.
pub fn of_last_model() -> MetricInfo {
    let doc = "Share of the last model's episodes without an answer that the verifier can read.";
    MetricInfo::new(UNREADABLE, "share", doc).lower().optional()
}

/// Declares the share of a model.
pub fn of_model(model: &str) -> MetricInfo {
    let doc = "Share of this model's episodes without an answer that the verifier can read.";
    MetricInfo::new(format!("{UNREADABLE}_{model}"), "share", doc).lower().optional()
}

/// Sets the metrics, writes the table of sample episodes, and warns if the last model has many unreadable answers.
pub fn write(names: &[String], rows: &[Vec<ResultRow>], context: &mut StageContext, report: &mut StageReport) {
    let mut table = Table::new(
        "Sample episodes",
        ["model", "problem", "verdict", "expected", "answer", "verifier", "episode"].map(String::from),
    );
    for (name, rows) in names.iter().zip(rows) {
        if let Some(share) = share(rows) {
            context.metric(format!("{UNREADABLE}_{name}"), share);
        }
        for row in samples(rows) {
            table.row(cells(name, row));
        }
    }
    if let (Some(name), Some(share)) = (names.last(), rows.last().and_then(|rows| share(rows))) {
        context.metric(UNREADABLE, share);
        report.metric(UNREADABLE, share);
        warn_if_many(&format!("episodes of model `{name}`"), share, context);
    }
    if !table.rows.is_empty() {
        report.table(table);
    }
}

/// Returns the share of judged episodes without a readable answer; `None` without judged episodes.
fn share(rows: &[ResultRow]) -> Option<f64> {
    let judged: Vec<&ResultRow> = rows.iter().filter(|row| row.correct.is_some()).collect();
    let unreadable = judged.iter().filter(|row| row.unreadable.is_some()).count();
    (!judged.is_empty()).then(|| unreadable as f64 / judged.len() as f64)
}

/// Returns the first episodes of each verdict, greedy ones before drawn ones.
fn samples(rows: &[ResultRow]) -> Vec<&ResultRow> {
    let of = |wanted: &'static str| rows.iter().filter(move |row| verdict(row) == Some(wanted)).take(SAMPLES);
    ["unreadable", "wrong", "right"].into_iter().flat_map(of).collect()
}

/// Returns the verdict in a word; `None` for infrastructure failures.
fn verdict(row: &ResultRow) -> Option<&'static str> {
    Some(match (row.correct?, &row.unreadable) {
        (true, _) => "right",
        (false, Some(_)) => "unreadable",
        (false, None) => "wrong",
    })
}

fn cells(name: &str, row: &ResultRow) -> Vec<ReportCell> {
    let answer = row.answer.as_deref().unwrap_or_default();
    let answer = match &row.unreadable {
        Some(reason) if answer.is_empty() => reason.clone(),
        Some(reason) => format!("{} ({reason})", short(answer)),
        None => short(answer),
    };
    let text = |text: &Option<String>| ReportCell::text(short(text.as_deref().unwrap_or_default()));
    vec![
        ReportCell::text(name),
        ReportCell::text(&row.problem_id),
        ReportCell::text(verdict(row).unwrap_or_default()),
        text(&row.expected),
        ReportCell::text(answer),
        text(&row.verifier),
        ReportCell::text(row.rollout.as_deref().unwrap_or_default()),
    ]
}

/// Returns the beginning of a text on one line.
fn short(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(problem: &str, correct: Option<bool>, unreadable: Option<&str>) -> ResultRow {
        ResultRow {
            problem_id: problem.into(),
            correct,
            answer: Some("It is 3 or 5.".into()),
            expected: Some("3".into()),
            verifier: Some("numeric".into()),
            unreadable: unreadable.map(String::from),
            ..ResultRow::default()
        }
    }

    #[test]
    fn share_leaves_out_failures_and_samples_show_each_verdict() {
        let two = "different numbers: 3, 5";
        let rows = [
            row("a", Some(true), None),
            row("b", Some(false), Some(two)),
            row("c", None, None),
            row("d", Some(false), None),
            row("e", Some(true), None),
            row("f", Some(true), None),
        ];
        assert_eq!(share(&rows), Some(0.2));
        assert_eq!(share(&rows[2..3]), None);
        let problems: Vec<&str> = samples(&rows).iter().map(|row| row.problem_id.as_str()).collect();
        assert_eq!(problems, ["b", "d", "a", "e"]);
        let cells = cells("sft", &rows[1]);
        assert_eq!(cells[2], ReportCell::text("unreadable"));
        assert_eq!(cells[4], ReportCell::text("It is 3 or 5. (different numbers: 3, 5)"));
        assert_eq!(short(&"x".repeat(90)).chars().count(), 81);
    }
}
