//! Facts of an artifact's manifest.

use crate::layout::scrolling;
use crate::links::Links;
use crate::pages::rollout_parts::place::ArtifactPlace;
use crate::text::{bytes, count, cut, number, visible};
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::Manifest;
use trainyard_core::artifact::TableSummary;
use trainyard_views::annotations::NoteRow;
use trainyard_views::artifacts::{ArtifactPage, InputRow};

/// Maximum characters of a config.
const CONFIG: usize = 40_000;
/// Maximum characters of a short value.
const VALUE: usize = 120;
/// Maximum columns, notes and inputs of one list.
const LIST: usize = 200;
/// Digits of a digest.
const DIGITS: usize = 12;

/// Shows what the artifact is and what made it.
pub fn tiles(links: &Links, shown: &ArtifactPage, manifest: &Manifest) -> Markup {
    let (run, stage) = (shown.run.0.as_str(), shown.stage.0.as_str());
    html! {
        dl .tiles {
            div { dt { "Kind" } dd { (visible(&shown.about.kind)) } }
            @if let Some(rows) = shown.about.rows { div { dt { "Rows" } dd { (count(rows)) } } }
            div { dt { "Size" } dd { (bytes(shown.about.bytes)) } }
            div { dt { "Stage kind" } dd { (visible(&shown.stage_kind)) } }
            div { dt { "Made by run" } dd { a href=(links.run(run)) { (visible(run)) } } }
            div { dt { "Stage" } dd { a href=(links.stage(run, stage)) { (visible(stage)) } } }
            div { dt { "Attempt" } dd { (manifest.provenance.attempt) } }
            @if shown.generation > 0 { div { dt { "Earlier publications" } dd { (shown.generation) } } }
        }
        p .muted .wraps {
            "Content " code { (visible(&shown.about.digest)) } ", stage " code { (visible(&shown.stage_digest)) }
        }
    }
}

/// Lists the notes about the artifact and its rows.
pub fn notes(links: &Links, place: &ArtifactPlace, notes: &[NoteRow]) -> Markup {
    html! {
        @if !notes.is_empty() {
            h2 { "Notes" }
            ul .notes {
                @for note in notes.iter().take(LIST) {
                    li {
                        @if let Some(row) = note.row { a href=(place.row(links, row)) { "Row " (row) } ": " }
                        (cut(&note.text, 2_000).0)
                        span .muted {
                            " " @if let Some(by) = &note.by { (visible(by)) ", " } (visible(&note.at))
                        }
                    }
                }
            }
            (more(notes.len(), LIST, "notes"))
        }
    }
}

/// Lists the columns of a table with their statistics over all rows.
pub fn columns(table: &TableSummary) -> Markup {
    let value = |value: &Option<Value>| value.as_ref().map(|value| short(value, VALUE)).unwrap_or_default();
    html! {
        @if !table.columns.is_empty() {
            h2 { "Columns" }
            (scrolling("Columns", &html! {
                table {
                    thead {
                        tr {
                            th { "Column" } th { "Type" } th .n { "Nulls" } th { "Least" } th { "Greatest" }
                            th .n { "Mean" }
                        }
                    }
                    tbody {
                        @for column in table.columns.iter().take(LIST) {
                            tr {
                                th scope="row" { (cut(&column.name, VALUE).0) }
                                td .wide { (cut(&column.r#type, VALUE).0) }
                                td .n { (count(column.nulls)) }
                                td .wide { (value(&column.min)) }
                                td .wide { (value(&column.max)) }
                                td .n { @if let Some(mean) = column.mean { (number(mean)) } }
                            }
                        }
                    }
                }
            }))
            (more(table.columns.len(), LIST, "columns"))
        }
    }
}

/// Lists the artifacts that the stage read.
pub fn inputs(links: &Links, shown: &ArtifactPage) -> Markup {
    let all: Vec<(&String, &InputRow)> =
        shown.inputs.iter().flat_map(|(name, inputs)| inputs.iter().map(move |input| (name, input))).collect();
    html! {
        @if !all.is_empty() {
            h2 { "Inputs of the stage" }
            (scrolling("Inputs", &html! {
                table {
                    thead { tr { th { "Input" } th { "Artifact" } th { "Content" } } }
                    tbody {
                        @for (name, input) in all.iter().take(LIST) {
                            tr {
                                td { (visible(name)) }
                                td {
                                    a .mono href=(links.artifact(&input.stage_digest, &input.output)) {
                                        (digits(&input.stage_digest)) "/" (visible(&input.output))
                                    }
                                }
                                td .mono { (digits(&input.digest)) }
                            }
                        }
                    }
                }
            }))
            (more(all.len(), LIST, "inputs"))
        }
    }
}

/// Links to the other outputs of the stage.
pub fn other_outputs(links: &Links, place: &ArtifactPlace) -> Markup {
    let others: Vec<&String> =
        place.found.manifest.outputs.keys().filter(|port| port.as_str() != place.output()).collect();
    html! {
        @if !others.is_empty() {
            p {
                "Other outputs of the stage: "
                @for (at, port) in others.iter().enumerate() {
                    @if at > 0 { ", " }
                    a href=(links.artifact(&place.digest, port)) { (visible(port)) }
                }
            }
        }
    }
}

/// Shows the facts that later stages read.
pub fn metadata(metadata: &BTreeMap<String, Value>) -> Markup {
    html! {
        @if !metadata.is_empty() {
            h2 { "Metadata" }
            (scrolling("Metadata", &html! {
                table {
                    tbody {
                        @for (name, value) in metadata.iter().take(LIST) {
                            tr { th scope="row" { (visible(name)) } td .wide { (short(value, 2_000)) } }
                        }
                    }
                }
            }))
            (more(metadata.len(), LIST, "names"))
        }
    }
}

/// Shows the config of the stage.
pub fn config(config: &Value) -> Markup {
    let text = serde_json::to_string_pretty(config).unwrap_or_default();
    let (shown, more) = cut(&text, CONFIG);
    html! {
        h2 { "Config of the stage" }
        pre { (shown) }
        @if more > 0 { p .muted { (count(more as u64)) " more characters" } }
    }
}

fn digits(digest: &str) -> &str {
    digest.get(..DIGITS).unwrap_or(digest)
}

/// Formats a value on one line.
fn short(value: &Value, limit: usize) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let (shown, more) = cut(&text, limit);
    if more > 0 { format!("{shown}…") } else { shown.into_owned() }
}

fn more(total: usize, shown: usize, of: &str) -> Markup {
    html! {
        @if total > shown { p .muted { (count((total - shown) as u64)) " more " (of) } }
    }
}
