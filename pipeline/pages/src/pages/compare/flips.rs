//! Problems on which the verdicts of two models differ, below the paired differences.

use super::address::{FLIPS, Shown, other_artifact};
use crate::charts::{IntervalBar, interval_bars};
use crate::layout::{empty, scrolling};
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::comparison::{Flip, FlipPage, FlipRow, PairedDifference};

/// Maximum characters of a problem or answer in the table.
const CHARS: usize = 160;

/// Renders the page.
pub fn content(shown: &Shown<'_>, found: &FlipPage, flip: Flip) -> Markup {
    html! {
        (filters(shown, found, flip))
        h2 { "B minus A" }
        p .muted { "Paired by problem: each problem counts once. Intervals are 95%." }
        (differences(&found.differences))
        h2 { (FLIPS[flip as usize].2) }
        @if found.rows.is_empty() {
            (empty("No problem has these verdicts."))
        } @else {
            p { (count(found.matching as u64)) " problems" }
            (scrolling("Problems", &table(shown, &found.rows)))
        }
        @if found.unsearched > 0 {
            p .muted {
                (count(found.unsearched as u64)) " more prompts were not searched; choose a level to narrow it."
            }
        }
        (pages(shown, found, flip))
        h2 { "Models of another artifact" }
        (other_artifact(shown))
    }
}

fn filters(shown: &Shown<'_>, found: &FlipPage, flip: Flip) -> Markup {
    let query = shown.query;
    html! {
        form .filters method="get" {
            @for (name, label, chosen) in [("a", "A", shown.a), ("b", "B", shown.b)] {
                label {
                    (label)
                    select name=(name) {
                        @for model in &found.models {
                            option value=(model) selected[model == chosen] { (visible(model)) }
                        }
                    }
                }
            }
            label {
                "Verdicts"
                select name="flip" {
                    @for (at, (value, known, words)) in FLIPS.iter().enumerate() {
                        option value=(value) selected[*known == flip] { (words) " (" (found.counts[at]) ")" }
                    }
                }
            }
            label {
                "Level"
                select name="level" {
                    option value="" { "all" }
                    @for (level, problems) in &found.levels {
                        @let value = level.to_string();
                        option value=(value) selected[query.level.as_deref() == Some(value.as_str())] {
                            @if *level == 0 { "unknown" } @else { (level) } " (" (problems) ")"
                        }
                    }
                }
            }
            label { "Text of the problem" input type="search" name="text" value=[query.text.as_deref()]; }
            @if let Some(with) = &query.with { input type="hidden" name="with" value=(with); }
            @if let Some(sample) = &query.sample { input type="hidden" name="sample" value=(sample); }
            button type="submit" { "Show" }
        }
    }
}

fn differences(rows: &[PairedDifference]) -> Markup {
    let bar = |row: &PairedDifference| IntervalBar {
        name: row.name.to_string(),
        value: row.difference,
        interval: row.interval,
    };
    let bars: Vec<IntervalBar> = rows.iter().map(bar).collect();
    if bars.is_empty() {
        return empty("No problem was judged for both models.");
    }
    let table = html! {
        table {
            thead { tr { th { "Number" } th .n { "A" } th .n { "B" } th .n { "B − A" } th .n { "Problems" } } }
            tbody {
                @for (row, bar) in rows.iter().zip(&bars) {
                    tr {
                        td { (row.name) }
                        td .n { (number(row.a)) }
                        td .n { (number(row.b)) }
                        td .n { (bar.text()) }
                        td .n { (count(row.problems as u64)) }
                    }
                }
            }
        }
    };
    html! {
        div .panels {
            div { (scrolling("Paired differences", &table)) }
            div { (interval_bars("B minus A, with 95% intervals", &bars)) }
        }
    }
}

fn table(shown: &Shown<'_>, rows: &[FlipRow]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th { "Problem" } th .n { "Level" } th { "Text" } th { "Expected" } th { "Answer A" }
                    th { "Answer B" }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        @let address = shown.address(&[("problem", row.problem.as_str())]);
                        td { a .mono href=(address) { (visible(&row.problem)) } }
                        td .n { @if row.level > 0 { (row.level) } }
                        td .wide { (cell(row.prompt.as_deref())) }
                        td { (cell(row.expected.as_deref())) }
                        td { (cell(row.answer_a.as_deref())) }
                        td { (cell(row.answer_b.as_deref())) }
                    }
                }
            }
        }
    }
}

fn cell(text: Option<&str>) -> Markup {
    let Some(text) = text else { return html! { span .muted { "–" } } };
    let (text, hidden) = cut(text, CHARS);
    html! { (text) @if hidden > 0 { "…" } }
}

fn pages(shown: &Shown<'_>, found: &FlipPage, flip: Flip) -> Markup {
    let Some(next) = found.next else { return html! {} };
    let from = next.to_string();
    let level = shown.query.level.as_deref().map(|level| ("level", level));
    let text = shown.query.text.as_deref().map(|text| ("text", text));
    let first = [("flip", FLIPS[flip as usize].0), ("from", from.as_str())];
    let parameters: Vec<(&str, &str)> = first.into_iter().chain(level).chain(text).collect();
    html! {
        nav .pages aria-label="More problems" { a rel="next" href=(shown.address(&parameters)) { "More problems" } }
    }
}
