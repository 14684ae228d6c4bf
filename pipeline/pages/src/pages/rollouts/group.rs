//! Rollouts of one problem that share a baseline, side by side.

use crate::error::PageResult;
use crate::layout::{document, scrolling};
use crate::links::{Links, query};
use crate::pages::rollout_parts::forks;
use crate::pages::rollout_parts::place::{ArtifactPlace, keys, wrong_parameter};
use crate::pages::rollout_parts::words;
use crate::request::PageRequest;
use crate::state::PageState;
use crate::text::{count, number, visible};
use axum::extract::{Path, Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use trainyard_views::rollouts::{self, AdvantageRange, GroupChoice, GroupMember, GroupQuery, RolloutGroup};

/// Maximum columns of reward components; the page of a rollout shows all.
const COMPONENTS: usize = 8;
/// Verdicts of filters on one rollout that are shown.
const VERDICTS: usize = 5;

/// Selection of a group.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct GroupParams {
    /// Number of the update.
    step: Option<u32>,
    /// Id of the problem.
    problem: Option<String>,
    /// Row near which the group is.
    near: Option<u64>,
}

/// Shows a group, or the groups of this number.
pub async fn group(
    State(app): State<Arc<PageState>>,
    page: PageRequest,
    Path((digest, output, group)): Path<(String, String, String)>,
    Query(params): Query<GroupParams>,
) -> PageResult {
    let place = ArtifactPlace::find(&app, &digest, &output).await?;
    let group: u32 = group.parse().map_err(|why| wrong_parameter("group", why))?;
    let GroupParams { step, problem, near } = params;
    let query = GroupQuery { group, step, problem, near };
    let found = rollouts::group(&app.store, &place.name, &place.found, query.clone()).await?;
    let heading = place.heading(&page.links, title(&query, &found));
    let heading = heading.below(place.rollouts(&page.links), "rollouts");
    Ok(document(&page.links, &heading, &content(&page.links, &place, &query, &found)))
}

fn title(query: &GroupQuery, found: &RolloutGroup) -> String {
    match found.choices.as_slice() {
        [one] => format!("Group {} of {}", query.group, words::step(one.step)),
        many => format!("{} groups of number {}", count((many.len() + found.more_choices) as u64), query.group),
    }
}

fn content(links: &Links, place: &ArtifactPlace, query: &GroupQuery, found: &RolloutGroup) -> Markup {
    html! {
        @if found.examined.end - found.examined.start < found.total {
            p .muted {
                "The rows " (count(found.examined.start)) " to " (count(found.examined.end.saturating_sub(1)))
                " are examined. "
                a href=(address(links, place, query, query.step, query.problem.as_deref())) { "Examine all rows" }
            }
        }
        @match found.choices.as_slice() {
            [one] => (one_group(links, place, one, found)),
            many => (choices(links, place, query, many, found.more_choices)),
        }
        (keys("next and previous rollout of the group"))
    }
}

fn address(
    links: &Links,
    place: &ArtifactPlace,
    group: &GroupQuery,
    step: Option<u32>,
    problem: Option<&str>,
) -> String {
    let step = step.map(|step| step.to_string());
    let step = step.as_deref().map(|step| ("step", step));
    let parameters: Vec<(&str, &str)> = step.into_iter().chain(problem.map(|problem| ("problem", problem))).collect();
    format!("{}{}", place.within(links, &["groups", &group.group.to_string()]), query(&parameters))
}

fn choices(links: &Links, place: &ArtifactPlace, query: &GroupQuery, choices: &[GroupChoice], more: usize) -> Markup {
    html! {
        p { "Groups are numbered anew at every step, and whenever a step samples more problems. Choose one:" }
        ul {
            @for choice in choices {
                li {
                    a href=(address(links, place, query, choice.step, Some(&choice.problem_id))) {
                        (words::step(choice.step)) ", problem " (words::short(&choice.problem_id, 80))
                    }
                    " " span .muted { (count(choice.rows.len() as u64)) " rollouts" }
                }
            }
        }
        @if more > 0 { p .muted { (count(more as u64)) " more groups" } }
    }
}

