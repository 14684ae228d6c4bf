//! Reads requests of Anthropic's messages.

use super::common;
use super::content;
use super::fields::{FieldResult, RequestFields, wrong};
use crate::request::{ApiKind, ApiTool, ApiToolChoice, ModelPrompt, ModelRequest, OutputForm};
use crate::response::{ApiToolCall, calls_text};
use serde_json::{Value, json};
use trainyard_tables::Message;

/// Reads a request. If `counts`, the request only counts tokens and requires no token limit. Errors: an invalid or
/// unsupported field, with its path.
pub fn read(body: &Value, counts: bool) -> FieldResult<ModelRequest> {
    let fields = RequestFields::new(body, "")?;
    fields.expect_neutral(&[("container", &[]), ("mcp_servers", &[])])?;
    let model = fields.text("model")?.unwrap_or_default();
    let mut conversation = Vec::new();
    let system = content::text(fields.get("system"), "system")?;
    if !system.is_empty() {
        conversation.push(Message::new("system", system));
    }
    let list = fields.list("messages")?.ok_or_else(|| fields.wrong("messages", "is missing"))?;
    if list.is_empty() {
        return Err(fields.wrong("messages", "is empty; send at least one message"));
    }
    for (i, value) in list.iter().enumerate() {
        message(value, &format!("messages[{i}]"), &mut conversation)?;
    }
    content::expect_conversation(&conversation, "messages")?;
    if conversation.last().is_some_and(|last| last.role == "assistant") {
        let problem = "ends with an assistant message to continue, which this server does not support; end it with a \
                       user message";
        return Err(fields.wrong("messages", problem));
    }
    let mut request = ModelRequest::new(ApiKind::Messages, model, ModelPrompt::Messages(conversation));
    request.max_tokens = common::limit(&fields, &["max_tokens"])?;
    if request.max_tokens.is_none() && !counts {
        return Err(fields.wrong("max_tokens", "is missing"));
    }
    request.temperature = fields.number("temperature", 0.0..=100.0)?;
    request.top_p = fields.number("top_p", f64::MIN_POSITIVE..=1.0)?;
    request.top_k = fields.count("top_k", 0..=u64::from(u32::MAX))?.map(|k| k as u32);
    request.seed = fields.count("seed", 0..=u64::MAX)?;
    request.stop = common::stops(&fields, "stop_sequences")?;
    request.stream = fields.flag("stream")?.unwrap_or(false);
    common::variables(&fields, &mut request)?;
    thinking(&fields, &mut request)?;
    request.output = output(&fields)?;
    tools(&fields, &mut request)?;
    Ok(request)
}

/// Reads the form of the response, as `output_config.format` or, of older clients, as `output_format`.
fn output(fields: &RequestFields<'_>) -> FieldResult<OutputForm> {
    match fields.get("output_config") {
        None => common::output(fields, "output_format"),
        Some(config) => common::output(&RequestFields::new(config, "output_config")?, "format"),
    }
}

/// Reads whether the model thinks, as the variable `enable_thinking` of templates such as Qwen's.
fn thinking(fields: &RequestFields<'_>, request: &mut ModelRequest) -> FieldResult<()> {
    let Some(value) = fields.get("thinking") else { return Ok(()) };
    let enabled = match RequestFields::new(value, "thinking")?.required("type")? {
        "enabled" | "adaptive" => true,
        "disabled" => false,
        _ => return Err(wrong("thinking.type", "`thinking.type` must be enabled, adaptive or disabled".into())),
    };
    request.variables.entry("enable_thinking".into()).or_insert(json!(enabled));
    Ok(())
}

