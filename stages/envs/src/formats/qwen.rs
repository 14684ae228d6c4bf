//! Implements the format `qwen`: a function and its parameters as tags, the form on which Qwen3-Coder, Qwen3.5 and
//! Nemotron 3 are trained.
//!
//! ```text
//! <tool_call>
//! <function=python>
//! <parameter=code>
//! 1+1
//! </parameter>
//! </function>
//! </tool_call>
//! ```
//!
//! Texts are written verbatim, other values as JSON. The tool's schema defines the type of a value; without a schema,
//! JSON that parses is not text. A text that would be read otherwise is written as a JSON string; a JSON string is
//! always read as one.

use crate::formats::json_calls::spaced;
use crate::formats::markup::{CLOSE, OPEN, bodies};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::{Map, Value, json};

/// Documentation page of the format.
pub const DOC: &str = "`<tool_call><function=python><parameter=code>1+1</parameter></function></tool_call>`, each tag \
on a line of its own: the form that Qwen3-Coder, Qwen3.5 and Nemotron 3 are trained on.";

const FUNCTION: [&str; 2] = ["<function=", "</function>"];
const PARAMETER: [&str; 2] = ["<parameter=", "</parameter>"];

/// Format `qwen` for a set of tools.
pub struct QwenFormat {
    tools: Vec<ToolSpec>,
}

impl QwenFormat {
    /// Returns the format for tools whose schemas define the types of parameters.
    pub fn new(tools: &[ToolSpec]) -> Self {
        Self { tools: tools.to_vec() }
    }
    /// Returns whether the schema of a tool declares a parameter as a text; `None` if the schema declares no type.
    fn is_text(&self, tool: &str, parameter: &str) -> Option<bool> {
        let tool = self.tools.iter().find(|t| t.name == tool)?;
        Some(tool.parameters["properties"][parameter]["type"].as_str()? == "string")
    }
    fn value(&self, tool: &str, parameter: &str, text: &str) -> Value {
        let read = serde_json::from_str::<Value>(text).ok();
        match (read, self.is_text(tool, parameter)) {
            (Some(Value::String(text)), _) => Value::String(text),
            (Some(value), None | Some(false)) => value,
            _ => Value::from(text),
        }
    }
    fn text(&self, tool: &str, parameter: &str, value: &Value) -> String {
        let json = || spaced(value).replace('<', "\\u003c");
        let Value::String(text) = value else { return json() };
        let marked = [OPEN, CLOSE].iter().chain(&FUNCTION).chain(&PARAMETER).any(|tag| text.contains(tag));
        let broken = text.starts_with('\n') || text.ends_with('\n');
        let misread = self.value(tool, parameter, text) != *value;
        if marked || broken || misread { json() } else { text.clone() }
    }
    fn read(&self, body: &str) -> Result<ToolCall, String> {
        let body = body.trim();
        let Some((name, rest)) = body.strip_prefix(FUNCTION[0]).and_then(|rest| rest.split_once('>')) else {
            let message = if body.is_empty() { "is empty" } else { "has no `<function=name>`" };
            return Err(format!("error: the tool call {message}"));
        };
        let Some((mut rest, _)) = rest.split_once(FUNCTION[1]) else {
            return Err(format!("error: the tool call has no {}", FUNCTION[1]));
        };
        let mut arguments = Map::new();
        while let Some((parameter, after)) = rest.split_once(PARAMETER[0]).and_then(|(_, p)| p.split_once('>')) {
            let Some((text, after)) = after.split_once(PARAMETER[1]) else {
                return Err(format!("error: the parameter `{parameter}` has no {}", PARAMETER[1]));
            };
            let text = text.strip_prefix('\n').unwrap_or(text);
            let text = text.strip_suffix('\n').unwrap_or(text);
            arguments.insert(parameter.to_string(), self.value(name, parameter, text));
            rest = after;
        }
        Ok(ToolCall { name: name.to_string(), arguments: Value::Object(arguments) })
    }
}

impl ToolFormat for QwenFormat {
    fn kind(&self) -> &'static str {
        "qwen"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let calls = bodies(text).into_iter().map(|body| body.and_then(|body| self.read(body))).collect();
        AgentTurn { text: text.to_string(), calls, truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        let mut out = format!("{OPEN}\n{}{}>\n", FUNCTION[0], call.name);
        for (parameter, value) in call.arguments.as_object().into_iter().flatten() {
            let text = self.text(&call.name, parameter, value);
            out += &format!("{}{parameter}>\n{text}\n{}\n", PARAMETER[0], PARAMETER[1]);
        }
        out + FUNCTION[1] + "\n" + CLOSE
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let functions: Vec<String> = tools.iter().map(|tool| spaced(&tool.schema())).collect();
        let example = ToolCall { name: "NAME".into(), arguments: json!({"PARAMETER": "value"}) };
        format!(
            "# Tools\n\nYou may call these functions:\n<tools>\n{}\n</tools>\n\nFor each call write\n{}",
            functions.join("\n"),
            self.render(&example)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn format() -> QwenFormat {
        let parameters = json!({"type": "object", "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"},
        }});
        QwenFormat::new(&[ToolSpec { name: "weather".into(), description: "Tells it.".into(), parameters }])
    }

    #[test]
    fn values_have_the_types_of_the_schema() {
        let call = ToolCall { name: "weather".into(), arguments: json!({"city": "Rome\n2", "days": 3}) };
        let text = "<tool_call>\n<function=weather>\n<parameter=city>\nRome\n2\n</parameter>\n<parameter=days>\n3\n\
                    </parameter>\n</function>\n</tool_call>";
        assert_eq!(format().render(&call), text);
        assert_eq!(format().parse(text).calls, [Ok(call)]);
        let number = text.replace("Rome\n2", "7");
        assert_eq!(format().parse(&number).calls[0].clone().unwrap().arguments["city"], "7");
        assert_eq!(QwenFormat::new(&[]).parse(&number).calls[0].clone().unwrap().arguments["city"], 7);
        assert!(format().parse("It is warm.").calls.is_empty());
        let none = ToolCall { name: "now".into(), arguments: json!({}) };
        assert_eq!(format().parse(&format().render(&none)).calls, [Ok(none)]);
    }

    #[test]
    fn errors_name_the_defect() {
        let error = |body: &str| format().parse(&format!("{OPEN}{body}{CLOSE}")).calls[0].clone().unwrap_err();
        assert_eq!(error("\n"), "error: the tool call is empty");
        assert_eq!(error("{}"), "error: the tool call has no `<function=name>`");
        assert_eq!(error("<function=f>"), "error: the tool call has no </function>");
        assert_eq!(error("<function=f><parameter=a>1</function>"), "error: the parameter `a` has no </parameter>");
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(
            text in "[\n\"]?[ -~\né]{0,12}(</tool_call>|</parameter>|<function=)?[\n\"0-9]{0,3}",
            number in any::<i32>(),
        ) {
            let call = ToolCall {
                name: "weather".into(),
                arguments: json!({"city": text, "days": number, "other": text, "list": [number, text]}),
            };
            prop_assert_eq!(format().parse(&format().render(&call)).calls, vec![Ok(call)]);
        }
    }
}
