//! Describes tools to a model, and parses its calls.

use serde_json::Value;
use trainyard_core::{Error, Result};
use trainyard_envs::formats::{ToolFormat, build};
use trainyard_envs::tools::{ToolCall, ToolSpec, tools_json};
use trainyard_lm::template::{ChatEncoder, ToolDescriptions};
use trainyard_model_api::{ApiTool, ModelApiError};
use trainyard_tables::Message;

/// Source of the tools' description, with the format of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolCallStyle {
    /// The model's template.
    Native(&'static str),
    /// A text in the system message, with calls in the contents.
    Described(&'static str),
}

impl ToolCallStyle {
    /// Returns the style for a format that the user names, or for the format of the template. A template without one
    /// uses `hermes`, described in the system message.
    ///
    /// Errors: invalid, for an unknown format.
    pub fn choose(chat: &ChatEncoder, named: Option<&str>) -> Result<Self> {
        let known = trainyard_envs::formats::registry::names();
        match named {
            None => Ok(match chat.tool_call_format(ToolDescriptions::Auto)? {
                Some(format) => Self::Native(format),
                None => Self::Described("hermes"),
            }),
            Some(name) => match known.iter().find(|format| **format == name) {
                Some(format) => Ok(Self::Described(format)),
                None => Err(Error::invalid(format!("unknown tool-call format `{name}`"))
                    .help(format!("use one of: {}", known.join(", ")))),
            },
        }
    }
    /// Returns the name of the format.
    pub fn format(&self) -> &'static str {
        match self {
            Self::Native(format) | Self::Described(format) => format,
        }
    }
}

/// Converts the tools of a request to the specifications of environments.
pub fn specs(tools: &[ApiTool]) -> Vec<ToolSpec> {
    let spec = |tool: &ApiTool| {
        let ApiTool { name, description, parameters } = tool.clone();
        ToolSpec { name, description, parameters }
    };
    tools.iter().map(spec).collect()
}

/// Returns the tool format of a style for these tools. Errors: tools that the format cannot express.
pub fn tool_format(style: ToolCallStyle, specs: &[ToolSpec]) -> Result<Box<dyn ToolFormat>, ModelApiError> {
    build(style.format(), specs)
        .map_err(|error| ModelApiError { param: Some("tools".into()), ..ModelApiError::from(error) })
}

/// Returns the conversation for the template, and the tools as JSON text if the template describes them. Otherwise the
/// tools are described in the conversation.
pub fn template_input(
    style: ToolCallStyle,
    messages: &[Message],
    specs: &[ToolSpec],
    format: Option<&dyn ToolFormat>,
) -> Result<(Vec<Message>, Option<String>), ModelApiError> {
    let has_calls = messages.iter().any(|message| message.tool_calls.is_some());
    match (style, format) {
        (ToolCallStyle::Native(_), _) => Ok((messages.to_vec(), (!specs.is_empty()).then(|| tools_json(specs)))),
        (ToolCallStyle::Described(_), None) if !has_calls => Ok((messages.to_vec(), None)),
        (ToolCallStyle::Described(_), format) => {
            let derived = match format {
                Some(_) => None,
                None => Some(tool_format(style, specs)?),
            };
            let format = format.or(derived.as_deref());
            let mut shown = Vec::with_capacity(messages.len() + 1);
            for message in messages {
                shown.push(render_calls(message, format)?);
            }
            if let Some(format) = format.filter(|_| !specs.is_empty()) {
                describe(&mut shown, &format.describe(specs));
            }
            Ok((shown, None))
        }
    }
}

/// Appends the description to the system message, as environments do, or inserts a system message.
fn describe(messages: &mut Vec<Message>, text: &str) {
    match messages.first_mut().filter(|first| first.role == "system") {
        Some(first) if first.content.is_empty() => first.content = text.to_string(),
        Some(first) => first.content = format!("{}\n\n{text}", first.content),
        None => messages.insert(0, Message::new("system", text)),
    }
}

