//! Links between the pages of one artifact.

use crate::links::Links;
use crate::pages::rollout_parts::place::ArtifactPlace;
use maud::{Markup, html};
use trainyard_core::ArtifactKind;
use trainyard_views::filter_flow::is_of_filter;
use trainyard_views::find::ResolvedOutput;

/// Page of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// Facts, inputs, files.
    Overview,
    /// Rows of a table.
    Rows,
    /// Rules of a filter.
    Verdicts,
    /// SQL.
    Query,
    /// Sources and descendants.
    Lineage,
}

/// Links to the pages that an artifact has, and marks the present one.
pub fn tabs(links: &Links, place: &ArtifactPlace, here: Tab) -> Markup {
    let output = place.found.output();
    let is_table = output.table.is_some();
    let tab = |tab, name, part: &str| Some((Some(tab), name, place.within(links, &[part])));
    let all = [
        Some((Some(Tab::Overview), "Overview", links.artifact(&place.digest, place.output()))),
        tab(Tab::Rows, "Rows", "rows").filter(|_| is_table),
        Some((None, "Rollouts", place.rollouts(links))).filter(|_| output.kind == ArtifactKind::Trajectories),
        Some((None, "Compare models", place.within(links, &["compare"]))).filter(|_| is_of_evaluation(&place.found)),
        tab(Tab::Verdicts, "Verdicts of rules", "verdicts").filter(|_| is_of_filter(&place.found)),
        tab(Tab::Query, "SQL", "query").filter(|_| is_table),
        tab(Tab::Lineage, "Lineage", "lineage"),
    ];
    html! {
        nav .pages aria-label="Pages of the artifact" {
            @for (tab, name, address) in all.into_iter().flatten() {
                a href=(address) aria-current=[(tab == Some(here)).then_some("page")] { (name) }
            }
        }
    }
}

/// Returns whether an artifact has the answers of the models of an evaluation.
fn is_of_evaluation(found: &ResolvedOutput) -> bool {
    found.manifest.kind == "evaluate" && found.port == "results"
}
