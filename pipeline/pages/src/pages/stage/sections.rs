//! Sections of the page of a stage: attempts, outputs, metrics, inputs.

use crate::layout::{empty, scrolling, status};
use crate::links::Links;
use crate::text;
use maud::{Markup, html};
use trainyard_core::ArtifactKind;
use trainyard_core::units::format_time;
use trainyard_engine::checks;
use trainyard_engine::fold::{AttemptView, StageView};
use trainyard_views::explain::amounts;
use trainyard_views::stage::StageDetails;
use trainyard_views::timeline::outcome_name;

/// Metrics that are shown at once; the others are folded.
const FIRST_METRICS: usize = 10;
/// Maximum number of metrics.
const MAX_METRICS: usize = 1_000;
/// Maximum number of artifacts of one input.
const MAX_INPUTS: usize = 50;
/// Attempts that are shown: the last ones.
const MAX_ATTEMPTS: usize = 100;

/// Shows the attempts with their outcomes.
pub fn attempts(stage: &StageView) -> Markup {
    let shown = &stage.attempts[stage.attempts.len().saturating_sub(MAX_ATTEMPTS)..];
    let table = html! {
        table {
            thead {
                tr {
                    th .n { "Attempt" } th { "Outcome" } th { "Started" } th .n { "Time with waits" } th { "Pool" }
                    th { "Error" }
                }
            }
            tbody { @for attempt in shown { (attempt_row(attempt)) } }
        }
    };
    html! {
        section aria-labelledby="attempts-title" {
            h2 #attempts-title { "Attempts" }
            @if shown.is_empty() {
                (empty("The stage has no attempts in this run."))
            } @else {
                (scrolling("Attempts", &table))
            }
            @if shown.len() < stage.attempts.len() {
                p .muted { (stage.attempts.len() - shown.len()) " earlier attempts are not shown." }
            }
        }
    }
}

fn attempt_row(attempt: &AttemptView) -> Markup {
    let outcome = attempt.outcome.map_or_else(|| "running".to_string(), outcome_name);
    #[expect(clippy::cast_precision_loss, reason = "a time is shown")]
    let seconds = attempt.ended.map(|ended| (ended - attempt.started).max(0) as f64 / 1_000.0);
    html! {
        tr {
            td .n { (attempt.number) }
            td { (status(&outcome)) }
            td { (format_time(attempt.started)) }
            td .n { @if let Some(seconds) = seconds { (text::seconds(seconds)) } }
            td {
                (text::visible(&attempt.pool)) ": " (amounts(&attempt.grant))
                @if let Some(handle) = &attempt.handle { br; span .mono { (text::cut(handle, 200).0) } }
            }
            td .wide {
                @if let Some(error) = &attempt.error {
                    span .failure { (text::cut(&error.to_string(), 4_000).0) }
                    @for cause in error.causes() { br; span .muted { "caused by: " (text::cut(cause, 1_000).0) } }
                }
            }
        }
    }
}

/// Shows the published outputs.
pub fn outputs(stage: &StageView, links: &Links) -> Markup {
    let digest = stage.digest.as_ref().map(ToString::to_string).unwrap_or_default();
    let table = html! {
        table {
            thead { tr { th { "Output" } th { "Kind" } th .n { "Rows" } th .n { "Size" } th { "More" } } }
            tbody {
                @for (name, output) in &stage.outputs {
                    tr {
                        td { a .mono href=(links.artifact(&digest, name)) { (text::visible(name)) } }
                        td { (output.kind) }
                        td .n { @if let Some(rows) = output.rows { (text::count(rows)) } }
                        td .n { (text::bytes(output.size)) }
                        td {
                            @if output.kind == ArtifactKind::Trajectories {
                                a href=(links.rollouts(&digest, name)) { "Rollouts" }
                            }
                        }
                    }
                }
            }
        }
    };
    html! {
        section aria-labelledby="outputs-title" {
            h2 #outputs-title { "Outputs" }
            @if stage.outputs.is_empty() {
                (empty("The stage has published nothing."))
            } @else {
                (scrolling("Outputs", &table))
            }
        }
    }
}

/// Shows the metrics of the manifest, the main one first, and the results of checks.
pub fn metrics(stage: &StageView) -> Markup {
    let is_main = |name: &String| stage.main_metric.as_ref() == Some(name);
    let mut all: Vec<(&String, &f64)> = stage.metrics.iter().collect();
    all.sort_by_key(|(name, _)| (!is_main(name), *name));
    let (first, rest) = all.split_at(all.len().min(FIRST_METRICS));
    html! {
        section aria-labelledby="metrics-title" {
            h2 #metrics-title { "Metrics" }
            @if all.is_empty() { (empty("The stage has no metrics yet.")) } @else { (metric_table("Metrics", first)) }
            @if !rest.is_empty() {
                details {
                    summary { (rest.len()) " more metrics" }
                    (metric_table("More metrics", &rest[..rest.len().min(MAX_METRICS)]))
                }
            }
            @for check in &stage.checks {
                p .(if check.passed { "right" } else { "wrong" }) { (text::cut(&checks::describe(check), 1_000).0) }
            }
        }
    }
}

fn metric_table(label: &str, metrics: &[(&String, &f64)]) -> Markup {
    let table = html! {
        table .narrow {
            thead { tr { th { "Metric" } th .n { "Value" } } }
            tbody {
                @for (name, value) in metrics {
                    tr { td .mono { (text::cut(name, 200).0) } td .n { (text::number(**value)) } }
                }
            }
        }
    };
    scrolling(label, &table)
}

/// Shows the artifacts that the stage read.
pub fn inputs(details: &StageDetails, links: &Links) -> Markup {
    html! {
        @if !details.inputs.is_empty() {
            section aria-labelledby="inputs-title" {
                h2 #inputs-title { "Inputs" }
                ul {
                    @for (name, list) in &details.inputs {
                        @for input in list.iter().take(MAX_INPUTS) {
                            li {
                                (text::visible(name)) ": "
                                a .mono href=(links.artifact(&input.stage_digest, &input.output)) {
                                    (text::cut(&input.stage_digest, 12).0) "/" (text::visible(&input.output))
                                }
                            }
                        }
                        @if list.len() > MAX_INPUTS {
                            li { (text::visible(name)) ": " (list.len() - MAX_INPUTS) " more" }
                        }
                    }
                }
            }
        }
    }
}
