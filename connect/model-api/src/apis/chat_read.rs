//! Reads requests of OpenAI's chat completions.

use super::common;
use super::content;
use super::fields::{FieldResult, RequestFields};
use crate::request::{ApiKind, ModelPrompt, ModelRequest};
use crate::response::{ApiToolCall, calls_text};
use serde_json::{Value, json};
use trainyard_tables::Message;

/// Reads a request. Errors: an invalid or unsupported field, with its path.
pub fn read(body: &Value) -> FieldResult<ModelRequest> {
    let fields = RequestFields::new(body, "")?;
    fields.expect_neutral(&[
        ("functions", &[]),
        ("function_call", &[json!("auto"), json!("none")]),
        ("modalities", &[json!(["text"])]),
        ("audio", &[]),
        ("web_search_options", &[]),
        ("echo", &[json!(false)]),
    ])?;
    let model = fields.text("model")?.unwrap_or_default();
    let messages = messages(&fields)?;
    let mut request = ModelRequest::new(ApiKind::Chat, model, ModelPrompt::Messages(messages));
    common::sampling(&fields, &mut request)?;
    common::tools(&fields, &mut request)?;
    common::variables(&fields, &mut request)?;
    request.max_tokens = common::limit(&fields, &["max_completion_tokens", "max_tokens"])?;
    let top = common::top(&fields, "top_logprobs")?;
    request.logprobs = match (fields.flag("logprobs")?, top) {
        (Some(true), top) => Some(top.unwrap_or(0)),
        (_, Some(1..)) => return Err(fields.wrong("top_logprobs", "needs `logprobs: true`")),
        _ => None,
    };
    Ok(request)
}

fn messages(fields: &RequestFields<'_>) -> FieldResult<Vec<Message>> {
    let list = fields.list("messages")?.ok_or_else(|| fields.wrong("messages", "is missing"))?;
    let one = |(i, value): (usize, &Value)| message(value, &format!("messages[{i}]"));
    let messages: Vec<Message> = list.iter().enumerate().map(one).collect::<FieldResult<_>>()?;
    content::expect_conversation(&messages, "messages")?;
    Ok(messages)
}

/// Reads one message. Templates have no role `developer`, so such messages become system messages.
pub fn message(value: &Value, path: &str) -> FieldResult<Message> {
    let fields = RequestFields::new(value, path)?;
    let role = match fields.required("role")? {
        "developer" | "system" => "system",
        "user" => "user",
        "assistant" => "assistant",
        "tool" => "tool",
        other => {
            let problem = format!("is `{other}`, but must be system, developer, user, assistant or tool");
            return Err(fields.wrong("role", &problem));
        }
    };
    let name = fields.text("name")?.map(str::to_string);
    let content = content::text(fields.get("content"), &fields.path("content"))?;
    let mut message = Message { name, ..Message::new(role, content) };
    match role {
        "assistant" => {
            fields.expect_neutral(&[("function_call", &[]), ("audio", &[])])?;
            message.tool_calls = calls_text(&calls(&fields)?);
            let thought = fields.text("reasoning_content")?.or(fields.text("reasoning")?);
            message.reasoning_content = thought.map(str::to_string);
            if fields.get("content").is_none() && fields.get("refusal").is_some() {
                message.content = fields.required("refusal")?.to_string();
            }
        }
        "tool" => message.tool_call_id = Some(fields.required("tool_call_id")?.to_string()),
        _ if fields.get("content").is_none() => return Err(fields.wrong("content", "is missing")),
        _ => {}
    }
    Ok(message)
}

