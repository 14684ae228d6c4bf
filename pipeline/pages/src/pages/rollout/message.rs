//! One message: its role by word, reasoning folded, calls and results set apart.

use super::page::RowPage;
use crate::links::query;
use crate::pages::rollout_parts::calls::arguments;
use crate::pages::rollout_parts::words;
use crate::text::{MAX_CHARS, count, cut};
use maud::{Markup, html};
use serde_json::Value;
use trainyard_tables::Message;
use trainyard_views::rollouts::MessagePart;
use trainyard_views::step_labels;

/// Facts about the turn of a message.
pub struct TurnFacts<'a> {
    /// Number of the turn, from 0; `None` if the message is no turn of the agent.
    pub turn: Option<usize>,
    /// Whether a call of the turn failed.
    pub has_failed: bool,
    /// Labels of the steps of the message.
    pub labels: Option<&'a [Option<f64>]>,
}

/// Shows a message with its number and the facts about its turn; `calls` is the maximum number of tool calls that are
/// shown.
pub fn show(page: &RowPage, (number, message): (usize, &Message), facts: &TurnFacts<'_>, calls: usize) -> Markup {
    let class = match message.role.as_str() {
        "assistant" => "of-assistant",
        "tool" => "of-tool",
        "user" => "of-user",
        _ => "of-system",
    };
    html! {
        article .message .(class) id=(format!("m{number}")) {
            h3 {
                (role(message))
                @if let Some(turn) = facts.turn { " · turn " (turn) }
                " " span .muted { "message " (number) }
                @if let Some(labels) = facts.labels { " · " (step_labels::text(labels, crate::text::number)) }
                @if facts.has_failed { " " span .wrong { "✗ a call of this turn failed" } }
            }
            @if let Some(reasoning) = message.reasoning_content.as_ref().filter(|text| !text.is_empty()) {
                details .reasoning {
                    summary { "Reasoning, " (count(reasoning.chars().count() as u64)) " characters" }
                    (text(page, number, MessagePart::Reasoning, reasoning))
                }
            }
            @if !message.content.is_empty() { (text(page, number, MessagePart::Content, &message.content)) }
            @if let Some(stored) = &message.tool_calls { (tool_calls(page, number, stored, calls)) }
            @if let Some(id) = &message.tool_call_id { p .muted { "Call " (words::short(id, 80)) } }
        }
    }
}

fn role(message: &Message) -> Markup {
    let name = message.name.as_deref().filter(|name| !name.is_empty());
    html! {
        @match message.role.as_str() {
            "system" => "System",
            "user" => "User",
            "assistant" => "Assistant",
            "tool" => "Result",
            other => (words::short(other, 40)),
        }
        @if let Some(name) = name { " of " (words::short(name, 80)) }
    }
}

/// Shows the beginning of a text, and links to all of it if it is longer.
fn text(page: &RowPage, number: usize, part: MessagePart, text: &str) -> Markup {
    let (shown, more) = cut(text, MAX_CHARS);
    html! {
        pre { (shown) }
        @if more > 0 {
            p { (count(more as u64)) " more characters: " a href=(raw(page, number, part)) { "the whole text" } }
        }
    }
}

/// Returns the address of a text of a message.
fn raw(page: &RowPage, number: usize, part: MessagePart) -> String {
    let parts = ["raw", &page.row.to_string(), &number.to_string()];
    format!("{}{}", page.place.within(&page.request.links, &parts), query(&[("part", part.name())]))
}

/// Shows tool calls, which rows store as JSON text.
fn tool_calls(page: &RowPage, number: usize, stored: &str, limit: usize) -> Markup {
    let Ok(Value::Array(calls)) = serde_json::from_str::<Value>(stored) else {
        return html! {
            @if !stored.is_empty() {
                div .call { h4 { "Calls" } (text(page, number, MessagePart::Calls, stored)) }
            }
        };
    };
    // The limit on a message holds for its calls together.
    let size = MAX_CHARS / calls.len().clamp(1, limit.max(1));
    html! {
        @for call in calls.iter().take(limit) {
            @let function = call.get("function").unwrap_or(call);
            @let arguments = arguments(function.get("arguments").unwrap_or(&Value::Null));
            @let (shown, more) = cut(&arguments, size);
            div .call {
                h4 { "Call of " (words::short(function["name"].as_str().unwrap_or("a tool without a name"), 80)) }
                @if !arguments.is_empty() { pre { (shown) } }
                @if more > 0 {
                    p {
                        (count(more as u64)) " more characters: "
                        a href=(raw(page, number, MessagePart::Calls)) { "all calls as JSON" }
                    }
                }
            }
        }
        @if calls.len() > limit {
            p {
                (count((calls.len() - limit) as u64)) " more calls: "
                a href=(raw(page, number, MessagePart::Calls)) { "all calls as JSON" }
            }
        }
    }
}