fn tools(fields: &RequestFields<'_>, request: &mut ModelRequest) -> FieldResult<()> {
    for (i, value) in fields.list("tools")?.into_iter().flatten().enumerate() {
        let path = format!("tools[{i}]");
        let tool = RequestFields::new(value, &path)?;
        let kind = tool.text("type")?.unwrap_or("custom");
        if kind != "custom" {
            let problem = format!("is `{kind}`, a tool that this server does not run; offer custom tools");
            return Err(tool.wrong("type", &problem));
        }
        let schema = tool.object("input_schema")?.cloned();
        request.tools.push(ApiTool {
            name: tool.required("name")?.to_string(),
            description: tool.text("description")?.unwrap_or_default().to_string(),
            parameters: Value::Object(schema.unwrap_or_else(common::no_parameters)),
        });
    }
    let Some(choice) = fields.get("tool_choice") else { return Ok(()) };
    let choice = RequestFields::new(choice, "tool_choice")?;
    request.tool_choice = match choice.required("type")? {
        "auto" => ApiToolChoice::Auto,
        "none" => ApiToolChoice::None,
        "any" => ApiToolChoice::Required,
        "tool" => ApiToolChoice::Named(choice.required("name")?.to_string()),
        _ => return Err(choice.wrong("type", "must be auto, none, any or tool")),
    };
    request.parallel_calls = !choice.flag("disable_parallel_tool_use")?.unwrap_or(false);
    common::expect_offered(fields, request)
}

