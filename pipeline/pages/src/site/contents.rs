//! Pages that only a site has: its contents, and the lists of its rollouts.

use super::plan::{SiteArtifact, SitePlan};
use crate::areas::RUNS;
use crate::layout::{Document, Heading, document, empty, scrolling, status};
use crate::links::Links;
use crate::text::{count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::rollout_sample::{RolloutSample, SampledRollout};

/// Maximum characters of a problem's id.
const PROBLEM: usize = 80;

/// Renders the first page. `written`: time of writing.
pub fn contents(links: &Links, plan: &SitePlan, written: &str) -> Document {
    let content = html! {
        p {
            "Static copy of run " a .mono href=(links.run(&plan.run.0)) { (visible(&plan.run.0)) }
            ", written " (written) ". Searches, other runs and live updates need " code { "trainyard pages" } "."
        }
        h2 { "Stages" }
        @if plan.view.stages.is_empty() { (empty("The run has no stages.")) }
        ul {
            @for stage in &plan.view.stages {
                li {
                    a href=(links.stage(&plan.run.0, &stage.key().0)) { (visible(&stage.key().0)) } " "
                    (status(stage.status.name()))
                }
            }
        }
        h2 { "Artifacts" }
        @if plan.artifacts.is_empty() { (empty("The run has published no artifacts.")) }
        @else { (scrolling("Artifacts", &artifacts(links, plan))) }
    };
    let name = if plan.view.workflow.is_empty() { "Run" } else { plan.view.workflow.as_str() };
    document(links, &Heading::new(&RUNS, format!("{name} · {}", plan.run)), &content)
}

fn artifacts(links: &Links, plan: &SitePlan) -> Markup {
    html! {
        table {
            thead { tr { th { "Artifact" } th { "Kind" } th .n { "Rows" } th { "Rollouts of this site" } } }
            tbody {
                @for artifact in &plan.artifacts {
                    tr {
                        td {
                            a href=(links.artifact(&artifact.digest, &artifact.output)) {
                                (visible(&artifact.stage.0)) "/" (visible(&artifact.output))
                            }
                        }
                        td { (artifact.kind) }
                        td .n { @if let Some(rows) = artifact.rows { (count(rows)) } }
                        td {
                            @if artifact.sample.is_some() {
                                a href=(links.rollouts(&artifact.digest, &artifact.output)) { (share(artifact)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn share(artifact: &SiteArtifact) -> String {
    match artifact.sampled() {
        Some(sample) => format!("{} of {}", count(sample.rollouts.len() as u64), count(sample.rows_total)),
        None => "not readable".to_string(),
    }
}

/// Renders the list of an artifact's rollouts.
pub fn rollouts(links: &Links, plan: &SitePlan, artifact: &SiteArtifact) -> Document {
    let content = match &artifact.sample {
        Some(Ok(sample)) => list(links, artifact, sample),
        Some(Err(error)) => html! {
            p .failure role="alert" { (visible(&error.message)) }
            @if let Some(help) = &error.help { p { (visible(help)) } }
        },
        None => empty("The artifact has no rollouts."),
    };
    let heading = Heading::new(&RUNS, format!("Rollouts of {}/{}", artifact.stage, artifact.output))
        .below(links.run(&plan.run.0), plan.run.0.as_str())
        .below(links.stage(&plan.run.0, &artifact.stage.0), artifact.stage.0.as_str())
        .below(links.artifact(&artifact.digest, &artifact.output), artifact.output.as_str());
    document(links, &heading, &content)
}

fn list(links: &Links, artifact: &SiteArtifact, sample: &RolloutSample) -> Markup {
    let shown = sample.rollouts.len() as u64;
    html! {
        p {
            @if shown < sample.rows_total {
                "This site has " (count(shown)) " of " (count(sample.rows_total))
                " rollouts, evenly spread over the rows."
            } @else {
                "All " (count(shown)) " rollouts."
            }
        }
        div #row-selection .filters hidden {
            label { "Text in the row" input #select-rows type="search"; }
            p #selected-rows role="status" {}
        }
        @if sample.rollouts.is_empty() { (empty("The artifact has no rows.")) }
        @else { (scrolling("Rollouts", &table(links, artifact, &sample.rollouts))) }
    }
}

fn table(links: &Links, artifact: &SiteArtifact, rollouts: &[SampledRollout]) -> Markup {
    html! {
        table #rollout-list {
            thead {
                tr {
                    th .n { "Row" } th { "Problem" } th .n { "Step" } th .n { "Reward" } th .n { "Turns" }
                    th { "End" }
                }
            }
            tbody {
                @for rollout in rollouts {
                    tr data-step=[rollout.update] data-problem=(visible(&rollout.problem_id)) {
                        td .n {
                            a data-row href=(links.row(&artifact.digest, &artifact.output, rollout.row)) {
                                (rollout.row)
                            }
                        }
                        td .wide { (cut(&rollout.problem_id, PROBLEM).0) }
                        td .n { @if let Some(step) = rollout.update { (step) } }
                        td .n { @if let Some(reward) = rollout.reward { (number(reward)) } }
                        td .n { (rollout.turns) }
                        td { (visible(&rollout.stop_reason)) }
                    }
                }
            }
        }
    }
}
