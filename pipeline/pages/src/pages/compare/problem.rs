//! Rollouts of several models on one problem, side by side and turn by turn.

use super::address::Shown;
use crate::layout::scrolling;
use crate::pages::rollout_parts::calls::arguments;
use crate::text::{self, MAX_CHARS, count, cut, visible};
use maud::{Markup, html};
use serde_json::Value;
use trainyard_views::comparison::{ComparedModel, ProblemComparison};

/// Maximum models side by side.
const MAX_MODELS: usize = 8;
/// Maximum messages of one rollout.
const MAX_MESSAGES: usize = 200;
/// Maximum calls of one message.
const MAX_CALLS: usize = 50;
/// Number of the greedy sample.
const GREEDY: i64 = -1;

/// Renders the page. `known` is the number of models that can be compared.
pub fn content(shown: &Shown<'_>, found: &ProblemComparison, known: usize) -> Markup {
    let hidden = known - found.models.len().min(known);
    html! {
        p {
            "Problem " code { (visible(&found.problem)) } ", " (count(found.position as u64 + 1)) " of "
            (count(found.problems as u64)) "."
        }
        nav .pages aria-label="Problems" {
            @if let Some(before) = &found.previous { a rel="prev" href=(at(shown, before)) { "Previous problem" } }
            @if let Some(next) = &found.next { a rel="next" href=(at(shown, next)) { "Next problem" } }
            a href=(shown.address(&[])) { "All flips" }
            @if hidden > 0 {
                @let all = shown.address(&[("problem", found.problem.as_str()), ("all", "1")]);
                a href=(all) { "All " (known) " models" }
            }
        }
        @if !found.question.is_empty() {
            h2 { "Problem" }
            @for message in &found.question { (turn(message)) }
        }
        h2 { "Verdicts" }
        @if let Some(expected) = &found.expected { p { "Expected answer: " code { (short(expected)) } } }
        (scrolling("Verdicts", &verdicts(&found.models)))
        h2 { "Rollouts" }
        div .compared role="group" aria-label="Rollouts side by side" {
            @for model in found.models.iter().take(MAX_MODELS) { (rollout(shown, model, found.question.len())) }
        }
        @if found.models.len() > MAX_MODELS {
            p .muted { (found.models.len() - MAX_MODELS) " more models; choose two with A and B." }
        }
    }
}

/// Returns the address of another problem for the same models.
fn at(shown: &Shown<'_>, problem: &str) -> String {
    let all = shown.query.all.as_deref().map(|all| ("all", all));
    let parameters: Vec<(&str, &str)> = [("problem", problem)].into_iter().chain(all).collect();
    shown.address(&parameters)
}

fn verdicts(models: &[ComparedModel]) -> Markup {
    html! {
        table {
            thead {
                tr {
                    th { "Model" } th { "Sample" } th { "Verdict" } th { "Extracted" } th { "Answer" }
                    th .n { "Reward" } th { "Stop" } th { "Drawn samples" }
                }
            }
            tbody {
                @for model in models {
                    tr {
                        td { (visible(&model.model)) }
                        td { (sample(model)) }
                        td { (verdict(model)) }
                        td { (cell(model, "extracted")) }
                        td { (cell(model, "answer")) }
                        td .n { (cell(model, "reward")) }
                        td { (cell(model, "stop_reason")) }
                        td { @let drawn = model.drawn; @if drawn.of > 0 { (drawn.right) " of " (drawn.of) " right" } }
                    }
                }
            }
        }
    }
}

fn sample(model: &ComparedModel) -> String {
    match model.sample {
        None => "none".to_string(),
        Some(GREEDY) => "greedy".to_string(),
        Some(number) => number.to_string(),
    }
}

fn verdict(model: &ComparedModel) -> Markup {
    let Some(verdict) = model.verdict.as_deref() else { return html! { span .muted { "no such sample" } } };
    let (class, symbol) = match verdict {
        "right" => ("right", "✓ "),
        "not judged" => ("muted", ""),
        unreadable if unreadable.starts_with("unreadable") => ("unreadable", "? "),
        _ => ("wrong", "✗ "),
    };
    html! { span .(class) { span aria-hidden="true" { (symbol) } (visible(verdict)) } }
}

fn cell(model: &ComparedModel, name: &str) -> Markup {
    let Some(value) = model.cell(&[name]) else { return html! {} };
    let number = value.as_f64().filter(|_| value.is_f64()).map(text::number);
    html! { (number.unwrap_or_else(|| short(value))) }
}

