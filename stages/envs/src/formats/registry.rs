//! Lists the tool-call formats of this crate, one line each, sorted.

use crate::formats::{ToolFormat, code, hermes, llama3, mistral, qwen, toolrl};
use crate::tools::ToolSpec;
use serde_json::{Value, json};
use trainyard_api::{Family, PartKind};
use trainyard_core::Result;

type ToolFormatKind = PartKind<dyn ToolFormat, [ToolSpec]>;

/// Returns the formats of this crate. A format is built for the tools that its calls may name.
pub fn family() -> Family<dyn ToolFormat, [ToolSpec]> {
    let members = vec![
        ToolFormatKind::plain("code", "raw code between the tags, for one tool", code::DOC, |tools: &[ToolSpec]| {
            Ok(Box::new(code::CodeFormat::new(tools)?))
        }),
        ToolFormatKind::plain("hermes", "one JSON object between the tags for each call", hermes::DOC, |_| {
            Ok(Box::new(hermes::HermesFormat))
        }),
        ToolFormatKind::plain("llama3", "a JSON object that is the whole turn", llama3::DOC, |_| {
            Ok(Box::new(llama3::Llama3Format))
        }),
        ToolFormatKind::plain("mistral", "a JSON list after `[TOOL_CALLS]`", mistral::DOC, |_| {
            Ok(Box::new(mistral::MistralFormat))
        }),
        ToolFormatKind::plain("qwen", "a function and its parameters as tags", qwen::DOC, |tools: &[ToolSpec]| {
            Ok(Box::new(qwen::QwenFormat::new(tools)))
        }),
        ToolFormatKind::plain(
            "toolrl",
            "JSON objects in one block after the thoughts, or a response",
            toolrl::DOC,
            |_| Ok(Box::new(toolrl::ToolRlFormat)),
        ),
    ];
    Family::new("formats", "tool-call format", members)
}

/// Returns the names of the formats, sorted.
pub fn names() -> Vec<&'static str> {
    family().names()
}

/// Returns the schema of an option that names a format, for `schema_with`.
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    one_of(&names())
}

/// Returns the schema of an option for formats in which every call names its tool, so that they support any set of
/// tools.
pub fn schema_for_any_tools(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let named: Vec<&str> = names().into_iter().filter(|name| build(name, &[]).is_ok()).collect();
    one_of(&named)
}

fn one_of(names: &[&str]) -> schemars::Schema {
    schemars::Schema::try_from(json!({ "type": "string", "enum": names })).unwrap_or_default()
}

/// Returns the named format for these tools. Errors: invalid (unknown format, or tools that the format cannot express).
pub fn build(name: &str, tools: &[ToolSpec]) -> Result<Box<dyn ToolFormat>> {
    family().build(&Value::from(name), tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::ToolCall;

    #[test]
    fn turns_of_the_syntax_parse() {
        let tools = crate::tools::registry::tool("python").unwrap().specs();
        let mut with_syntax = Vec::new();
        for name in names() {
            let format = build(name, &tools).unwrap();
            let Some(syntax) = format.call_syntax() else { continue };
            let [before, between, after] = syntax.call;
            let call = |code: u32| format!("{before}\"python\"{between}{{\"code\": {code}}}{after}");
            let turn = [syntax.open, &call(1), syntax.separator, &call(2), syntax.close].concat();
            let expected = [1, 2].map(|code| Ok(ToolCall { name: "python".into(), arguments: json!({"code": code}) }));
            assert_eq!(format.parse(&turn).calls, expected, "{turn}");
            with_syntax.push(name);
        }
        assert_eq!(with_syntax, ["hermes", "llama3", "mistral", "toolrl"]);
    }

    #[test]
    fn names_are_sorted_and_build() {
        assert!(names().is_sorted());
        let tools = crate::tools::registry::tool("python").unwrap().specs();
        for name in names() {
            let format = build(name, &tools).unwrap();
            assert_eq!(format.kind(), name);
            assert!(format.describe(&tools).contains(tools[0].main_argument().unwrap()), "{name}");
        }
        assert!(build("xml", &tools).is_err());
    }
}
