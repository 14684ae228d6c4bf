//! SQL over an artifact: one SELECT, run in a bounded process.

use crate::error::{PageError, PageResult};
use crate::layout::{document, empty, scrolling};
use crate::links::Links;
use crate::pages::artifact_parts::{Tab, cell, mistake, tabs};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::queries::{SelectQuery, SelectResult};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, cut, visible};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::Error;

/// Rows returned unless the form has another number.
const ROWS: usize = 100;
/// Maximum rows returned.
const MAX_ROWS: usize = 1_000;
/// Limit on the time of a statement.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum characters of a statement.
const MAX_CHARS: usize = 10_000;
/// Columns of the artifact that are listed.
const COLUMNS: usize = 100;

/// Statement of the form.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StatementParams {
    /// SQL statement.
    sql: Option<String>,
    /// Maximum number of rows.
    rows: Option<usize>,
}

/// Shows the form, and the result of its statement.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(params): Query<StatementParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    require_table(&place)?;
    let statement = params.sql.as_deref().map(str::trim).filter(|sql| !sql.is_empty());
    let rows = params.rows.unwrap_or(ROWS).clamp(1, MAX_ROWS);
    let result = match statement {
        Some(statement) => Some(run(&app, &place, statement, rows).await),
        None => None,
    };
    let content = html! {
        (tabs(&page.links, &place, Tab::Query))
        (form(statement, rows))
        @match &result {
            Some(Ok(result)) => (table(result)),
            Some(Err(error)) => { (mistake(error)) (command(&place, statement.unwrap_or_default())) }
            None => (examples(&page.links, &place)),
        }
        (columns(&place))
    };
    Ok(document(&page.links, &place.heading(&page.links, format!("SQL over {}", place.name)), &content))
}

/// Refuses artifacts without rows. Errors: 404.
fn require_table(place: &ArtifactPlace) -> Result<(), PageError> {
    let output = place.found.output();
    if output.table.is_some() {
        return Ok(());
    }
    Err(PageError::new(StatusCode::NOT_FOUND, format!("{} is a {}, not a table", place.name, output.kind))
        .help("its page lists its files"))
}

async fn run(app: &PageState, place: &ArtifactPlace, statement: &str, rows: usize) -> Result<SelectResult, Error> {
    if statement.chars().count() > MAX_CHARS {
        return Err(Error::invalid(format!("the statement has more than {MAX_CHARS} characters"))
            .help("shorten it, or run it with `trainyard artifacts query`"));
    }
    let Some(select) = &app.queries.select else {
        return Err(Error::invalid("this server runs no statements")
            .help("`trainyard artifacts query ARTIFACT \"SELECT …\"` does"));
    };
    let artifact = format!("{}/{}", place.digest, place.output());
    select(SelectQuery { artifact, statement: statement.to_string(), rows, timeout: TIMEOUT }).await
}

fn form(statement: Option<&str>, rows: usize) -> Markup {
    html! {
        form .statement method="get" {
            label {
                "SELECT over this artifact, which is " code { "self" }
                textarea name="sql" rows="5" spellcheck="false" maxlength=(MAX_CHARS) required {
                    (statement.unwrap_or("select * from self limit 10"))
                }
            }
            label { "Rows, at most" input type="number" name="rows" min="1" max=(MAX_ROWS) value=(rows); }
            button type="submit" { "Run" }
            p .muted {
                "It ends after " (TIMEOUT.as_secs()) " seconds, reads only, and returns at most "
                (count(MAX_ROWS as u64)) " rows. Other artifacts can be named, as in "
                code { "from latest/evaluate/results" } "."
            }
        }
    }
}

fn table(result: &SelectResult) -> Markup {
    let is_number = |kind: &str| (kind == "int" || kind == "float").then_some("n");
    html! {
        h2 {
            (count(result.rows.len() as u64)) @if result.rows.len() == 1 { " row" } @else { " rows" }
            @if result.truncated { ", and more" }
        }
        @if result.rows.is_empty() {
            (empty("No row has these properties."))
        } @else {
            (scrolling("Result", &html! {
                table {
                    thead {
                        tr {
                            @for column in &result.columns {
                                th class=[is_number(&column.r#type)] { (cut(&column.name, 200).0) }
                            }
                        }
                    }
                    tbody { @for row in &result.rows { tr { @for value in row { (cell(value)) } } } }
                }
            }))
        }
    }
}

/// Names the command that runs the statement with other limits.
fn command(place: &ArtifactPlace, statement: &str) -> Markup {
    let quoted = format!("'{}'", statement.replace('\'', r"'\''"));
    html! {
        p { "With other limits, in a terminal:" }
        pre {
            "trainyard artifacts query " (place.digest) "/" (visible(place.output())) " " (cut(&quoted, MAX_CHARS).0)
            " --timeout 5m"
        }
    }
}

fn examples(links: &Links, place: &ArtifactPlace) -> Markup {
    let names: Vec<&str> =
        place.found.output().table.iter().flat_map(|t| t.columns.iter().map(|column| column.name.as_str())).collect();
    let has = |wanted: &[&str]| wanted.iter().all(|name| names.contains(name));
    let all = [
        ("select count(*) from self", true),
        ("select level, avg(reward) as reward from self group by level", has(&["level", "reward"])),
        ("select stop_reason, count(*) as n from self group by stop_reason", has(&["stop_reason"])),
        ("select model, avg(correct) as accuracy from self group by model", has(&["model", "correct"])),
    ];
    let address = |sql: &str| format!("{}{}", place.within(links, &["query"]), crate::links::query(&[("sql", sql)]));
    html! {
        h2 { "Examples" }
        ul {
            @for (sql, _) in all.iter().filter(|(_, is_shown)| *is_shown) {
                li { a href=(address(sql)) { code { (sql) } } }
            }
        }
    }
}

fn columns(place: &ArtifactPlace) -> Markup {
    let table = place.found.output().table.as_ref();
    let names: Vec<&str> = table.iter().flat_map(|t| t.columns.iter().map(|column| column.name.as_str())).collect();
    html! {
        @if !names.is_empty() {
            p .muted {
                "Columns: "
                @for (at, name) in names.iter().take(COLUMNS).enumerate() {
                    @if at > 0 { ", " }
                    code { (cut(name, 100).0) }
                }
                @if names.len() > COLUMNS { " and " (names.len() - COLUMNS) " more" }
                ". Each part of a struct or map is a separate column, as " code { "rewards_answer" } "."
            }
        }
    }
}

#[cfg(test)]
mod tests;
