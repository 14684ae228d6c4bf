//! Rows of any table: chosen columns, rows by a condition, and the distribution of the values of each column.

mod form;
mod histograms;
mod params;
#[cfg(test)]
mod tests;

use self::params::{PAGE, RowsParams};
use crate::error::PageResult;
use crate::layout::{document, empty, scrolling};
use crate::links::Links;
use crate::pages::artifact_parts::{Tab, cell, mistake, tabs};
use crate::pages::rollout_parts::place::{ArtifactPlace, of_request};
use crate::queries::{ConditionQuery, MatchingRows};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, visible};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::Error;
use trainyard_views::histograms::{self as distributions, TableHistograms};
use trainyard_views::table_rows::{self, RowChoice, TableRows};

/// Limit on the time of a condition.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Shows a page of rows.
pub async fn rows(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let mut params = RowsParams::of(pairs)?;
    let links = &page.links;
    let heading = place.heading(links, format!("Rows of {}", place.name));
    if !params.id.is_empty() {
        let found = table_rows::row_with_id(&app.store, &place.name, &place.found, &params.id).await;
        params.from = found.map_err(of_request)?;
    }
    let matching = match matching(&app, &place, &params).await {
        Some(Err(error)) => {
            let content = html! {
                (tabs(links, &place, Tab::Rows))
                (form::condition(&params))
                (mistake(&error))
            };
            return Ok(document(links, &heading, &content));
        }
        Some(Ok(matching)) => Some(matching),
        None => None,
    };
    let choice = match &matching {
        Some(matching) => RowChoice::These(matching.rows.clone()),
        None => RowChoice::From(params.from, PAGE),
    };
    let read = table_rows::rows(&app.store, &place.name, &place.found, &params.columns, choice);
    let found = read.await.map_err(of_request)?;
    let distributions = match matching.is_none() && params.from == 0 {
        true => Some(distributions::of_columns(&app.store, &place.name, &place.found, found.shown.clone()).await?),
        false => None,
    };
    let shown = Shown { links, place: &place, params: &params, found: &found, matching: matching.as_ref() };
    Ok(document(links, &heading, &content(&shown, distributions.as_ref())))
}

/// Content of the page.
struct Shown<'a> {
    links: &'a Links,
    place: &'a ArtifactPlace,
    params: &'a RowsParams,
    found: &'a TableRows,
    matching: Option<&'a MatchingRows>,
}

/// Finds the rows of the condition, if there is one.
async fn matching(app: &PageState, place: &ArtifactPlace, params: &RowsParams) -> Option<Result<MatchingRows, Error>> {
    if params.condition.is_empty() {
        return None;
    }
    let Some(find) = &app.queries.matching else {
        return Some(Err(Error::invalid("this server finds no rows by a condition")
            .help("`trainyard artifacts show ARTIFACT --where EXPRESSION` does")));
    };
    let query = ConditionQuery {
        artifact: format!("{}/{}", place.digest, place.output()),
        condition: params.condition.clone(),
        from: usize::try_from(params.from).unwrap_or(usize::MAX),
        rows: PAGE,
        timeout: TIMEOUT,
    };
    Some(find(query).await)
}

fn content(shown: &Shown<'_>, distributions: Option<&TableHistograms>) -> Markup {
    let Shown { links, place, params, found, matching } = shown;
    html! {
        (tabs(links, place, Tab::Rows))
        (form::condition(params))
        (form::columns(params, found))
        h2 { (summary(found, *matching)) }
        @if found.rows.is_empty() {
            (empty(if matching.is_some() { "No row has this property." } else { "There are no rows from here on." }))
        } @else {
            (scrolling("Rows", &table(links, place, found)))
        }
        (pages(shown))
        @if let Some(distributions) = distributions { (histograms::section(distributions)) }
    }
}

fn summary(found: &TableRows, matching: Option<&MatchingRows>) -> String {
    match matching {
        Some(matching) => format!("{} of {} rows match", count(matching.matching), count(matching.of)),
        None if found.total == 1 => "1 row".to_string(),
        None => format!("{} rows", count(found.total)),
    }
}

fn table(links: &Links, place: &ArtifactPlace, found: &TableRows) -> Markup {
    html! {
        table {
            thead { tr { th .n { "Row" } @for name in &found.shown { th { (visible(name)) } } } }
            tbody {
                @for row in &found.rows {
                    tr {
                        td .n { a href=(place.row(links, row.row)) { (row.row) } }
                        @for value in &row.cells { (cell(value)) }
                    }
                }
            }
        }
    }
}

fn pages(shown: &Shown<'_>) -> Markup {
    let Shown { links, place, params, found, matching } = shown;
    let total = matching.map_or(found.total, |matching| matching.matching);
    let end = params.from.saturating_add(PAGE as u64);
    let address = |from: u64| format!("{}{}", place.within(links, &["rows"]), params.from(from));
    let last = total.saturating_sub(1) / PAGE as u64 * PAGE as u64;
    html! {
        nav .pages aria-label="More rows" {
            @if params.from > 0 {
                a href=(address(0)) { "First" }
                a rel="prev" href=(address(params.from.saturating_sub(PAGE as u64))) { "Rows before" }
            }
            @if end < total {
                a rel="next" href=(address(end)) { "Rows after" }
                a href=(address(last)) { "Last" }
                span .muted { (count(total - end)) " more" }
            }
        }
    }
}
