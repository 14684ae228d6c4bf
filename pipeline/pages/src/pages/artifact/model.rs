//! Content of a model: shape, parameters by part, adapter, tokenizer, chat template, and what it was made from.

use crate::layout::scrolling;
use crate::links::Links;
use crate::text::{bytes, count, cut, number, visible};
use maud::{Markup, html};
use trainyard_views::model::{
    ModelAdapter, ModelArchitecture, ModelStep, ModelTemplate, ModelTokenizer, ModelView, ParameterCounts, TensorSum,
};

/// Special tokens that are listed.
const SPECIAL: usize = 32;
/// Maximum characters of a token or a line of a template.
const LINE: usize = 200;

/// Shows a model.
pub fn section(links: &Links, model: &ModelView) -> Markup {
    html! {
        h2 { "Model" }
        @if let Some(shape) = &model.architecture { (architecture(shape)) }
        @if let Some(counts) = &model.parameters { (parameters(counts)) }
        @if let Some(of) = &model.adapter { (adapter(of)) }
        @if let Some(of) = &model.tokenizer { (tokenizer(of)) }
        @if let Some(of) = &model.template { (template(of)) }
        @if !model.made_from.is_empty() { (made_from(links, &model.made_from, model.truncated)) }
        @for file in &model.unreadable { p .failure { "Cannot be read: " (cut(&file.why, 1_000).0) } }
    }
}

fn architecture(shape: &ModelArchitecture) -> Markup {
    let facts = [
        ("Layers", shape.layers),
        ("Hidden size", shape.hidden_size),
        ("Heads", shape.heads),
        ("Heads for keys and values", shape.kv_heads),
        ("MLP size", shape.intermediate_size),
        ("Rows of embeddings", shape.vocabulary_rows),
        ("Longest sequence", shape.max_position_embeddings),
    ];
    html! {
        dl .tiles {
            @if let Some(family) = &shape.family { div { dt { "Family" } dd { (visible(family)) } } }
            @for (name, value) in facts { @if let Some(value) = value { div { dt { (name) } dd { (count(value)) } } } }
            @if shape.tied_embeddings == Some(true) { div { dt { "Output head" } dd { "the embeddings" } } }
        }
    }
}

fn parameters(counts: &ParameterCounts) -> Markup {
    let row = |name: &str, sum: &TensorSum| {
        html! {
            tr {
                th scope="row" { (name) }
                td .n { (count(sum.tensors)) }
                td .n { (count(sum.parameters)) }
                td .n { (share(sum.parameters, counts.total.parameters)) }
                td .n { (bytes(sum.bytes)) }
            }
        }
    };
    let types: Vec<String> = counts.dtypes.iter().map(|of| visible(&of.dtype).into_owned()).collect();
    html! {
        h3 { "Parameters" }
        (scrolling("Parameters", &html! {
            table {
                thead {
                    tr { th { "Part" } th .n { "Tensors" } th .n { "Parameters" } th .n { "Share" } th .n { "Size" } }
                }
                tbody {
                    @for part in &counts.parts { (row(part.part.name(), &part.sum)) }
                    (row("all", &counts.total))
                }
            }
        }))
        p .muted { "Stored as " (types.join(", ")) }
    }
}

fn share(part: u64, all: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let share = 100.0 * part as f64 / all.max(1) as f64;
    format!("{share:.1}%")
}

fn adapter(adapter: &ModelAdapter) -> Markup {
    let base = adapter.base_artifact.as_ref().or(adapter.base.as_ref());
    html! {
        h3 { "Adapter" }
        dl .tiles {
            @if let Some(kind) = &adapter.kind { div { dt { "Kind" } dd { (visible(kind)) } } }
            @if let Some(rank) = adapter.rank { div { dt { "Rank" } dd { (rank) } } }
            @if let Some(alpha) = adapter.alpha { div { dt { "Alpha" } dd { (number(alpha)) } } }
            @if let Some(dropout) = adapter.dropout { div { dt { "Dropout" } dd { (number(dropout)) } } }
            @if adapter.rslora { div { dt { "Scale" } dd { "by the root of the rank" } } }
            @if let Some(counts) = &adapter.parameters {
                div { dt { "Parameters" } dd { (count(counts.total.parameters)) } }
            }
            @if let Some(base) = base { div { dt { "Base" } dd { (cut(base, LINE).0) } } }
        }
        @if !adapter.targets.is_empty() { p { "Layers: " (cut(&adapter.targets.join(", "), 1_000).0) } }
    }
}

fn tokenizer(tokenizer: &ModelTokenizer) -> Markup {
    let hidden = tokenizer.special_total.saturating_sub(tokenizer.special.len().min(SPECIAL) as u64);
    html! {
        h3 { "Tokenizer" }
        p {
            (visible(&tokenizer.kind)) ", " (count(tokenizer.vocabulary)) " tokens, "
            code { (visible(&tokenizer.digest)) }
        }
        @if !tokenizer.special.is_empty() {
            (scrolling("Special tokens", &html! {
                table {
                    thead { tr { th { "Special token" } th .n { "Id" } th { "Roles" } } }
                    tbody {
                        @for token in tokenizer.special.iter().take(SPECIAL) {
                            tr {
                                td .mono { (cut(&token.text, LINE).0) }
                                td .n { @if let Some(id) = token.id { (id) } @else { "none" } }
                                td { (visible(&token.roles.join(", "))) }
                            }
                        }
                    }
                }
            }))
        }
        @if hidden > 0 { p .muted { (count(hidden)) " more special tokens" } }
    }
}

fn template(template: &ModelTemplate) -> Markup {
    let more = template.lines.saturating_sub(template.first_lines.len() as u64);
    html! {
        h3 { "Chat template" }
        p { (count(template.lines)) " lines in " (visible(&template.file)) ", " code { (visible(&template.digest)) } }
        pre { @for line in &template.first_lines { (cut(line, LINE).0) "\n" } }
        @if more > 0 { p .muted { (count(more)) " more lines" } }
    }
}

fn made_from(links: &Links, steps: &[ModelStep], truncated: bool) -> Markup {
    let output = |artifact: &str| artifact.rsplit('/').next().unwrap_or_default().to_string();
    html! {
        h3 { "Made from" }
        ol {
            @for step in steps {
                li {
                    a href=(links.artifact(&step.stage_digest, &output(&step.artifact))) { (visible(&step.artifact)) }
                    ", by " (visible(&step.stage_kind))
                    @if !step.inputs.is_empty() {
                        ul {
                            @for input in &step.inputs {
                                li {
                                    (visible(&input.input)) ": " (visible(&input.artifact))
                                    @if let Some(rows) = input.rows { ", " (count(rows)) " rows" }
                                    @if !input.is_stored { span .muted { " (no longer in the store)" } }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if truncated { p .muted { "It was made from more models." } }
    }
}
