//! Table of the list of rollouts.

use super::params::{PAGE, RolloutParams};
use crate::links::{Links, query};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::pages::rollout_parts::words;
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::rollouts::{RolloutList, RolloutRow};

/// Maximum characters of an id.
const ID: usize = 80;

/// Shows the rows of a page.
pub fn table(links: &Links, place: &ArtifactPlace, params: &RolloutParams, rows: &[RolloutRow]) -> Markup {
    html! {
        table .rollouts {
            thead {
                tr {
                    th .n { "Row" } th { "Problem" } th { "Verdict" } th .n { "Reward" } th .n { "Turns" }
                    th .n { "Tokens" } th { "End" } th .n { "Step" } th { "Id" }
                }
            }
            tbody { @for row in rows { (line(links, place, params, row)) } }
        }
    }
}

fn line(links: &Links, place: &ArtifactPlace, params: &RolloutParams, row: &RolloutRow) -> Markup {
    let facts = &row.facts;
    html! {
        tr {
            td .n { a data-row href=(address(links, place, row)) { (facts.row) } }
            td .wide {
                @if row.problem.is_empty() { span .muted { "no question" } } @else { (visible(&row.problem)) }
                @if let Some(found) = &row.found {
                    div .found {
                        (visible(&found.excerpt.before)) mark { (visible(&found.excerpt.found)) }
                        (visible(&found.excerpt.after))
                    }
                }
            }
            td { (words::verdict(row.verdict())) }
            td .n { (number(facts.reward)) }
            td .n { (facts.turns) }
            td .n { (count(u64::from(facts.tokens))) }
            td { (visible(&row.stop_reason)) }
            td .n { @if let Some(step) = facts.update { (step) } }
            td .mono {
                (cut(&row.id, ID).0)
                @if params.get("problem").is_none() && !row.problem_id.is_empty() {
                    br;
                    a href=(place.within(links, &["problems", &row.problem_id])) { "all of this problem" }
                }
            }
        }
    }
}

/// Returns the address of a row, at the message with the text that was searched for.
fn address(links: &Links, place: &ArtifactPlace, row: &RolloutRow) -> String {
    let address = place.row(links, row.facts.row);
    match &row.found {
        Some(found) => format!("{address}{}#m{}", query(&[("from", &found.message.to_string())]), found.message),
        None => address,
    }
}

/// Links to the pages before and after.
pub fn pages(params: &RolloutParams, found: &RolloutList) -> Markup {
    let from = params.get("from").and_then(|from| from.parse::<usize>().ok()).unwrap_or(0);
    html! {
        nav .pages aria-label="Pages" {
            @if from > 0 { a rel="prev" href=(params.page(from.saturating_sub(PAGE))) { "Page before" } }
            @if let Some(next) = found.next { a rel="next" href=(params.page(next)) { "Page after" } }
        }
    }
}
