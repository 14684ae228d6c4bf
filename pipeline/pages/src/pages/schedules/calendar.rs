//! Month of a schedule as a grid of days, with the counts of each day as symbols and words.

use crate::layout::scrolling;
use crate::links::{Links, query};
use crate::outcomes::symbol_and_word;
use jiff::civil::Date;
use maud::{Markup, html};
use trainyard_daemon::history::{DayCounts, TickMonth};

/// Days of a week, in the order of the grid.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Renders a month, with links to the months before and after it and to the ticks of each day.
pub fn calendar(links: &Links, name: &str, month: &TickMonth, day: Option<&str>) -> Markup {
    let link = |date: Option<Date>, text: &str| {
        let address = date.map(|date| format!("{}{}", links.schedule(name), query(&[("month", &of_month(date))])));
        html! { @if let Some(address) = address { a href=(address) { (text) } } }
    };
    let before = month.first.yesterday().ok();
    let after = month.first.last_of_month().tomorrow().ok();
    html! {
        nav .pages aria-label="Months" {
            (link(before, "Month before")) (link(Some(month.today), "This month")) (link(after, "Month after"))
        }
        (scrolling("Calendar of ticks", &grid(links, name, month, day)))
        p .muted {
            "Days of the zone " (month.zone) ". A run counts on the day of its end, one of a backfill on the day of "
            "its tick, a skipped tick on the day on which that was decided: ✓ succeeded, ✗ failed, ⊘ cancelled, "
            "! not started, ↷ superseded, ∅ skipped, ◷ due."
        }
        @if month.is_cut {
            p .muted { "The month has more records than are counted here: some of its days are incomplete." }
        }
    }
}

fn grid(links: &Links, name: &str, month: &TickMonth, day: Option<&str>) -> Markup {
    html! {
        table .calendar {
            caption { (of_month(month.first)) }
            thead { tr { @for day in DAYS { th scope="col" { (day) } } } }
            tbody {
                @for week in weeks(month.first) {
                    tr {
                        @for date in week {
                            @match date {
                                None => td {},
                                Some(date) => (cell(links, name, month, date, day == Some(date.to_string().as_str()))),
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(links: &Links, name: &str, month: &TickMonth, date: Date, is_chosen: bool) -> Markup {
    let counts = month.days.get(&date.day());
    let (of, day) = (of_month(date), date.to_string());
    let address = format!("{}{}#ticks", links.schedule(name), query(&[("month", &of), ("day", &day)]));
    let has_past = counts.is_some_and(|counts| !counts.ended.is_empty() || counts.skipped > 0);
    html! {
        td .today[date == month.today] .chosen[is_chosen] {
            @if has_past {
                a href=(address) aria-label=(format!("Ticks of {day}")) { (date.day()) }
            } @else { span { (date.day()) } }
            @if date == month.today { span .muted { " today" } }
            @if let Some(counts) = counts { (day_counts(counts)) }
        }
    }
}

fn day_counts(counts: &DayCounts) -> Markup {
    html! {
        ul {
            @for (of, count) in &counts.ended {
                @let (symbol, word) = symbol_and_word(*of);
                (one_count(symbol, *count, word))
            }
            @if counts.skipped > 0 { (one_count("∅", counts.skipped, "skipped")) }
            @if counts.due > 0 { (one_count("◷", counts.due, "due")) }
        }
    }
}

fn one_count(symbol: &str, count: u64, word: &str) -> Markup {
    html! {
        li .status data-status=(word) {
            span aria-hidden="true" { (symbol) " " } (count) span .word { " " (word) }
        }
    }
}

/// Returns the days of a month in weeks from Monday to Sunday, with gaps at both ends.
fn weeks(first: Date) -> Vec<[Option<Date>; 7]> {
    let mut weeks = vec![[None; 7]];
    for number in 1..=first.days_in_month() {
        let Ok(date) = Date::new(first.year(), first.month(), number) else { continue };
        let column = usize::try_from(date.weekday().to_monday_zero_offset()).unwrap_or_default();
        if column == 0 && number > 1 {
            weeks.push([None; 7]);
        }
        if let Some(week) = weeks.last_mut() {
            week[column] = Some(date);
        }
    }
    weeks
}

fn of_month(date: Date) -> String {
    date.strftime("%Y-%m").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn weeks_begin_on_monday() {
        let november = weeks(date(2026, 11, 1));
        assert_eq!(november.len(), 6, "the 1st is a Sunday, the 30th a Monday");
        assert_eq!((november[0][6], november[0][5]), (Some(date(2026, 11, 1)), None));
        assert_eq!((november[5][0], november[5][1]), (Some(date(2026, 11, 30)), None));
        let february = weeks(date(2027, 2, 1));
        assert_eq!((february.len(), february[3][6]), (4, Some(date(2027, 2, 28))));
    }

    #[test]
    fn months_beside_are_linked() {
        let month = TickMonth {
            first: date(2026, 12, 1),
            zone: "Europe/Paris".into(),
            days: [(3, DayCounts { skipped: 2, ..DayCounts::default() })].into(),
            today: date(2026, 12, 3),
            is_cut: true,
        };
        let html = calendar(&Links::from_path("/schedules/s"), "a/b", &month, Some("2026-12-03")).into_string();
        assert!(html.contains("href=\"../schedules/a%2Fb?month=2026-11\""), "{html}");
        assert!(html.contains("?month=2027-01"), "{html}");
        assert!(html.contains("?month=2026-12&amp;day=2026-12-03#ticks"), "{html}");
        assert!(html.contains("2<span class=\"word\"> skipped</span>") && html.contains("incomplete"), "{html}");
    }
}
