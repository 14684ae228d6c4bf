//! Implements the format `sharegpt`: `{"conversations": [{"from", "value"}], "system", "tools"}`, as LLaMA-Factory and
//! Axolotl read it.

use super::ExportForm;
use super::conversation::{self, ExportMessage};
use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use crate::tool_text::RawToolCall;
use trainyard_core::{Error, Result};
use trainyard_tables::OrderedValue;

pub struct ShareGptExport;

impl ExportFormat for ShareGptExport {
    fn name(&self) -> &'static str {
        "sharegpt"
    }
    fn summary(&self) -> &'static str {
        "conversations of ShareGPT"
    }
    fn doc(&self) -> &'static str {
        "JSON Lines in the form `sft`: `conversations` of `{from, value}` (`human`, `gpt`, `function_call`, \
        `observation`), `system` for a first system message, `tools` as JSON text. A turn of calls alone is a \
        `function_call`; a turn with text and calls stays one `gpt` text. Left out: ids of calls, names, \
        reasoning, and loss masks of turns."
    }
    fn forms(&self) -> &'static [ExportForm] {
        &[ExportForm::Sft]
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        let ExportItem::Conversation(row) = item else { return Err(Error::bug("`sharegpt` writes conversations")) };
        let messages = conversation::trajectory_messages(row, omissions)?;
        let system = messages.first().filter(|first| first.message.role == "system" && !first.text.is_empty());
        let rest = &messages[usize::from(system.is_some())..];
        let turns = rest.iter().map(|message| turn(message, omissions)).collect();
        let tools = match conversation::tools(row)? {
            Some(OrderedValue::RawJson(text)) => Some(OrderedValue::Text(text)),
            other => other,
        };
        Ok(OrderedValue::object([("conversations", OrderedValue::List(turns))])
            .with("system", system.map(|first| OrderedValue::from(first.text.as_str())))
            .with("tools", tools))
    }
}

fn turn(exported: &ExportMessage<'_>, omissions: &mut ExportOmissions) -> OrderedValue {
    let message = exported.message;
    omissions.add("names of messages", usize::from(message.name.is_some()));
    omissions.add("reasoning of messages", usize::from(message.reasoning_content.is_some()));
    let ids =
        exported.calls.iter().filter(|call| call.id.is_some()).count() + usize::from(message.tool_call_id.is_some());
    omissions.add("ids of calls", ids);
    omissions.add("loss masks of turns (the form `tokens` of `trl` keeps them)", usize::from(exported.is_context));
    let (from, value) = match message.role.as_str() {
        "assistant" if !exported.calls.is_empty() && exported.text.is_empty() => {
            ("function_call", calls(&exported.calls))
        }
        "assistant" if !exported.calls.is_empty() => {
            omissions.add("the structure of calls in turns with text (their text is kept)", 1);
            ("gpt", crate::tool_text::assistant(&exported.text, &exported.calls).content)
        }
        "assistant" => ("gpt", exported.text.clone()),
        "user" => ("human", exported.text.clone()),
        "tool" => ("observation", exported.text.clone()),
        _ => ("system", exported.text.clone()),
    };
    OrderedValue::object([("from", OrderedValue::from(from)), ("value", OrderedValue::Text(value))])
}

/// Returns a single call as a JSON object, and several calls as a list.
fn calls(calls: &[RawToolCall]) -> String {
    let texts: Vec<String> = calls.iter().map(RawToolCall::json).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}
