//! Log of a stage: paged, searchable, and followed by the script.

use super::data::StageData;
use crate::error::PageError;
use crate::layout::empty;
use crate::links::query;
use crate::text;
use maud::{Markup, html};
use trainyard_core::AttemptNumber;
use trainyard_core::Result;
use trainyard_core::units::format_time;
use trainyard_engine::fold::StageView;
use trainyard_views::followed::attempts_with_streams;
use trainyard_views::log_lines::{LogLines, LogPlace, LogQuery, PlacedRecord, read};

/// Lines on one page.
const PAGE: usize = 300;
/// Maximum characters of a line.
const MAX_LINE: usize = 4_000;

/// Choices about the log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogOptions {
    attempt: Option<AttemptNumber>,
    find: Option<String>,
    at: Option<LogPlace>,
}

impl LogOptions {
    /// Reads the choices from the parameters of the address. Errors: a wrong place or number.
    pub fn of(attempt: &str, find: &str, at: &str) -> std::result::Result<Self, PageError> {
        let wrong = |_| {
            let message = format!("`{}` is no number of an attempt", text::cut(attempt, 40).0);
            PageError::not_found(message).help("the table of attempts lists them")
        };
        Ok(Self {
            attempt: (!attempt.is_empty()).then(|| attempt.parse().map_err(wrong)).transpose()?,
            find: (!find.is_empty()).then(|| find.to_string()),
            at: (!at.is_empty()).then(|| at.parse()).transpose()?,
        })
    }
}

/// Returns the form that searches the log and selects the attempt.
pub fn form(data: &StageData<'_>, stage: &StageView) -> Markup {
    let attempts = attempts_with_streams(stage);
    html! {
        form .filters method="get" action="#log" {
            label { "Find in the log" input type="search" name="find" value=(data.query.find); }
            @if attempts.len() > 1 {
                label { "Attempt"
                    select name="attempt" {
                        option value="" { "last" }
                        @for attempt in attempts {
                            @let number = attempt.to_string();
                            option value=(number) selected[data.query.attempt == number] { (number) }
                        }
                    }
                }
            }
            button type="submit" { "Find" }
        }
    }
}

/// Shows lines of the log: the last ones, those from a place on, or those with a text.
pub async fn lines(data: &StageData<'_>, options: &LogOptions) -> Result<Markup> {
    let attempts = attempts_with_streams(data.stage()?);
    let Some(attempt) = options.attempt.or(attempts.last().copied()) else {
        return Ok(html! { div .log { (empty("The stage has no log in this run.")) } });
    };
    let query = LogQuery { attempt, from: options.at, find: options.find.clone(), limit: PAGE };
    let found = read(&data.app.store, &data.run, &data.key, &query).await?;
    // Only the end of the whole log of the last attempt grows on the page.
    let is_followed = !found.more && options.find.is_none() && attempts.last() == Some(&attempt);
    Ok(html! {
        div .log data-log=[is_followed.then(|| found.next.to_string())] {
            (pager(data, options, &found))
            @if found.lines.is_empty() && options.find.is_some() {
                (empty(if found.more { "No line found so far; search further." } else { "No line has the text." }))
            } @else if found.lines.is_empty() {
                p .empty { "The log has no lines here yet." }
            }
            ol .lines tabindex="0" aria-label=(format!("Log of attempt {attempt}")) {
                @for line in &found.lines { (row(line)) }
            }
        }
    })
}

fn pager(data: &StageData<'_>, options: &LogOptions, found: &LogLines) -> Markup {
    let address = |at: LogPlace| {
        let (at, attempt) = (at.to_string(), options.attempt.map(|attempt| attempt.to_string()));
        let mut parameters = vec![("at", at.as_str())];
        parameters.extend(attempt.as_deref().map(|attempt| ("attempt", attempt)));
        parameters.extend(options.find.as_deref().map(|find| ("find", find)));
        format!("{}{}#log", data.address(), query(&parameters))
    };
    let earlier = found.earlier.filter(|_| options.find.is_none());
    html! {
        @if earlier.is_some() || found.more {
            nav .pages aria-label="Pages of the log" {
                @if let Some(earlier) = earlier { a rel="prev" href=(address(earlier)) { "Earlier lines" } }
                @if found.more {
                    a rel="next" href=(address(found.next)) {
                        (if options.find.is_some() { "Search further" } else { "Later lines" })
                    }
                }
            }
        }
    }
}

fn row(line: &PlacedRecord) -> Markup {
    let (shown, left) = text::cut(&line.record.text, MAX_LINE);
    let time = line.record.at.map(format_time);
    let level = line.record.level.name();
    html! {
        li data-level=(level) {
            @if let Some(time) = &time { time datetime=(time) title=(time) { (time.get(11..19).unwrap_or(time)) } " " }
            span .level { (level) } " "
            span .text { (shown) }
            @if left > 0 { span .muted { " … " (text::count(left as u64)) " more characters" } }
        }
    }
}
