//! Implements the format `toolrl`, the markup of ToolRL (arXiv 2504.13958): thoughts, then a block of JSON objects or a
//! response.
//!
//! ```text
//! <think> … </think>
//! <tool_call>
//! {"name": "get_weather", "parameters": {"city": "Rome"}}
//! {"name": "set_timer", "parameters": {"minutes": 5}}
//! </tool_call>
//! <response> … </response>
//! ```
//!
//! Any white space may separate the objects. Calls before `</think>` are thoughts and are not executed. After invalid
//! JSON the rest of the block is skipped, because the beginning of the next object is unknown.

use crate::formats::hermes::escape_tags;
use crate::formats::markup::{CLOSE, OPEN, bodies};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::{Deserializer, Value};
use trainyard_tables::CallSyntax;

/// Documentation page of the format.
pub const DOC: &str = "`<think>…</think>`, then one `<tool_call>` block with a JSON object per call \
(`name`, `parameters`), or a `<response>`: the \
markup of ToolRL (2504.13958). An object that does not parse ends the reading of its block.";

const THOUGHT_ENDS: &str = "</think>";

pub struct ToolRlFormat;

impl ToolFormat for ToolRlFormat {
    fn kind(&self) -> &'static str {
        "toolrl"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let after_thoughts = text.split_once(THOUGHT_ENDS).map_or(text, |(_, rest)| rest);
        let mut calls = Vec::new();
        for body in bodies(after_thoughts) {
            match body {
                Ok(body) => calls.extend(read(body)),
                Err(message) => calls.push(Err(message)),
            }
        }
        AgentTurn { text: text.to_string(), calls, truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        let (name, parameters) = (escape_markup(&Value::from(call.name.as_str())), escape_markup(&call.arguments));
        format!("{OPEN}\n{{\"name\": {name}, \"parameters\": {parameters}}}\n{CLOSE}")
    }
    fn call_syntax(&self) -> Option<CallSyntax> {
        Some(CallSyntax {
            open: "<tool_call>\n",
            call: ["{\"name\": ", ", \"parameters\": ", "}"],
            separator: "\n",
            close: "\n</tool_call>",
            markup: &[OPEN, CLOSE, THOUGHT_ENDS],
        })
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let list: Vec<String> = tools
            .iter()
            .enumerate()
            .map(|(i, t)| {
                format!("{}. Name: {}\nDescription: {}\nParameters: {}", i + 1, t.name, t.description, t.parameters)
            })
            .collect();
        format!(
            "You may call these tools:\n{}\n\nThink first, then write the calls, one JSON object on a line, or your \
             words to the user:\n<think> thoughts </think>\n{OPEN}\n{{\"name\": <name>, \"parameters\": <object>}}\n\
             {CLOSE}\n<response> words </response>",
            list.join("\n")
        )
    }
}

/// Returns JSON text with the tags that would end a thought or a call escaped.
fn escape_markup(value: &Value) -> String {
    escape_tags(value).replace(THOUGHT_ENDS, "\\u003c/think>")
}

fn read(body: &str) -> Vec<Result<ToolCall, String>> {
    if body.trim().is_empty() {
        return vec![Err("error: the tool call is empty".to_string())];
    }
    let mut calls = Vec::new();
    for value in Deserializer::from_str(body).into_iter::<Value>() {
        match value {
            Ok(value) => calls.push(call(&value)),
            // The start of the next object is unknown.
            Err(e) => {
                calls.push(Err(format!("error: the tool call is no JSON: {e}")));
                break;
            }
        }
    }
    calls
}

fn call(value: &Value) -> Result<ToolCall, String> {
    let Some(name) = value.get("name").and_then(Value::as_str) else {
        return Err("error: the tool call has no \"name\"".to_string());
    };
    match value.get("parameters") {
        Some(parameters @ Value::Object(_)) => Ok(ToolCall { name: name.to_string(), arguments: parameters.clone() }),
        Some(_) => Err("error: \"parameters\" of the tool call must be an object".to_string()),
        None => Err("error: the tool call has no \"parameters\"".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn weather(city: &str) -> ToolCall {
        ToolCall { name: "get_weather".to_string(), arguments: json!({"city": city}) }
    }

    #[test]
    fn one_block_may_hold_many_calls() {
        let text = "<think> Both cities. </think>\n<tool_call>\n{\"name\": \"get_weather\", \"parameters\": \
                    {\"city\": \"Rome\"}}\n\
                    {\"name\": \"get_weather\", \"parameters\": {\"city\": \"Oslo\"}}\n</tool_call>";
        let turn = ToolRlFormat.parse(text);
        assert_eq!(turn.calls, [Ok(weather("Rome")), Ok(weather("Oslo"))]);
        assert_eq!(turn.message().content, text);
        assert!(
            ToolRlFormat.parse("<think> Nothing to do. </think>\n<response> Which city? </response>").calls.is_empty()
        );
        let two_blocks =
            format!("{}\n{}", ToolRlFormat.render(&weather("Rome")), ToolRlFormat.render(&weather("Oslo")));
        assert_eq!(ToolRlFormat.parse(&two_blocks).calls, turn.calls);
        let none = ToolCall { name: "ping".to_string(), arguments: json!({}) };
        assert_eq!(ToolRlFormat.render(&none), "<tool_call>\n{\"name\": \"ping\", \"parameters\": {}}\n</tool_call>");
    }

    #[test]
    fn calls_inside_thoughts_are_ignored() {
        let call = ToolRlFormat.render(&weather("Rome"));
        assert!(ToolRlFormat.parse(&format!("<think> {call} </think>\n<response> no </response>")).calls.is_empty());
        assert_eq!(ToolRlFormat.parse(&format!("<think> a </think>{call}")).calls.len(), 1);
        assert_eq!(ToolRlFormat.parse(&call).calls, [Ok(weather("Rome"))], "thoughts are optional");
    }

    #[test]
    fn errors_name_the_defect() {
        for (body, message) in [
            (" \n", "error: the tool call is empty"),
            ("{\"name\": 3}", "error: the tool call has no \"name\""),
            ("{\"name\": \"a\"}", "error: the tool call has no \"parameters\""),
            ("{\"name\": \"a\", \"arguments\": {}}", "error: the tool call has no \"parameters\""),
            ("{\"name\": \"a\", \"parameters\": [1]}", "error: \"parameters\" of the tool call must be an object"),
        ] {
            assert_eq!(ToolRlFormat.parse(&format!("{OPEN}{body}{CLOSE}")).calls, [Err(message.to_string())], "{body}");
        }
        let good = "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Rome\"}}";
        let half = ToolRlFormat.parse(&format!("{OPEN}\n{good}\n{{\"name\": \n{good}\n{CLOSE}")).calls;
        assert!(matches!(half.as_slice(), [Ok(_), Err(m)] if m.contains("no JSON")), "{half:?}");
        let unclosed = ToolRlFormat.parse(&format!("{OPEN}\n{good}")).calls;
        assert!(matches!(unclosed.as_slice(), [Err(m)] if m.contains("not closed")), "{unclosed:?}");
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(
            city in ".{0,12}(</tool_call>|<tool_call>|</think>)?\\PC{0,8}",
            name in "[a-zA-Z_ ]{1,12}",
        ) {
            let call = ToolCall { name, arguments: json!({"city": city}) };
            prop_assert_eq!(ToolRlFormat.parse(&ToolRlFormat.render(&call)).calls, vec![Ok(call)]);
        }
    }
}