fn calls(fields: &RequestFields<'_>) -> FieldResult<Vec<ApiToolCall>> {
    let list = fields.list("tool_calls")?.into_iter().flatten().enumerate();
    let one = |(i, value): (usize, &Value)| {
        let path = fields.path(&format!("tool_calls[{i}]"));
        let outer = RequestFields::new(value, &path)?;
        if outer.text("type")?.is_some_and(|kind| kind != "function") {
            return Err(outer.unsupported("type"));
        }
        let inner_path = outer.path("function");
        let function = outer.get("function").ok_or_else(|| outer.wrong("function", "is missing"))?;
        let function = RequestFields::new(function, &inner_path)?;
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(value @ Value::Object(_)) => value.to_string(),
            _ => return Err(function.wrong("arguments", "must be JSON text")),
        };
        Ok(ApiToolCall {
            id: outer.required("id")?.to_string(),
            name: function.required("name")?.to_string(),
            arguments,
        })
    };
    list.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ModelApiError;
    use crate::request::{ApiTool, ApiToolChoice, OutputForm};

    /// The request is that of `client.chat.completions.create` of the package `openai` in the second turn of an agent.
    #[test]
    fn tool_turn_is_read() {
        let request = read(&json!({
            "model": "agent", "temperature": 0.2, "max_completion_tokens": 64, "seed": 7, "user": "me", "store": false,
            "messages": [
                {"role": "developer", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "2+2?"}], "name": "ann"},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
                    "function": {"name": "sum", "arguments": "{\"b\": 2, \"a\": 2}"}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "4"},
            ],
            "tools": [{"type": "function", "function": {"name": "sum", "description": "Adds.",
                "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}, "strict": true}}],
            "tool_choice": "auto", "parallel_tool_calls": false, "stop": "END", "logprobs": true, "top_logprobs": 2,
            "stream": true, "stream_options": {"include_usage": true}, "n": 2,
            "chat_template_kwargs": {"enable_thinking": false}, "return_token_ids": true, "top_k": -1,
        }))
        .unwrap();
        let messages = request.messages();
        assert_eq!((messages[0].role.as_str(), messages[1].content.as_str()), ("system", "2+2?"));
        assert_eq!(messages[1].name.as_deref(), Some("ann"));
        let calls: Value = serde_json::from_str(messages[2].tool_calls.as_deref().unwrap()).unwrap();
        assert_eq!(calls[0]["function"]["arguments"], "{\"b\": 2, \"a\": 2}", "the text is unchanged");
        assert_eq!(messages[3].tool_call_id.as_deref(), Some("call_1"));
        let tool = ApiTool {
            name: "sum".into(),
            description: "Adds.".into(),
            parameters: json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        };
        assert_eq!(request.tools, [tool]);
        assert_eq!(
            (request.temperature, request.max_tokens, request.seed, request.n),
            (Some(0.2), Some(64), Some(7), 2)
        );
        assert_eq!(
            (request.top_k, request.logprobs, request.stop.as_slice()),
            (Some(0), Some(2), &["END".to_string()][..])
        );
        assert!(request.stream && request.stream_usage && request.token_ids && !request.parallel_calls);
        assert_eq!(request.variables["enable_thinking"], false);
        assert_eq!(
            read(&json!({"messages": [{"role": "user", "content": "x"}], "tool_choice": "none"})).unwrap().tool_choice,
            ApiToolChoice::None
        );
    }

    #[test]
    fn form_and_forced_call_are_read() {
        let of = |choice: Value, form: Value| {
            let body = json!({"messages": [{"role": "user", "content": "x"}], "tool_choice": choice,
                "response_format": form, "tools": [{"type": "function", "function": {"name": "sum"}}]});
            let request = read(&body).unwrap();
            (request.tool_choice, request.output)
        };
        let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "string"}}});
        let named = json!({"type": "function", "function": {"name": "sum"}});
        let sum = ApiToolChoice::Named("sum".into());
        assert_eq!(of(named, schema), (sum, OutputForm::Schema(json!({"type": "string"}))));
        assert_eq!(
            of(json!("required"), json!({"type": "json_object"})),
            (ApiToolChoice::Required, OutputForm::JsonObject)
        );
        assert_eq!(of(json!("auto"), json!({"type": "text"})), (ApiToolChoice::Auto, OutputForm::Text));
    }

    #[test]
    fn invalid_fields_are_reported_with_paths() {
        let messages = json!([{"role": "user", "content": "x"}]);
        let of = |body: Value| -> ModelApiError { read(&body).unwrap_err() };
        let with = |key: &str, value: Value| {
            let mut body = json!({"model": "m", "messages": messages});
            body[key] = value;
            of(body)
        };
        assert_eq!(of(json!({})).param.as_deref(), Some("messages"));
        assert!(of(json!({"messages": []})).message.contains("empty"));
        let cases = [
            ("temperature", json!(-1), "temperature"),
            ("temperature", json!("hot"), "temperature"),
            ("n", json!(1000), "n"),
            ("max_tokens", json!(0), "max_tokens"),
            ("top_p", json!(0), "top_p"),
            ("top_logprobs", json!(2), "top_logprobs"),
            ("frequency_penalty", json!(0.5), "frequency_penalty"),
            ("response_format", json!({"type": "json_schema"}), "response_format.schema"),
            ("response_format", json!({"type": "regex"}), "response_format.type"),
            ("logit_bias", json!({"5": -100}), "logit_bias"),
            ("tool_choice", json!("required"), "tool_choice"),
            ("tool_choice", json!("some"), "tool_choice"),
            ("tool_choice", json!({"type": "function", "function": {"name": "f"}}), "tool_choice"),
            ("tool_choice", json!({"type": "custom"}), "tool_choice.type"),
            ("functions", json!([{"name": "f"}]), "functions"),
            ("stop", json!(["a", ""]), "stop"),
            ("stop", json!(3), "stop"),
            ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
            ("tools", json!([{"type": "function", "function": {}}]), "tools[0].function.name"),
            ("messages", json!([{"role": "robot", "content": "x"}]), "messages[0].role"),
            ("messages", json!([{"role": "user"}]), "messages[0].content"),
            ("messages", json!([{"role": "tool", "content": "4"}]), "messages[0].tool_call_id"),
            ("messages", json!([{"role": "tool", "content": "4", "tool_call_id": "a"}]), "messages"),
            ("chat_template_kwargs", json!({"messages": []}), "chat_template_kwargs.messages"),
        ];
        for (key, value, param) in cases {
            let refusal = with(key, value);
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{}", refusal.message);
        }
        let harmless = json!({"messages": messages, "frequency_penalty": 0, "logit_bias": {}, "metadata": {"a": "b"},
            "response_format": {"type": "text"}, "something_new": 3, "tools": null, "stop": null});
        assert!(read(&harmless).is_ok());
    }
}
