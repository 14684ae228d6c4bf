//! Words for outcomes of rollouts.

use crate::text::{cut, visible};
use maud::{Markup, html};
use trainyard_tables::AnswerVerdict;

/// Returns a verdict as a word with a symbol, so that its color is only an addition.
pub fn verdict(verdict: AnswerVerdict) -> Markup {
    let (symbol, class) = match verdict {
        AnswerVerdict::Right => ("✓", "right"),
        AnswerVerdict::Wrong => ("✗", "wrong"),
        AnswerVerdict::Unreadable => ("?", "unreadable"),
        AnswerVerdict::Unjudged => ("·", "muted"),
    };
    html! { span .verdict .(class) { span aria-hidden="true" { (symbol) " " } (verdict.name()) } }
}

/// Returns the first characters of a short text with a note about the others.
pub fn short(text: &str, limit: usize) -> Markup {
    let (shown, more) = cut(text, limit);
    html! { (shown) @if more > 0 { span .muted { " … " (crate::text::count(more as u64)) " more characters" } } }
}

/// Returns the name of a step; `None` is that of rollouts that no update used.
pub fn step(step: Option<u32>) -> String {
    step.map_or_else(|| "no step".to_string(), |step| format!("step {step}"))
}

/// Returns a word of a closed set, such as a reason for the end.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => visible(&word).replace('_', " "),
        _ => String::new(),
    }
}
