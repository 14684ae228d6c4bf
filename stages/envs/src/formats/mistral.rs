//! Implements the format `mistral`: a list of JSON objects after `[TOOL_CALLS]`, the form on which Mistral and
//! Ministral models are trained.
//!
//! ```text
//! [TOOL_CALLS][{"name": "python", "arguments": {"code": "1+1"}}]
//! ```
//!
//! The format also reads the newer form of the family, `[TOOL_CALLS]python[ARGS]{"code": "1+1"}`. It ignores the ids of
//! calls.

use crate::formats::json_calls::{call, spaced};
use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};
use serde_json::{Deserializer, Value, json};
use trainyard_tables::CallSyntax;

/// Documentation page of the format.
pub const DOC: &str = "`[TOOL_CALLS][{\"name\": \"python\", \"arguments\": {\"code\": \"1+1\"}}]`: the form that \
Mistral and Ministral models are trained on. `[TOOL_CALLS]name[ARGS]{…}` of the newer ones is read as well.";

const MARKER: &str = "[TOOL_CALLS]";
const ARGUMENTS: &str = "[ARGS]";

pub struct MistralFormat;

impl ToolFormat for MistralFormat {
    fn kind(&self) -> &'static str {
        "mistral"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        let calls = text.split(MARKER).skip(1).flat_map(|body| read(body.trim())).collect();
        AgentTurn { text: text.to_string(), calls, truncated: false }
    }
    fn render(&self, call: &ToolCall) -> String {
        let body = format!("{{\"name\": {}, \"arguments\": {}}}", json!(call.name), spaced(&call.arguments));
        // A marker inside an argument must not open a call.
        format!("{MARKER}[{}]", body.replace(MARKER, "\\u005bTOOL_CALLS]"))
    }
    fn call_syntax(&self) -> Option<CallSyntax> {
        Some(CallSyntax {
            open: "[TOOL_CALLS][",
            call: ["{\"name\": ", ", \"arguments\": ", "}"],
            separator: ", ",
            close: "]",
            markup: &[MARKER, ARGUMENTS],
        })
    }
    fn describe(&self, tools: &[ToolSpec]) -> String {
        let functions: Vec<String> = tools.iter().map(|tool| spaced(&tool.schema())).collect();
        format!(
            "[AVAILABLE_TOOLS][{}][/AVAILABLE_TOOLS]\nTo call tools, write\n\
             {MARKER}[{{\"name\": <name>, \"arguments\": <object>}}]",
            functions.join(", ")
        )
    }
}

fn read(body: &str) -> Vec<Result<ToolCall, String>> {
    if let Some((name, arguments)) = body.split_once(ARGUMENTS).filter(|_| !body.starts_with(['[', '{'])) {
        let value = serde_json::from_str::<Value>(arguments.trim());
        let value = value.map(|arguments| json!({"name": name.trim(), "arguments": arguments}));
        return vec![value.map_err(no_json).and_then(|value| call(&value, "arguments"))];
    }
    match Deserializer::from_str(body).into_iter::<Value>().next() {
        None => vec![Err("error: the tool call is empty".to_string())],
        Some(Err(e)) => vec![Err(no_json(e))],
        Some(Ok(Value::Array(list))) => list.iter().map(|value| call(value, "arguments")).collect(),
        Some(Ok(value)) => vec![call(&value, "arguments")],
    }
}

fn no_json(e: serde_json::Error) -> String {
    format!("error: the tool call is no JSON: {e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weather(city: &str) -> ToolCall {
        ToolCall { name: "get_weather".to_string(), arguments: json!({"city": city}) }
    }

    #[test]
    fn both_forms_of_the_family_are_read() {
        let text = "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}}]";
        assert_eq!(MistralFormat.render(&weather("Rome")), text);
        assert_eq!(MistralFormat.parse(text).calls, [Ok(weather("Rome"))]);
        let two = "Ok. [TOOL_CALLS] [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Rome\"}, \"id\": \"a\"}, \
                   {\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}]";
        assert_eq!(MistralFormat.parse(two).calls, [Ok(weather("Rome")), Ok(weather("Oslo"))]);
        let newer =
            "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Oslo\"}";
        assert_eq!(MistralFormat.parse(newer).calls, [Ok(weather("Rome")), Ok(weather("Oslo"))]);
        assert!(MistralFormat.parse("It is [21] degrees.").calls.is_empty());
    }

    #[test]
    fn errors_name_the_defect() {
        let error = |body: &str| MistralFormat.parse(&format!("{MARKER}{body}")).calls[0].clone().unwrap_err();
        assert_eq!(error(" "), "error: the tool call is empty");
        assert!(error("[{\"name\":").contains("no JSON") && error("f[ARGS]{").contains("no JSON"));
        assert_eq!(error("[{\"arguments\": {}}]"), "error: the tool call has no \"name\"");
        assert_eq!(error("{\"name\": \"f\"}"), "error: the tool call has no \"arguments\"");
    }

    proptest! {
        #[test]
        fn rendered_calls_parse_back(
            city in "\\PC{0,8}(\\[TOOL_CALLS\\]|\\[ARGS\\])?\\PC{0,8}",
            name in "[a-z_]{1,9}",
        ) {
            let call = ToolCall { name, arguments: json!({"city": city}) };
            let two = format!("{}\n{}", MistralFormat.render(&call), MistralFormat.render(&call));
            prop_assert_eq!(MistralFormat.parse(&two).calls, vec![Ok(call.clone()), Ok(call)]);
        }
    }
}
