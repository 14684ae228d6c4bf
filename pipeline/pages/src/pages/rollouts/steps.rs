//! Explains an empty list of the rollouts of a step, to which a point of a curve may lead.

use super::params::RolloutParams;
use crate::links::{Links, query};
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::text::count;
use maud::{Markup, html};
use serde_json::Value;
use trainyard_views::rollouts::{PART, RolloutList, RolloutStep, RolloutSteps};
use trainyard_views::search::NumberRange;

/// Stage kind that limits its rollouts to the newest ones.
const PRACTICE: &str = "rl";
/// Option of [`PRACTICE`] with the limit.
const KEEP: &str = "keep_rollouts";

/// Names the steps that have rollouts and leads to the nearest one, or leads to the part of the table with the wanted
/// step. Returns an empty text if only other filters select no rollout.
pub fn explained(
    links: &Links,
    place: &ArtifactPlace,
    params: &RolloutParams,
    (wanted, found, steps): (NumberRange, &RolloutList, &RolloutSteps),
) -> Markup {
    let name = params.get("step").unwrap_or_default();
    let (Some((first, last)), Some(nearest)) = (steps.ends(), steps.nearest(wanted)) else {
        return html! { p { "The rollouts of this artifact belong to no step: no update used them." } };
    };
    if wanted.contains(f64::from(nearest.step)) {
        return elsewhere(links, place, found, nearest);
    }
    html! {
        p {
            "No rollout here belongs to step " (crate::text::cut(name, 40).0) ". "
            @if first.step == last.step {
                "All belong to step " (link(links, place, first)) "."
            } @else {
                "The steps " (link(links, place, first)) " to " (link(links, place, last))
                " have rollouts (" (count(steps.count() as u64)) " steps)."
            }
        }
        p {
            "Nearest: " a href=(address(links, place, nearest)) { "step " (nearest.step) } ", " (size(nearest)) "."
        }
        (reason(place, wanted, first, last))
    }
}

/// Explains why a stage of practice has no rollouts of a step.
fn reason(place: &ArtifactPlace, wanted: NumberRange, first: RolloutStep, last: RolloutStep) -> Markup {
    let manifest = &place.found.manifest;
    let is_before = wanted.to.is_some_and(|to| to < f64::from(first.step));
    let is_after = wanted.from.is_some_and(|from| from > f64::from(last.step));
    html! {
        @if manifest.kind == PRACTICE && is_before {
            p {
                "The stage wrote its newest rollouts only. The option " code { (KEEP) } " of " code { (PRACTICE) }
                @if let Some(kept) = manifest.config.get(KEEP).and_then(Value::as_u64) { ", here " (count(kept)) "," }
                " limits their number: a larger one keeps those of earlier steps."
            }
        }
        @if manifest.kind == PRACTICE && is_after {
            p { "A point after the last step is a validation, whose rollouts are not written." }
        }
    }
}

/// Leads to the part of the table with a step, unless it is examined here.
fn elsewhere(links: &Links, place: &ArtifactPlace, found: &RolloutList, step: RolloutStep) -> Markup {
    let start = step.part * PART;
    let is_examined = found.examined.as_ref().is_none_or(|rows| rows.contains(&start));
    html! {
        @if !is_examined {
            p {
                "Other rows of the table are examined here. "
                a href=(address(links, place, step)) { "Step " (step.step) } " has " (size(step)) "."
            }
        }
    }
}

fn size(step: RolloutStep) -> String {
    format!("{} rollout{}", count(step.rollouts), if step.rollouts == 1 { "" } else { "s" })
}

fn link(links: &Links, place: &ArtifactPlace, step: RolloutStep) -> Markup {
    html! { a href=(address(links, place, step)) { (step.step) } }
}

/// Returns the address of the rollouts of a step, in the part of the table that has them.
fn address(links: &Links, place: &ArtifactPlace, step: RolloutStep) -> String {
    let (number, part) = (step.step.to_string(), step.part.to_string());
    let mut parameters = vec![("step", number.as_str())];
    if step.part > 0 {
        parameters.push(("part", part.as_str()));
    }
    format!("{}{}", place.rollouts(links), query(&parameters))
}