/// Reads one message into `conversation`. A user message with tool results becomes several messages.
fn message(value: &Value, path: &str, conversation: &mut Vec<Message>) -> FieldResult<()> {
    let fields = RequestFields::new(value, path)?;
    let role = fields.required("role")?;
    if !["user", "assistant", "system"].contains(&role) {
        return Err(fields.wrong("role", &format!("is `{role}`, but must be user or assistant")));
    }
    let blocks = match fields.get("content") {
        Some(Value::String(text)) => {
            conversation.push(Message::new(role, text.clone()));
            return Ok(());
        }
        Some(Value::Array(blocks)) if !blocks.is_empty() => blocks,
        Some(Value::Array(_)) => return Err(fields.wrong("content", "is empty")),
        Some(_) => return Err(fields.wrong("content", "must be a text or a list of blocks")),
        None => return Err(fields.wrong("content", "is missing")),
    };
    let (mut text, mut thought, mut calls, mut has_text) = (String::new(), String::new(), Vec::new(), false);
    for (i, block) in blocks.iter().enumerate() {
        let path = fields.path(&format!("content[{i}]"));
        let block = RequestFields::new(block, &path)?;
        match (role, block.required("type")?) {
            (_, "text") => {
                text.push_str(block.required("text")?);
                has_text = true;
            }
            ("assistant", "thinking") => thought.push_str(block.required("thinking")?),
            // An encrypted thought of another provider cannot be read.
            ("assistant", "redacted_thinking") => {}
            ("assistant", "tool_use") => {
                let input = block.object("input")?.cloned().unwrap_or_default();
                let (id, name) = (block.required("id")?.to_string(), block.required("name")?.to_string());
                calls.push(ApiToolCall { id, name, arguments: Value::Object(input).to_string() });
            }
            ("user", "tool_result") => {
                if has_text {
                    return Err(wrong(&path, format!("`{path}`: tool results must come before the text of a message")));
                }
                let id = block.required("tool_use_id")?.to_string();
                let result = content::text(block.get("content"), &block.path("content"))?;
                conversation.push(Message { tool_call_id: Some(id), ..Message::new("tool", result) });
            }
            (_, other) => return Err(content::not_text(&path, other)),
        }
    }
    if role == "assistant" {
        let reasoning_content = (!thought.is_empty()).then_some(thought);
        conversation.push(Message {
            tool_calls: calls_text(&calls),
            reasoning_content,
            ..Message::new("assistant", text)
        });
    } else if has_text {
        conversation.push(Message::new(role, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The request is that of `client.messages.create` of the package `anthropic` in the second turn of an agent.
    #[test]
    fn tool_turn_is_read() {
        let request = read(
            &json!({
                "model": "m", "max_tokens": 64, "stop_sequences": ["END"], "temperature": 0.5,
                "metadata": {"user_id": "x"},
                "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
                "messages": [
                    {"role": "user", "content": "2+2?"},
                    {"role": "assistant", "content": [
                        {"type": "thinking", "thinking": "hm", "signature": ""},
                        {"type": "text", "text": "I add."},
                        {"type": "tool_use", "id": "toolu_1", "name": "sum", "input": {"a": 2}},
                    ]},
                    {"role": "user", "content": [
                        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "4"}]},
                        {"type": "text", "text": "So?"},
                    ]},
                ],
                "tools": [{"name": "sum", "description": "Adds.", "input_schema": {"type": "object"}}],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
                "thinking": {"type": "disabled"},
            }),
            false,
        )
        .unwrap();
        let roles: Vec<&str> = request.messages().iter().map(|m| m.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
        let assistant = &request.messages()[2];
        assert_eq!((assistant.content.as_str(), assistant.reasoning_content.as_deref()), ("I add.", Some("hm")));
        let calls: Value = serde_json::from_str(assistant.tool_calls.as_deref().unwrap()).unwrap();
        assert_eq!(calls[0]["function"], json!({"name": "sum", "arguments": "{\"a\":2}"}));
        assert_eq!(request.messages()[3].tool_call_id.as_deref(), Some("toolu_1"));
        assert_eq!((request.tools[0].name.as_str(), request.parallel_calls), ("sum", false));
        assert_eq!((request.max_tokens, request.stop.as_slice()), (Some(64), &["END".to_string()][..]));
        assert_eq!(request.variables["enable_thinking"], false);
    }

    #[test]
    fn forced_calls_and_forms_are_read() {
        let of = |choice: Value| {
            let body = json!({"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}],
                "tools": [{"name": "sum"}], "tool_choice": choice,
                "output_config": {"format": {"type": "json_schema", "schema": {"type": "string"}}}});
            read(&body, false).unwrap()
        };
        assert_eq!(of(json!({"type": "any"})).tool_choice, ApiToolChoice::Required);
        let named = of(json!({"type": "tool", "name": "sum"}));
        assert_eq!(named.tool_choice, ApiToolChoice::Named("sum".into()));
        assert_eq!(named.output, OutputForm::Schema(json!({"type": "string"})));
    }

    #[test]
    fn invalid_fields_are_reported_with_paths() {
        let messages = json!([{"role": "user", "content": "x"}]);
        for (key, value, param) in [
            ("max_tokens", Value::Null, "max_tokens"),
            ("temperature", json!(-1), "temperature"),
            ("messages", json!([]), "messages"),
            ("messages", json!([{"role": "user", "content": []}]), "messages[0].content"),
            ("messages", json!([{"role": "assistant", "content": "x"}]), "messages"),
            ("messages", json!([{"role": "tool", "content": "x"}]), "messages[0].role"),
            ("messages", json!([{"role": "user", "content": [{"type": "image"}]}]), "messages[0].content[0]"),
            (
                "messages",
                json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "4"}]}]),
                "messages",
            ),
            ("tools", json!([{"type": "bash_20250124", "name": "bash"}]), "tools[0].type"),
            ("tool_choice", json!({"type": "any"}), "tool_choice"),
            ("tool_choice", json!({"type": "tool", "name": "sum"}), "tool_choice"),
            ("tool_choice", json!({"type": "some"}), "tool_choice.type"),
            ("output_config", json!({"format": {"type": "json_schema"}}), "output_config.format.schema"),
            ("thinking", json!({"type": "perhaps"}), "thinking.type"),
            ("mcp_servers", json!([{"url": "x"}]), "mcp_servers"),
        ] {
            let mut body = json!({"model": "m", "max_tokens": 5, "messages": messages});
            body[key] = value;
            let refusal = read(&body, false).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{}", refusal.message);
        }
        assert!(read(&json!({"messages": messages}), true).is_ok(), "a count needs no limit");
    }
}
