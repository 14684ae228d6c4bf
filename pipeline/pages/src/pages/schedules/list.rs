//! List of schedules: state, next tick, last run, why the last tick was skipped, and the problems of the daemon.

use super::words;
use crate::areas;
use crate::error::PageResult;
use crate::layout::{Heading, document, empty, scrolling, status};
use crate::links::{Links, query};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_daemon::daemon::DaemonStatus;
use trainyard_daemon::operations::{self, ScheduleRow};

/// Schedules on one page.
const PAGE: usize = 50;

/// Selection of schedules.
#[derive(Debug, Default, Deserialize)]
pub struct ScheduleFilter {
    /// Part of the name.
    name: Option<String>,
    /// Only schedules after this one.
    after: Option<String>,
}

/// Shows a page of the list.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Query(filter): Query<ScheduleFilter>,
) -> PageResult {
    let daemon = app.daemon()?;
    let part = filter.name.filter(|name| !name.is_empty());
    let mut names = operations::names(&app.store).await?;
    names.retain(|name| part.as_ref().is_none_or(|part| name.contains(part)));
    names.retain(|name| filter.after.as_ref().is_none_or(|after| name > after));
    let next = (names.len() > PAGE).then(|| names[PAGE - 1].clone());
    names.truncate(PAGE);
    let rows = operations::list_of(&app.store, &names, app.clock.unix_millis()).await?;
    let links = &page.links;
    let content = html! {
        (problems(&daemon.api.daemon.status()))
        form .filters method="get" {
            label { "Name contains" input type="search" name="name" value=[part.as_deref()]; }
            button type="submit" { "Filter" }
        }
        @if rows.is_empty() {
            (empty("No schedules here. A file of the folder with the key `schedule` makes one."))
        } @else {
            (scrolling("Schedules", &table(links, &rows)))
        }
        @if let Some(next) = &next {
            nav .pages aria-label="More schedules" {
                @let part = part.as_deref().map(|part| ("name", part));
                @let parameters: Vec<(&str, &str)> = part.into_iter().chain([("after", next.as_str())]).collect();
                a rel="next" href=(format!("{}{}", links.to(&["schedules"]), query(&parameters))) { "More schedules" }
            }
        }
    };
    Ok(document(links, &Heading::new(&areas::SCHEDULES, "Schedules"), &content))
}

fn table(links: &Links, rows: &[ScheduleRow]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th { "Schedule" } th { "State" } th { "Starts" } th { "Next tick" } th { "Last run" }
                    th { "Skipped since" } th .n { "Open runs" }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        td { a href=(links.schedule(&row.name)) { (text::visible(&row.name)) } }
                        td { (status(words::state(row.status))) }
                        td { code { (text::visible(&words::starts(&row.start))) } }
                        td { (next_tick(row)) }
                        td {
                            @if let Some(last) = &row.last {
                                (words::past(last)) " " (words::minutes(&last.at, &words::zone(&row.start)))
                                @if let Some(run) = &last.run { " " a href=(links.run(&run.0)) { "run" } }
                            } @else { span .muted { "none" } }
                        }
                        td {
                            @if let Some(last) = &row.last_skipped {
                                (words::past(last)) " (" (words::minutes(&last.at, &words::zone(&row.start))) ")"
                            }
                        }
                        td .n { (row.open) }
                    }
                }
            }
        }
    }
}

/// Renders the next tick in the zone of the schedule.
pub(super) fn next_tick(row: &ScheduleRow) -> Markup {
    html! {
        @if let Some(next) = &row.next {
            time datetime=(next) { (row.next_local.as_deref().unwrap_or(next)) }
        } @else { span .muted { "none" } }
    }
}

/// Renders broken files and schedules that could not be checked.
fn problems(found: &DaemonStatus) -> Markup {
    html! {
        @if !found.broken.is_empty() || !found.errors.is_empty() {
            section aria-labelledby="problems" {
                h2 #problems { "Problems" }
                ul .problems {
                    @for (file, why) in &found.broken {
                        li {
                            strong { (text::visible(file)) } " has mistakes; its previous version stays in force:"
                            pre .failure { (text::cut(why, text::MAX_CHARS).0) }
                        }
                    }
                    @for (name, why) in &found.errors {
                        li {
                            strong { @if name.is_empty() { "The folder" } @else { (text::visible(name)) } }
                            " could not be checked:"
                            pre .failure { (text::cut(why, text::MAX_CHARS).0) }
                        }
                    }
                }
            }
        }
    }
}
