//! Defines the form that a turn of the agent must have: calls of tools, JSON, or either.

use serde_json::Value;
use trainyard_core::Error;

/// Opening and closing tags of a thought, by model family.
pub const THINKING_TAGS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<|channel>thought", "<channel|>"), ("[THINK]", "[/THINK]")];

/// Returns the tag that ends the thought which the end of a prompt opens; `None` if it opens no thought.
pub fn opened_thought(prompt_end: &str) -> Option<&'static str> {
    let prompt_end = prompt_end.trim_end();
    THINKING_TAGS.iter().find(|(open, _)| prompt_end.ends_with(open)).map(|(_, close)| *close)
}

/// Text of a turn of calls around the name and the arguments of each, which are JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSyntax {
    /// Text before the first call.
    pub open: &'static str,
    /// Text of a call before its name, between name and arguments, and after the arguments.
    pub call: [&'static str; 3],
    /// Text between two calls.
    pub separator: &'static str,
    /// Text after the last call.
    pub close: &'static str,
    /// Texts that arguments must not contain.
    pub markup: &'static [&'static str],
}

/// Tool that a call may name.
#[derive(Debug, Clone, PartialEq)]
pub struct CallableTool {
    /// Name in calls.
    pub name: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
    /// Index in the tools of the request, for errors.
    pub number: usize,
}

/// Calls that a turn may consist of.
#[derive(Debug, Clone, PartialEq)]
pub struct CallForm {
    /// Text around names and arguments.
    pub syntax: CallSyntax,
    /// Tools, at least one.
    pub tools: Vec<CallableTool>,
    /// Whether the turn may contain several calls.
    pub several: bool,
}

/// Text that a turn without calls may be.
#[derive(Debug, Clone, PartialEq)]
pub enum AnswerForm {
    /// A JSON object.
    Object,
    /// A JSON value of this JSON Schema.
    Schema(Value),
}

/// Form of a turn. At least one of the fields is set.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnForm {
    /// Permitted calls; `None` permits no call.
    pub calls: Option<CallForm>,
    /// Permitted text; `None` = the turn must be a call.
    pub answer: Option<AnswerForm>,
}

impl TurnForm {
    /// Returns the field of a request that gives the form.
    pub fn field(&self) -> &'static str {
        if self.answer.is_none() { "tool_choice" } else { "response_format" }
    }
    /// Creates the error of a form that cannot be kept.
    pub fn error(&self, error: Error) -> TurnFormError {
        TurnFormError { field: self.field().to_string(), error }
    }
}

/// Form that a turn cannot have.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnFormError {
    /// Field of the request, such as `tools[1]`.
    pub field: String,
    /// Reason.
    pub error: Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thought_is_opened_by_the_last_tag() {
        assert_eq!(opened_thought("<|assistant|>\n<think>\n"), Some("</think>"));
        assert_eq!(opened_thought("[THINK]"), Some("[/THINK]"));
        assert_eq!(opened_thought("<think></think>\n"), None);
        assert_eq!(opened_thought(""), None);
    }

    #[test]
    fn field_is_that_of_the_request() {
        let form = TurnForm { calls: None, answer: None };
        assert_eq!(form.field(), "tool_choice");
        let form = TurnForm { answer: Some(AnswerForm::Object), ..form };
        assert_eq!(form.error(Error::invalid("no")).field, "response_format");
    }
}
