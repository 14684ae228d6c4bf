//! Page of one schedule: its state, forms, calendar, ticks and backfills.

use super::ticks::{self, Shown};
use super::{calendar, list, words};
use crate::areas;
use crate::error::PageResult;
use crate::forms;
use crate::layout::{Heading, document, scrolling, status};
use crate::links::Links;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text;
use axum::extract::{Path, Query, State};
use jiff::tz::TimeZone;
use maud::{Markup, html};
use std::sync::Arc;
use trainyard_daemon::history;
use trainyard_daemon::operations::{self, BackfillStatus, SchedulePage, ScheduleStatus};

/// Ticks on one page.
const PAGE: usize = 50;

/// Shows a schedule.
pub async fn show(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path(name): Path<String>,
    Query(shown): Query<Shown>,
) -> PageResult {
    app.daemon()?;
    let now = app.clock.unix_millis();
    let schedule = operations::show(&app.store, &name, now).await?;
    let month = history::month(&app.store, &name, shown.month.as_deref(), now).await?;
    let listed = history::ticks(&app.store, &name, (shown.before, shown.day.as_deref()), PAGE).await?;
    let (links, zone) = (&page.links, words::zone(&schedule.row.start));
    let content = html! {
        (summary(links, &schedule))
        @if let Some(paused) = &schedule.paused {
            p { "Paused by " (text::visible(&paused.by)) " " (words::minutes(&paused.at, &zone))
                @if let Some(why) = &paused.why { ": " (text::cut(why, 1_000).0) } "." }
        }
        @if page.user.may_change { (changes(&page, &schedule)) }
        (waiting(links, &schedule, &zone))
        h2 { "Calendar" }
        (calendar::calendar(links, &name, &month, shown.day.as_deref()))
        h2 #ticks { @if let Some(day) = &shown.day { "Ticks of " (text::visible(day)) } @else { "Ticks" } }
        (ticks::list(links, &name, &listed, &shown, &zone))
        (backfills(&page, &schedule, &zone))
    };
    let heading = Heading::new(&areas::SCHEDULES, name).below(links.to(&["schedules"]), "Schedules");
    Ok(document(links, &heading, &content))
}

fn summary(links: &Links, schedule: &SchedulePage) -> Markup {
    let row = &schedule.row;
    html! {
        dl .tiles {
            div { dt { "State" } dd { (status(words::state(row.status))) } }
            div { dt { "Starts" } dd { (text::visible(&words::starts(&row.start))) } }
            div { dt { "Next tick" } dd { (list::next_tick(row)) } }
            div { dt { "Open runs" } dd { (row.open) } }
            div { dt { "Runs by schedule" } dd { (text::count(schedule.fired)) } }
            div { dt { "Skipped ticks" } dd { (text::count(schedule.skipped)) } }
            div { dt { "File" } dd { a href=(links.workflow(&row.file)) { (text::visible(&row.file)) } } }
        }
    }
}

fn changes(page: &PageRequest, schedule: &SchedulePage) -> Markup {
    let (links, user, name) = (&page.links, &page.user, schedule.row.name.as_str());
    let action = |what: &str| links.to(&["schedules", name, what]);
    let is_active = schedule.row.status != ScheduleStatus::Removed;
    html! {
        div .actions role="group" aria-label="Actions" {
            @if is_active { (forms::button(user, &action("trigger"), "Start a run now", None)) }
            @if schedule.paused.is_some() {
                (forms::button(user, &action("resume"), "Resume the schedule", None))
            } @else {
                form .action method="post" action=(action("pause")) {
                    (forms::key(user))
                    label { "Reason of the pause" input type="text" name="why" maxlength="1000"; }
                    button type="submit" { "Pause" }
                }
            }
        }
        @if is_active && schedule.schedule.pattern().is_some() {
            details {
                summary { "Run the ticks of a range (backfill)" }
                form .filters method="post" action=(action("backfills")) {
                    (forms::key(user))
                    label { "First day or time" input type="text" name="from" required placeholder="2026-11-01"; }
                    label { "Last day or time" input type="text" name="to" required placeholder="2026-11-07"; }
                    label { "Runs at once" input type="number" name="concurrency" min="1" max="1000" value="1"; }
                    label .check { input type="checkbox" name="again" value="yes"; "Also ticks that had a run" }
                    button type="submit" { "Start the backfill" }
                }
            }
        }
    }
}

fn waiting(links: &Links, schedule: &SchedulePage, zone: &TimeZone) -> Markup {
    html! {
        @if !schedule.waiting.is_empty() {
            h2 { "Open runs" }
            ul {
                @for open in schedule.waiting.iter().take(PAGE) {
                    li {
                        a .mono href=(links.run(&open.run.0)) { (text::visible(&open.run.0)) }
                        " for tick " (words::tick(&open.tick, zone))
                        @if let Some(id) = &open.backfill { " of backfill " (text::visible(id)) }
                    }
                }
                @if schedule.waiting.len() > PAGE { li .muted { (schedule.waiting.len() - PAGE) " more" } }
            }
        }
    }
}

fn backfills(page: &PageRequest, schedule: &SchedulePage, zone: &TimeZone) -> Markup {
    let cancel = |id: &str| page.links.to(&["schedules", &schedule.row.name, "backfills", id, "cancel"]);
    let table = html! {
        table {
            thead {
                tr {
                    th { "Backfill" } th { "State" } th { "From" } th { "To" } th .n { "At once" } th .n { "Left" }
                    th .n { "Open" } th .n { "Succeeded" } th .n { "Failed" } th .n { "Had a run" } th { "Action" }
                }
            }
            tbody {
                @for row in &schedule.backfills {
                    tr {
                        td .mono { (text::visible(&row.id)) }
                        td { (status(words::backfill(row.status))) }
                        td { (words::minutes(&row.from, zone)) } td { (words::minutes(&row.to, zone)) }
                        td .n { (row.concurrency) } td .n { (row.left) } td .n { (row.open) }
                        td .n { (row.succeeded) } td .n { (row.failed) } td .n { (row.skipped) }
                        td {
                            @if page.user.may_change && row.status == BackfillStatus::Running {
                                @let question = "Cancel the backfill? Its open runs continue.";
                                (forms::button(&page.user, &cancel(&row.id), "Cancel", Some(question)))
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        @if !schedule.backfills.is_empty() {
            h2 { "Backfills" }
            (scrolling("Backfills", &table))
        }
    }
}
