//! Renders the joined report as one self-contained HTML page, from `page.html`.
//!
//! The template escapes all data; only the style sheet and the drawings of this crate are passed through unescaped. The
//! page has no scripts and no links to other sites.

use super::markdown::{is_numeric, metrics};
use super::numbers::{interval, number};
use super::{merge::slug, svg};
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value, context};
use serde::Serialize;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{Error, Result};

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// Number of characters above which a cell is broken into lines.
const LONG: usize = 80;

#[derive(Serialize)]
struct Section {
    id: String,
    title: String,
    summary: String,
    tables: Vec<HtmlTable>,
    metrics: HtmlTable,
    curves: Vec<Figure>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct HtmlTable {
    title: String,
    columns: Vec<HtmlColumn>,
    rows: Vec<Vec<HtmlCell>>,
}

#[derive(Serialize)]
struct HtmlColumn {
    name: String,
    numeric: bool,
}

/// Cell value with its interval in muted ink.
#[derive(Serialize)]
struct HtmlCell {
    value: String,
    interval: String,
    numeric: bool,
    /// Whether the text is broken into lines.
    long: bool,
}

#[derive(Serialize)]
struct Figure {
    title: String,
    svg: Value,
}

/// Renders the page. Errors: bug, if the template fails.
pub fn page(title: &str, summary: &str, reports: &[StageReport]) -> Result<String> {
    let sections: Vec<Section> = reports.iter().enumerate().map(|(i, report)| section(i, report)).collect();
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let style = Value::from_safe_string(format!("{}{STYLE}", svg::STYLE));
    environment
        .add_template("page.html", TEMPLATE)
        .and_then(|()| {
            environment
                .get_template("page.html")?
                .render(context! { title, summary, style, sections => Value::from(Serde(&sections)) })
        })
        .map_err(|e| Error::bug(format!("template of the report: {e:#}")))
}

fn section(index: usize, report: &StageReport) -> Section {
    let id = format!("{}-{}", slug(&report.title).replace('_', "-"), index + 1);
    let figure = |(i, curve): (usize, &trainyard_api::report::Curve)| Figure {
        title: curve.title.clone(),
        svg: Value::from_safe_string(svg::curve(curve, &format!("{id}-curve-{}", i + 1))),
    };
    Section {
        title: report.title.clone(),
        summary: report.summary.clone(),
        tables: report.tables.iter().map(grid).collect(),
        metrics: grid(&metrics(report)),
        curves: report.curves.iter().enumerate().map(figure).collect(),
        notes: report.notes.clone(),
        id,
    }
}

fn grid(table: &Table) -> HtmlTable {
    let columns: Vec<HtmlColumn> = table
        .columns
        .iter()
        .enumerate()
        .map(|(i, name)| HtmlColumn { name: name.clone(), numeric: is_numeric(table, i) })
        .collect();
    let rows = table
        .rows
        .iter()
        .map(|row| row.iter().zip(&columns).map(|(cell, column)| shown(cell, column.numeric)).collect())
        .collect();
    HtmlTable { title: table.title.clone(), columns, rows }
}

fn shown(cell: &ReportCell, numeric: bool) -> HtmlCell {
    let (value, interval) = match cell {
        ReportCell::Empty => ("–".to_string(), String::new()),
        ReportCell::Text(text) => (text.clone(), String::new()),
        ReportCell::Number(value) => (number(*value), String::new()),
        ReportCell::Interval { value, low, high } => interval(*value, *low, *high),
    };
    let long = value.chars().count() > LONG;
    HtmlCell { value, interval, numeric, long }
}
