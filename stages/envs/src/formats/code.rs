//! Implements the format `code`: raw code between `<tool_call>` and `</tool_call>`, for exactly one tool, whose name is
//! not written.
//!
//! The format is meant for character-level models, for which every character of JSON is a token.

use crate::formats::markup::{CLOSE, OPEN, bodies};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::json;
use trainyard_core::{Error, Result};

/// Documentation page of the format.
pub const DOC: &str = "`<tool_call>print(6 * 7)</tool_call>`: the text between the tags is the main argument \
of the only tool. It costs the fewest \
tokens, which small models pay for one by one; with more than one tool use `hermes`.";

/// The format for one tool with one text argument.
pub struct CodeFormat {
    tool: String,
    argument: String,
}

impl CodeFormat {
    /// Returns the format for a single tool. Fails with kind `invalid` unless `tools` contains exactly one tool, which
    /// has a main argument.
    pub fn new(tools: &[ToolSpec]) -> Result<Self> {
        let [tool] = tools else {
            return Err(Error::invalid(format!("format `code` is for exactly one tool, not {}", tools.len()))
                .help("use format `hermes`"));
        };
        let argument = tool.main_argument().ok_or_else(|| {
            Error::invalid(format!("tool `{}` has no required argument that raw code could fill", tool.name))
                .help("use format `hermes`")
        })?;
        Ok(Self { tool: tool.name.clone(), argument: argument.to_string() })
    }
}

impl ToolFormat for CodeFormat {
    fn kind(&self) -> &'static str {
        "code"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let read = |body: &str| {
            if body.trim().is_empty() {
                return Err("error: the tool call is empty".to_string());
            }
            let code = body.strip_prefix('\n').unwrap_or(body);
            Ok(ToolCall { name: self.tool.clone(), arguments: json!({&self.argument: code}) })
        };
        let calls = bodies(text).into_iter().map(|body| body.and_then(read)).collect();
        AgentTurn { text: text.to_string(), calls, truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        let code = call.arguments.get(&self.argument).and_then(|v| v.as_str()).unwrap_or_default();
        // Parsing strips one leading line break, so a line break that belongs to the code is doubled.
        let guard = if code.starts_with('\n') { "\n" } else { "" };
        format!("{OPEN}{guard}{code}{CLOSE}")
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let tool = tools.first().map_or("", |t| &t.description);
        format!(
            "You have one tool. {tool}\nTo use it, write {OPEN}{}{CLOSE} and wait for the result. \
             Then give the final answer.",
            self.argument
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::registry::tool;
    use proptest::prelude::*;

    fn code() -> CodeFormat {
        CodeFormat::new(&tool("python").unwrap().specs()).unwrap()
    }

    #[test]
    fn call_is_the_code_between_the_tags() {
        let turn = code().parse("so <tool_call>x=3\nx</tool_call>");
        assert_eq!(turn.calls, [Ok(ToolCall { name: "python".to_string(), arguments: json!({"code": "x=3\nx"}) })]);
        assert_eq!(turn.message().tool_calls.unwrap(), r#"[{"name":"python","arguments":{"code":"x=3\nx"}}]"#);
        assert_eq!(turn.message().content, "so <tool_call>x=3\nx</tool_call>");
        assert!(code().parse("7").calls.is_empty());
        assert_eq!(code().parse("7").message().tool_calls, None);
    }

    #[test]
    fn unreadable_calls_are_errors_in_place() {
        for text in ["<tool_call>x=3", "<tool_call></tool_call>", "<tool_call> \n</tool_call>", "x=3</tool_call>"] {
            let turn = code().parse(text);
            assert!(matches!(turn.calls.as_slice(), [Err(_)]), "{text}");
            assert_eq!(turn.calls_json(), None);
        }
    }

    #[test]
    fn several_tools_are_rejected() {
        assert!(CodeFormat::new(&[]).is_err());
        assert!(CodeFormat::new(&["calculator", "python"].map(|name| tool(name).unwrap().specs().remove(0))).is_err());
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(text in "[a-z\n]{0,3}[a-z=+ <>/]{1,20}x") {
            let call = ToolCall { name: "python".to_string(), arguments: json!({"code": text}) };
            prop_assert_eq!(code().parse(&code().render(&call)).calls, vec![Ok(call)]);
        }
    }
}