/// Returns a message with its calls written into the content, as the model would write them.
fn render_calls(message: &Message, format: Option<&dyn ToolFormat>) -> Result<Message, ModelApiError> {
    let (Some(calls), Some(format)) = (&message.tool_calls, format) else { return Ok(message.clone()) };
    let calls: Vec<Value> = serde_json::from_str(calls).unwrap_or_default();
    let mut parts = Vec::new();
    if !message.content.is_empty() {
        parts.push(message.content.clone());
    }
    for call in &calls {
        let (name, text) = (&call["function"]["name"], &call["function"]["arguments"]);
        let name = name.as_str().unwrap_or_default();
        let arguments = text.as_str().and_then(|text| serde_json::from_str(text).ok()).filter(Value::is_object);
        let arguments = arguments.ok_or_else(|| {
            ModelApiError::invalid_field(
                "messages",
                format!("the arguments of an earlier call of `{name}` are not a JSON object"),
            )
        })?;
        parts.push(format.render(&ToolCall { name: name.to_string(), arguments }));
    }
    Ok(Message { content: parts.join("\n"), tool_calls: None, ..message.clone() })
}

/// Returns the calls of a turn. Returns `None` without calls, and if one of them cannot be parsed, so that no text is
/// lost.
pub fn parse_calls(format: &dyn ToolFormat, text: &str) -> Option<Vec<ToolCall>> {
    let calls: Result<Vec<ToolCall>, String> = format.parse(text).calls.into_iter().collect();
    calls.ok().filter(|calls| !calls.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tools() -> Vec<ToolSpec> {
        specs(&[ApiTool { name: "sum".into(), description: "Adds.".into(), parameters: json!({"type": "object"}) }])
    }
    fn conversation() -> Vec<Message> {
        let calls = json!([{"id": "a", "type": "function", "function": {"name": "sum", "arguments": "{\"a\": 2}"}}]);
        let assistant = Message { tool_calls: Some(calls.to_string()), ..Message::new("assistant", "I add.") };
        vec![Message::new("system", "Be brief."), Message::new("user", "2+2?"), assistant]
    }

    #[test]
    fn tools_are_described_in_prompt_without_native_template() {
        let style = ToolCallStyle::Described("hermes");
        let format = tool_format(style, &tools()).unwrap();
        let (messages, described) = template_input(style, &conversation(), &tools(), Some(&*format)).unwrap();
        assert_eq!(described, None);
        assert_eq!(messages[0].content, format!("Be brief.\n\n{}", format.describe(&tools())));
        let text = "I add.\n<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\":2}}\n</tool_call>";
        assert_eq!((messages[2].content.as_str(), &messages[2].tool_calls), (text, &None));
        let (messages, _) = template_input(style, &conversation()[1..2], &tools(), Some(&*format)).unwrap();
        assert_eq!((messages.len(), messages[0].role.as_str()), (2, "system"));
        let (messages, _) = template_input(style, &conversation(), &[], None).unwrap();
        assert_eq!((messages[0].content.as_str(), messages[2].content.as_str()), ("Be brief.", text), "calls stay");
    }

    #[test]
    fn native_template_gets_calls_and_tools_unchanged() {
        let (messages, described) =
            template_input(ToolCallStyle::Native("hermes"), &conversation(), &tools(), None).unwrap();
        assert_eq!(messages, conversation());
        assert!(described.unwrap().contains("\"name\": \"sum\""));
    }

    #[test]
    fn calls_are_parsed_all_or_none() {
        let format = tool_format(ToolCallStyle::Described("hermes"), &tools()).unwrap();
        let good = "<tool_call>{\"name\": \"sum\", \"arguments\": {}}</tool_call>";
        assert_eq!(parse_calls(&*format, good).unwrap().len(), 1);
        assert_eq!(parse_calls(&*format, &format!("{good}<tool_call>{{</tool_call>")), None);
        assert_eq!(parse_calls(&*format, "hello"), None);
        let broken = json!([{"id": "a", "function": {"name": "sum", "arguments": "{"}}]).to_string();
        let assistant = Message { tool_calls: Some(broken), ..Message::new("assistant", "") };
        let refusal = template_input(ToolCallStyle::Described("hermes"), &[assistant], &[], None).unwrap_err();
        assert!(refusal.message.contains("not a JSON object"), "{}", refusal.message);
    }
}
