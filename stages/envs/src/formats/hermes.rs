//! Implements the format `hermes`: a JSON object between the tags, the form on which Qwen and Hermes models are
//! trained. The environment checks tool names.
//!
//! ```text
//! <tool_call>
//! {"name": "python", "arguments": {"code": "1+1"}}
//! </tool_call>
//! ```

use crate::formats::markup::{CLOSE, OPEN, bodies};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::{Value, json};
use trainyard_tables::CallSyntax;

/// Documentation page of the format.
pub const DOC: &str = "`<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"1+1\"}}</tool_call>`, one \
block per call: the form that the Qwen and \
Hermes families are trained on.";

pub struct HermesFormat;

impl ToolFormat for HermesFormat {
    fn kind(&self) -> &'static str {
        "hermes"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let calls = bodies(text).into_iter().map(|body| body.and_then(read)).collect();
        AgentTurn { text: text.to_string(), calls, truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        format!(
            "{OPEN}\n{{\"name\": {}, \"arguments\": {}}}\n{CLOSE}",
            escape_tags(&Value::from(call.name.as_str())),
            escape_tags(&call.arguments)
        )
    }
    fn call_syntax(&self) -> Option<CallSyntax> {
        Some(CallSyntax {
            open: "<tool_call>\n",
            call: ["{\"name\": ", ", \"arguments\": ", "}"],
            separator: "\n</tool_call>\n<tool_call>\n",
            close: "\n</tool_call>",
            markup: &[OPEN, CLOSE],
        })
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let functions: Vec<String> = tools
            .iter()
            .map(|t| {
                json!({
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters}
                })
                .to_string()
            })
            .collect();
        format!(
            "# Tools\n\nYou may call these functions:\n<tools>\n{}\n</tools>\n\nFor each call write\n{OPEN}\n\
             {{\"name\": <name>, \"arguments\": <object>}}\n{CLOSE}",
            functions.join("\n")
        )
    }
}

/// Returns a value as JSON text in which the call tags are escaped, so that a tag in a string does not end the call.
pub(crate) fn escape_tags(value: &Value) -> String {
    value.to_string().replace("<tool_call>", "\\u003ctool_call>").replace("</tool_call>", "\\u003c/tool_call>")
}

fn read(body: &str) -> Result<ToolCall, String> {
    let body = body.trim();
    if body.is_empty() {
        return Err("error: the tool call is empty".to_string());
    }
    let value: Value = serde_json::from_str(body).map_err(|e| format!("error: the tool call is no JSON: {e}"))?;
    let Some(name) = value.get("name").and_then(Value::as_str) else {
        return Err("error: the tool call has no \"name\"".to_string());
    };
    match value.get("arguments") {
        Some(arguments @ Value::Object(_)) => Ok(ToolCall { name: name.to_string(), arguments: arguments.clone() }),
        Some(_) => Err("error: \"arguments\" of the tool call must be an object".to_string()),
        None => Err("error: the tool call has no \"arguments\"".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn call_is_an_object_with_name_and_arguments() {
        let text = "<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"1+1\"}}\n</tool_call>";
        let call = ToolCall { name: "python".to_string(), arguments: json!({"code": "1+1"}) };
        assert_eq!(HermesFormat.parse(text).calls, [Ok(call.clone())]);
        assert_eq!(HermesFormat.render(&call), text.replace(": \"1+1\"", ":\"1+1\""));
    }

    #[test]
    fn errors_name_the_defect() {
        for (body, message) in [
            ("", "error: the tool call is empty"),
            ("{\"name\": 3}", "error: the tool call has no \"name\""),
            ("{\"name\": \"a\"}", "error: the tool call has no \"arguments\""),
            ("{\"name\": \"a\", \"arguments\": \"b\"}", "error: \"arguments\" of the tool call must be an object"),
        ] {
            assert_eq!(HermesFormat.parse(&format!("{OPEN}{body}{CLOSE}")).calls, [Err(message.to_string())]);
        }
        let truncated = HermesFormat.parse("<tool_call>\n{\"name\": \"py");
        assert!(matches!(truncated.calls.as_slice(), [Err(m)] if m.contains("not closed")));
        assert!(
            matches!(HermesFormat.parse("<tool_call>{</tool_call>").calls.as_slice(), [Err(m)] if m.contains("no JSON"))
        );
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(
            code in ".{0,20}(</tool_call>|<tool_call>)?\\PC{0,8}",
            name in "[a-z]{1,8}(</tool_call>)?",
        ) {
            let call = ToolCall { name, arguments: json!({"code": code}) };
            prop_assert_eq!(HermesFormat.parse(&HermesFormat.render(&call)).calls, vec![Ok(call)]);
        }
    }
}