fn one_group(links: &Links, place: &ArtifactPlace, choice: &GroupChoice, found: &RolloutGroup) -> Markup {
    let members = &found.members;
    html! {
        p {
            @if let Some(problem) = members.first().map(|member| &member.problem) { (visible(problem)) " " }
            @if !choice.problem_id.is_empty() {
                a href=(place.within(links, &["problems", &choice.problem_id])) { "This problem over all steps" }
            }
        }
        (signal(members))
        (scrolling("Rollouts of the group", &table(links, place, members)))
        @if found.more_members > 0 { p .muted { (count(found.more_members as u64)) " more rollouts" } }
        @if !found.forks.is_empty() {
            h2 { "Forks" }
            (forks::tree(links, place, &found.forks, None))
        }
        h2 { "Last messages side by side" }
        div .panels {
            @for member in members {
                section {
                    h3 {
                        a href=(place.row(links, member.row)) { "Sample " (member.rollout.sample) } " "
                        (words::verdict(member.verdict)) ", reward " (number(member.rollout.reward))
                    }
                    pre { (visible(&member.last.0)) }
                    @if member.last.1 > 0 {
                        p {
                            (count(member.last.1 as u64)) " more characters: "
                            a href=(place.row(links, member.row)) { "open the rollout" }
                        }
                    }
                }
            }
        }
    }
}

/// Says whether the rewards of a group differ, since a baseline leaves no advantage otherwise.
fn signal(members: &[GroupMember]) -> Markup {
    let dropped = members.iter().filter(|member| member.is_dropped()).count();
    let right = members.iter().filter(|member| member.verdict.name() == "right").count();
    let rewards: Vec<f64> = members.iter().map(|member| member.rollout.reward).collect();
    #[expect(clippy::cast_precision_loss, reason = "at most 64 members")]
    let mean = rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
    let is_same = rewards.windows(2).all(|pair| pair[0] == pair[1]);
    html! {
        p {
            (members.len()) " rollouts, " (right) " right, mean reward " (number(mean)) ", " (dropped)
            " dropped by filters. "
            @if is_same && members.len() > 1 {
                strong { "All rewards are equal: a baseline of the group leaves no signal." }
            }
        }
    }
}

fn table(links: &Links, place: &ArtifactPlace, members: &[GroupMember]) -> Markup {
    let components: BTreeSet<&String> = members.iter().flat_map(|member| member.rollout.rewards.keys()).collect();
    let components: Vec<&String> = components.into_iter().take(COMPONENTS).collect();
    html! {
        table {
            thead {
                tr {
                    th .n { "Sample" } th { "Verdict" } th .n { "Reward" }
                    @for name in &components { th .n { (words::short(name, 40)) } }
                    th .n { "Advantage" } th .n { "Sampled tokens" } th .n { "Turns" } th { "End" } th { "Answer" }
                    th { "Filters" }
                }
            }
            tbody {
                @for member in members {
                    @let rollout = &member.rollout;
                    tr {
                        td .n { a data-row href=(place.row(links, member.row)) { (rollout.sample) } }
                        td { (words::verdict(member.verdict)) }
                        td .n { (number(rollout.reward)) }
                        @for name in &components {
                            td .n { @if let Some(reward) = rollout.rewards.get(*name) { (number(*reward)) } }
                        }
                        td .n { (advantage(member.advantage)) }
                        td .n { (count(member.sampled as u64)) }
                        td .n { (rollout.turns) }
                        td { (words::word(&rollout.stop_reason)) }
                        td .wide { @if let Some(answer) = &rollout.answer { (words::short(answer, 160)) } }
                        td .wide { (filters(member)) }
                    }
                }
            }
        }
    }
}

fn advantage(advantage: Option<AdvantageRange>) -> Markup {
    html! {
        @match advantage {
            Some(range) if range.low == range.high => (number(range.mean)),
            Some(range) => { (number(range.mean)) " (" (number(range.low)) " to " (number(range.high)) ")" }
            None => span .muted { "none" },
        }
    }
}

/// Shows what filters decided, and why.
fn filters(member: &GroupMember) -> Markup {
    html! {
        @if member.rollout.verdicts.is_empty() { "kept" }
        @for verdict in member.rollout.verdicts.iter().take(VERDICTS) {
            div {
                @if verdict.keep { "kept by " } @else { strong .wrong { "dropped" } " by " }
                (words::short(&verdict.rule, 60))
                @if !verdict.reason.is_empty() { ": " (words::short(&verdict.reason, 200)) }
            }
        }
        @if member.rollout.verdicts.len() > VERDICTS {
            div .muted { (count((member.rollout.verdicts.len() - VERDICTS) as u64)) " more" }
        }
    }
}
