//! Implements the format `llama3`: a turn that is a JSON object with `name` and `parameters`, the form of function
//! calls of Llama 3.1 to 3.3.
//!
//! ```text
//! {"name": "python", "parameters": {"code": "1+1"}}
//! ```
//!
//! A turn begins with its calls, one after another, separated by white space or `;`. The marker `<|python_tag|>` before
//! the calls is accepted. A turn that begins otherwise is text.

use crate::formats::json_calls::{call, spaced};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::{Deserializer, Value, json};
use trainyard_tables::CallSyntax;

/// Documentation page of the format.
pub const DOC: &str = "`{\"name\": \"python\", \"parameters\": {\"code\": \"1+1\"}}` and nothing else in the turn: how \
Llama 3.1 to 3.3 call functions. Several calls follow each other, separated by white space or `;`.";

const MARKER: &str = "<|python_tag|>";

pub struct Llama3Format;

impl ToolFormat for Llama3Format {
    fn kind(&self) -> &'static str {
        "llama3"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        AgentTurn { text: text.to_string(), calls: calls(text), truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        format!("{{\"name\": {}, \"parameters\": {}}}", json!(call.name), spaced(&call.arguments))
    }
    fn call_syntax(&self) -> Option<CallSyntax> {
        Some(CallSyntax {
            open: "",
            call: ["{\"name\": ", ", \"parameters\": ", "}"],
            separator: "\n",
            close: "",
            markup: &[MARKER],
        })
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let functions: Vec<String> = tools.iter().map(|tool| spaced(&tool.schema())).collect();
        format!(
            "You may call these functions:\n{}\n\nTo call one, write nothing but\n\
             {{\"name\": <name>, \"parameters\": <object>}}",
            functions.join("\n")
        )
    }
}

fn calls(text: &str) -> Vec<Result<ToolCall, String>> {
    let marked = text.trim_start().strip_prefix(MARKER);
    let mut rest = marked.unwrap_or(text).trim();
    let mut calls = Vec::new();
    while rest.starts_with('{') {
        let mut stream = Deserializer::from_str(rest).into_iter::<Value>();
        match stream.next() {
            // An answer may be JSON, too.
            Some(Ok(value)) if value.get("name").is_none() && marked.is_none() => return calls,
            Some(Ok(value)) => calls.push(call(&value, "parameters")),
            Some(Err(e)) if marked.is_some() || rest.contains("\"name\"") => {
                calls.push(Err(format!("error: the tool call is no JSON: {e}")));
                return calls;
            }
            _ => return calls,
        }
        rest = rest[stream.byte_offset()..].trim_start_matches(|c: char| c.is_whitespace() || c == ';');
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weather(city: &str) -> ToolCall {
        ToolCall { name: "get_weather".to_string(), arguments: json!({"city": city}) }
    }

    #[test]
    fn turn_is_calls_or_text() {
        let text = "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\"}}";
        assert_eq!(Llama3Format.render(&weather("Rome")), text);
        assert_eq!(Llama3Format.parse(text).calls, [Ok(weather("Rome"))]);
        assert_eq!(Llama3Format.parse(&format!("<|python_tag|>{text}; {text}")).calls.len(), 2);
        assert_eq!(Llama3Format.parse(&format!("{text}\n{text}")).calls.len(), 2);
        for words in ["It is warm.", "{\"degrees\": 21}", "", "{x}", &format!("See {text}")] {
            assert!(Llama3Format.parse(words).calls.is_empty(), "{words}");
        }
    }

    #[test]
    fn errors_name_the_defect() {
        let error = |text: &str| Llama3Format.parse(text).calls[0].clone().unwrap_err();
        assert!(error("{\"name\": \"f\", \"parameters\": {").contains("no JSON"));
        assert_eq!(error("{\"name\": \"f\"}"), "error: the tool call has no \"parameters\"");
        assert_eq!(
            error("{\"name\": \"f\", \"parameters\": 1}"),
            "error: \"parameters\" of the tool call must be an object"
        );
        assert_eq!(error("<|python_tag|>{\"f\": 1}"), "error: the tool call has no \"name\"");
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(city in "\\PC{0,16}", name in "[a-zA-Z_ ]{1,12}") {
            let call = ToolCall { name, arguments: json!({"city": city}) };
            let two = format!("{}\n{}", Llama3Format.render(&call), Llama3Format.render(&call));
            prop_assert_eq!(Llama3Format.parse(&two).calls, vec![Ok(call.clone()), Ok(call)]);
        }
    }
}
