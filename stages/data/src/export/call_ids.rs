//! Gives every tool call an id to which its result refers, and converts its arguments to an object.

use super::omissions::ExportOmissions;
use crate::tool_text::RawToolCall;
use std::collections::VecDeque;
use trainyard_core::Result;
use trainyard_tables::{Message, OrderedValue};

/// Generator of ids for calls without an id, and queue of the ids of calls without a result.
#[derive(Debug, Default)]
pub struct CallIds {
    given: usize,
    open: VecDeque<String>,
}

impl CallIds {
    /// Forgets the calls of earlier turns, whose results cannot follow any more.
    pub fn begin_turn(&mut self) {
        self.open.clear();
    }
    /// Returns the id of the next call: its own, or `call_1`, `call_2`, ….
    pub fn call_id(&mut self, call: &RawToolCall) -> String {
        self.given += 1;
        let id = call.id.clone().unwrap_or_else(|| format!("call_{}", self.given));
        self.open.push_back(id.clone());
        id
    }
    /// Returns the id of the call of the next result: the one that the message names, or that of the first call without
    /// a result.
    pub fn result_id(&mut self, message: &Message) -> Option<String> {
        let next = self.open.pop_front();
        message.tool_call_id.clone().or(next)
    }
}

/// Returns the arguments of a call as an object. Arguments of another type become its key `value`, and are counted.
/// Errors: data, if they are not JSON.
pub fn object_arguments(call: &RawToolCall, omissions: &mut ExportOmissions) -> Result<OrderedValue> {
    let arguments = OrderedValue::raw_json(&call.arguments)?;
    if call.arguments.trim_start().starts_with('{') {
        return Ok(arguments);
    }
    omissions.add("the type of arguments that are no object (they are its key `value`)", 1);
    Ok(OrderedValue::object([("value", arguments)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: Option<&str>, arguments: &str) -> RawToolCall {
        RawToolCall { id: id.map(str::to_string), name: "f".into(), arguments: arguments.into() }
    }

    #[test]
    fn results_take_the_ids_of_their_calls_in_order() {
        let mut ids = CallIds::default();
        assert_eq!(ids.call_id(&call(Some("a"), "{}")), "a");
        assert_eq!(ids.call_id(&call(None, "{}")), "call_2");
        let result = |id: Option<&str>| Message { tool_call_id: id.map(str::to_string), ..Message::new("tool", "7") };
        assert_eq!(ids.result_id(&result(Some("mine"))).as_deref(), Some("mine"));
        assert_eq!(ids.result_id(&result(None)).as_deref(), Some("call_2"));
        assert_eq!(ids.result_id(&result(None)), None);
        assert_eq!(ids.call_id(&call(None, "{}")), "call_3");
        ids.begin_turn();
        assert_eq!(ids.result_id(&result(None)), None);
    }

    #[test]
    fn arguments_become_objects() {
        let mut omissions = ExportOmissions::default();
        let mut json = |text: &str| object_arguments(&call(None, text), &mut omissions).unwrap().to_json().unwrap();
        assert_eq!(json(" {\"b\": 1, \"a\": 2}"), "{\"b\": 1, \"a\": 2}");
        assert_eq!(json("[1]"), r#"{"value":[1]}"#);
        assert_eq!(omissions.counts().map(|(_, count)| count).collect::<Vec<_>>(), [1]);
        assert!(object_arguments(&call(None, "{"), &mut omissions).is_err());
    }
}
