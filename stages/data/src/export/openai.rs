//! Implements the format `openai`: conversations for fine-tuning through OpenAI's interface.

use super::ExportForm;
use super::call_ids::CallIds;
use super::conversation::{self, CallForm, ExportMessage, call};
use super::format::{ExportFormat, ExportItem};
use super::omissions::ExportOmissions;
use crate::tool_text::RawToolCall;
use trainyard_core::{Error, Result};
use trainyard_tables::OrderedValue;

/// Arguments of calls as JSON text, as OpenAI's interface has them.
pub const TEXT_CALLS: CallForm = CallForm { text_arguments: true };

pub struct OpenAiExport;

impl ExportFormat for OpenAiExport {
    fn name(&self) -> &'static str {
        "openai"
    }
    fn summary(&self) -> &'static str {
        "conversations for OpenAI fine-tuning"
    }
    fn doc(&self) -> &'static str {
        "JSON Lines in the form `sft`: `messages`, and `tools` where no message describes them. Arguments of calls are \
        JSON text. Every call has an id that its result names: calls without one get `call_1`, `call_2`, … Assistant \
        messages out of the loss have `weight: 0`. Left out: reasoning, and names of tools' results."
    }
    fn forms(&self) -> &'static [ExportForm] {
        &[ExportForm::Sft]
    }
    fn row(&self, item: &ExportItem<'_>, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
        let ExportItem::Conversation(row) = item else { return Err(Error::bug("`openai` writes conversations")) };
        let exported = conversation::trajectory_messages(row, omissions)?;
        let mut ids = CallIds::default();
        let messages = exported.iter().map(|one| message(one, &mut ids, omissions)).collect::<Result<_>>()?;
        Ok(OrderedValue::object([("messages", OrderedValue::List(messages))]).with("tools", conversation::tools(row)?))
    }
}

fn message(exported: &ExportMessage<'_>, ids: &mut CallIds, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let role = exported.message.role.as_str();
    omissions.add("reasoning of messages", usize::from(exported.message.reasoning_content.is_some()));
    let row = OrderedValue::object([
        ("role", OrderedValue::from(role)),
        ("content", OrderedValue::from(exported.text.as_str())),
    ]);
    let name = exported.message.name.as_deref();
    if role == "tool" {
        omissions.add("names of tools' results", usize::from(name.is_some()));
        return Ok(row.with("tool_call_id", ids.result_id(exported.message).map(OrderedValue::from)));
    }
    if role == "assistant" {
        ids.begin_turn();
    }
    let identified = |one: &RawToolCall| call(&RawToolCall { id: Some(ids.call_id(one)), ..one.clone() }, TEXT_CALLS);
    let calls = exported.calls.iter().map(identified).collect::<Result<Vec<_>>>()?;
    Ok(row
        .with("tool_calls", (!calls.is_empty()).then_some(OrderedValue::List(calls)))
        .with("name", name.map(OrderedValue::from))
        .with("weight", exported.is_context.then_some(OrderedValue::Int(0))))
}
