//! Rollouts of an artifact: the list with facets, one group, and one problem over training steps.

mod facets;
mod group;
mod history;
mod params;
mod rows;
mod steps;
#[cfg(test)]
mod tests;

pub use group::group;
pub use history::problem;

use self::params::RolloutParams;
use crate::error::PageResult;
use crate::layout::{document, empty, scrolling};
use crate::links::Links;
use crate::pages::rollout_parts::place::{ArtifactPlace, keys, log_notes, of_request};
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::count;
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_views::rollouts::{self, PART, RolloutList};

/// Shows a page of the rollouts of an artifact.
pub async fn list(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output)): Path<(String, String)>,
    Query(values): Query<BTreeMap<String, String>>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let params = RolloutParams::of(&values);
    let query = params.query()?;
    let wanted = query.filters.step;
    let found = rollouts::list(&app.store, &place.name, &place.found, query, log_notes()).await.map_err(of_request)?;
    let note = match wanted.filter(|_| found.matching == 0) {
        Some(wanted) => {
            let steps = rollouts::steps(&app.store, &place.name, &place.found).await?;
            steps::explained(&page.links, &place, &params, (wanted, &found, &steps))
        }
        None => html! {},
    };
    let heading = place.heading(&page.links, format!("Rollouts of {}", place.name));
    Ok(document(&page.links, &heading, &content(&page.links, &place, &params, (&found, &note))))
}

fn content(
    links: &Links,
    place: &ArtifactPlace,
    params: &RolloutParams,
    (found, note): (&RolloutList, &Markup),
) -> Markup {
    html! {
        (facets::form(params))
        (facets::facets(params, &found.facets))
        h2 { (summary(found)) }
        @if let Some((messages, considered)) = found.found {
            p {
                (count(messages)) " messages have the text."
                @if considered < messages { " The rows of the first " (count(considered)) " are considered." }
            }
        }
        (part(links, place, params, found))
        @if found.rows.is_empty() {
            (empty(if params.is_filtered() { "No rollout has all of these properties." } else { "No rollouts here." }))
            (note)
        } @else {
            (scrolling("Rollouts", &rows::table(links, place, params, &found.rows)))
        }
        (rows::pages(params, found))
        (keys("next and previous rollout of the list"))
    }
}

fn summary(found: &RolloutList) -> String {
    let matching = count(found.matching as u64);
    match &found.examined {
        Some(rows) if rows.end - rows.start < found.total => {
            format!("{matching} of {} examined rollouts", count(rows.end - rows.start))
        }
        _ => format!("{matching} of {} rollouts", count(found.total)),
    }
}

/// Names the examined part of a large table, and links to the others.
fn part(links: &Links, place: &ArtifactPlace, params: &RolloutParams, found: &RolloutList) -> Markup {
    let Some(rows) = found.examined.as_ref().filter(|rows| rows.end - rows.start < found.total) else {
        return html! {};
    };
    let number = rows.start / PART;
    let address = |name, value: &str| format!("{}{}", place.rollouts(links), params.with(name, Some(value)));
    html! {
        nav .pages aria-label="Parts of the table" {
            span {
                "Counts and order are of the rows " (count(rows.start)) " to " (count(rows.end.saturating_sub(1)))
                " of " (count(found.total)) "."
            }
            @if number > 0 { a href=(address("part", &(number - 1).to_string())) { "Part before" } }
            @if rows.end < found.total { a href=(address("part", &(number + 1).to_string())) { "Part after" } }
            a href=(address("whole", "1")) { "All rows (slower)" }
        }
    }
}
