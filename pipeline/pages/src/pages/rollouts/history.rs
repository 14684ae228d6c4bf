//! One problem over training steps.

use crate::charts::{LineChart, Series};
use crate::error::PageResult;
use crate::layout::{document, scrolling};
use crate::links::{Links, query};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::pages::rollout_parts::words;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, number};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::sync::Arc;
use trainyard_views::rollouts::{self, ProblemHistory, ProblemStep};

/// Steps of one page.
const STEPS: usize = 100;
/// Rollouts of a step that are listed.
const ROLLOUTS: usize = 16;

/// Page of the steps.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct HistoryParams {
    /// Number of steps to skip.
    from: Option<usize>,
}

/// Shows the rollouts of a problem by step.
pub async fn problem(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output, problem)): Path<(String, String, String)>,
    Query(params): Query<HistoryParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let found = rollouts::problem(&app.store, &place.name, &place.found, &problem).await?;
    let heading = place.heading(&page.links, format!("Problem {}", crate::text::cut(&problem, 120).0));
    let heading = heading.below(place.rollouts(&page.links), "rollouts");
    Ok(document(&page.links, &heading, &content(&page.links, &place, &problem, &found, params.from.unwrap_or(0))))
}

fn content(links: &Links, place: &ArtifactPlace, problem: &str, found: &ProblemHistory, from: usize) -> Markup {
    let list = format!("{}{}", place.rollouts(links), query(&[("problem", problem)]));
    let address = |from: usize| query(&[("from", &from.to_string())]);
    html! {
        p {
            (count(found.rollouts as u64)) @if found.is_cut { " or more" } " rollouts. "
            a href=(list) { "All as a list" }
        }
        @if found.steps.iter().filter(|step| step.step.is_some()).count() > 1 {
            div .panels { (chart(found).draw()) }
        }
        h2 { "By step" }
        (scrolling("Rollouts by step", &table(links, place, problem, found.steps.iter().skip(from).take(STEPS))))
        nav .pages aria-label="Steps" {
            @if from > 0 { a rel="prev" href=(address(from.saturating_sub(STEPS))) { "Steps before" } }
            @if from + STEPS < found.steps.len() { a rel="next" href=(address(from + STEPS)) { "Steps after" } }
        }
    }
}

fn chart(found: &ProblemHistory) -> LineChart {
    let points = found.steps.iter().filter_map(|step| Some((f64::from(step.step?), step.mean_reward?)));
    let series = vec![Series { name: "mean reward".to_string(), points: points.collect() }];
    LineChart { title: "Mean reward by step".to_string(), series, smoothing: 0.0, is_log: false }
}

fn table<'a>(
    links: &Links,
    place: &ArtifactPlace,
    problem: &str,
    steps: impl Iterator<Item = &'a ProblemStep>,
) -> Markup {
    html! {
        table {
            thead {
                tr { th { "Step" } th .n { "Rollouts" } th .n { "Right" } th .n { "Mean reward" } th { "Rewards" } }
            }
            tbody {
                @for step in steps {
                    tr {
                        td { (group_link(links, place, problem, step)) }
                        td .n { (count(step.rollouts.len() as u64)) }
                        td .n { (count(step.right as u64)) }
                        td .n { @if let Some(mean) = step.mean_reward { (number(mean)) } }
                        td .wide { (rewards(links, place, step)) }
                    }
                }
            }
        }
    }
}

/// Links to the group of a step, if the step has one.
fn group_link(links: &Links, place: &ArtifactPlace, problem: &str, step: &ProblemStep) -> Markup {
    let name = words::step(step.step);
    let Some((first, number)) = step.rollouts.first().zip(step.step) else { return html! { (name) } };
    let (number, near) = (number.to_string(), first.row.to_string());
    let parameters = query(&[("step", &number), ("problem", problem), ("near", &near)]);
    let address = format!("{}{parameters}", place.within(links, &["groups", &first.group.to_string()]));
    html! { a href=(address) { (name) } }
}

fn rewards(links: &Links, place: &ArtifactPlace, step: &ProblemStep) -> Markup {
    let more = step.rollouts.len().saturating_sub(ROLLOUTS);
    html! {
        @for rollout in step.rollouts.iter().take(ROLLOUTS) {
            a .reward href=(place.row(links, rollout.row)) { (number(rollout.reward)) " " (rollout.verdict.name()) } " "
        }
        @if more > 0 { span .muted { (count(more as u64)) " more" } }
    }
}
