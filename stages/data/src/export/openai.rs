//! Format `openai`: conversations for fine-tuning through OpenAI's interface.

use super::Form;
use super::conversation::{self, CallForm, Said, call};
use super::format::{ExportFormat, Item};
use super::left_out::LeftOut;
use crate::tool_text::Call;
use std::collections::VecDeque;
use trainyard_core::{Error, Result};
use trainyard_tables::Ordered;

/// Arguments of calls as JSON text, as OpenAI's interface has them.
pub const TEXT_CALLS: CallForm = CallForm { text_arguments: true };

pub struct OpenAi;

impl ExportFormat for OpenAi {
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
    fn forms(&self) -> &'static [Form] {
        &[Form::Sft]
    }
    fn row(&self, item: &Item<'_>, left: &mut LeftOut) -> Result<Ordered> {
        let Item::Conversation(row) = item else { return Err(Error::bug("`openai` writes conversations")) };
        let said = conversation::of(row, left)?;
        let mut ids = Ids::default();
        let messages = said.iter().map(|said| message(said, &mut ids, left)).collect::<Result<_>>()?;
        Ok(Ordered::object([("messages", Ordered::List(messages))]).with("tools", conversation::tools(row)?))
    }
}

/// Ids of the calls without a result.
#[derive(Default)]
struct Ids {
    given: usize,
    open: VecDeque<String>,
}

impl Ids {
    fn of(&mut self, call: &Call) -> String {
        self.given += 1;
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}", self.given));
        self.open.push_back(id.clone());
        id
    }
}

fn message(said: &Said<'_>, ids: &mut Ids, left: &mut LeftOut) -> Result<Ordered> {
    let role = said.message.role.as_str();
    left.add("reasoning of messages", usize::from(said.message.reasoning_content.is_some()));
    let row = Ordered::object([("role", Ordered::from(role)), ("content", Ordered::from(said.text.as_str()))]);
    let name = said.message.name.as_deref();
    if role == "tool" {
        left.add("names of tools' results", usize::from(name.is_some()));
        let next = ids.open.pop_front();
        let id = said.message.tool_call_id.clone().or(next);
        return Ok(row.with("tool_call_id", id.map(Ordered::from)));
    }
    if role == "assistant" {
        ids.open.clear();
    }
    let identified = |one: &Call| call(&Call { id: Some(ids.of(one)), ..one.clone() }, TEXT_CALLS);
    let calls = said.calls.iter().map(identified).collect::<Result<Vec<_>>>()?;
    Ok(row
        .with("tool_calls", (!calls.is_empty()).then_some(Ordered::List(calls)))
        .with("name", name.map(Ordered::from))
        .with("weight", said.is_context.then_some(Ordered::Int(0))))
}