/// Returns a value as text of at most 200 characters.
fn short(value: &Value) -> String {
    let text = plain(value);
    let (text, hidden) = cut(&text, 200);
    if hidden > 0 { format!("{text}… {} more", count(hidden as u64)) } else { text.into_owned() }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// Renders the messages of a rollout after those of the problem, which all models share.
fn rollout(shown: &Shown<'_>, model: &ComparedModel, shared: usize) -> Markup {
    let messages = model.messages().get(shared..).unwrap_or_default();
    html! {
        section {
            h3 { (visible(&model.model)) " " (verdict(model)) }
            @if let Some(place) = &model.place {
                p { a href=(shown.links.row(&place.stage_digest, &place.output, place.row)) { "Whole rollout" } }
            }
            @if model.row.is_none() {
                p .muted {
                    @if model.sample.is_some() { "Its rollout was not kept." } @else { "It has no such sample." }
                }
            }
            @for message in messages.iter().take(MAX_MESSAGES) { (turn(message)) }
            @if messages.len() > MAX_MESSAGES { p .muted { (messages.len() - MAX_MESSAGES) " more messages" } }
        }
    }
}

/// Renders a message: role, folded reasoning, text, calls.
fn turn(message: &Value) -> Markup {
    let role = message["role"].as_str().unwrap_or("message");
    html! {
        div .turn data-role=(role) {
            p .role { (visible(role)) @if let Some(name) = message["name"].as_str() { " " (visible(name)) } }
            @if let Some(reasoning) = message["reasoning_content"].as_str().filter(|text| !text.is_empty()) {
                details { summary { "Reasoning" } (block(reasoning)) }
            }
            @let content = if message["content"].is_null() { String::new() } else { plain(&message["content"]) };
            @if !content.is_empty() { (block(&content)) }
            (calls(&message["tool_calls"]))
        }
    }
}

/// Renders tool calls, which rows store as JSON text.
fn calls(stored: &Value) -> Markup {
    let parsed = stored.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    match parsed.as_ref().unwrap_or(stored) {
        Value::Null => html! {},
        Value::Array(calls) => html! {
            @for call in calls.iter().take(MAX_CALLS) {
                @let function = call.get("function").unwrap_or(call);
                p .muted { "Call of " (cut(function["name"].as_str().unwrap_or("a tool without a name"), 80).0) }
                @let arguments = arguments(function.get("arguments").unwrap_or(&Value::Null));
                @if !arguments.is_empty() { (block(&arguments)) }
            }
            @if calls.len() > MAX_CALLS { p .muted { (calls.len() - MAX_CALLS) " more calls" } }
        },
        other => {
            let text = plain(other);
            html! { @if !text.is_empty() { p .muted { "Calls" } (block(&text)) } }
        }
    }
}

fn block(text: &str) -> Markup {
    let (text, hidden) = cut(text, MAX_CHARS);
    html! {
        pre { (text) }
        @if hidden > 0 { p .muted { (count(hidden as u64)) " more characters" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn calls_have_the_name_and_the_arguments_of_the_tool() {
        let stored = json!(r#"[{"name": "calculator", "arguments": {"expression": "1 < 2"}}]"#);
        let shown = calls(&stored).into_string();
        assert_eq!(shown, "<p class=\"muted\">Call of calculator</p><pre>expression: 1 &lt; 2</pre>");
        assert_eq!(calls(&json!("not JSON")).into_string(), "<p class=\"muted\">Calls</p><pre>not JSON</pre>");
        assert!(calls(&Value::Null).into_string().is_empty() && calls(&json!("")).into_string().is_empty());
    }

    #[test]
    fn unreadable_answers_are_set_apart_from_wrong_ones() {
        let of = |text: &str| ComparedModel { verdict: Some(text.into()), ..ComparedModel::default() };
        let shown = verdict(&of("unreadable (the episode has no answer)")).into_string();
        assert!(shown.contains("class=\"unreadable\"") && shown.contains("? </span>unreadable (the"), "{shown}");
        assert!(verdict(&of("wrong")).into_string().contains("class=\"wrong\""));
    }

    #[test]
    fn numbers_are_short() {
        let row = json!({"reward": 0.0, "answer": "0.50", "n": 3});
        let model = ComparedModel { row: row.as_object().cloned(), ..ComparedModel::default() };
        assert_eq!(["reward", "answer", "n"].map(|name| cell(&model, name).into_string()), ["0", "0.50", "3"]);
    }
}
