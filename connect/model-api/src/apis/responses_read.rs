//! Reads requests of OpenAI's responses API. Their input consists of items in place of messages, and a later request
//! can continue a response by its id.

use super::common;
use super::content;
use super::fields::{FieldResult, RequestFields};
use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelPrompt, ModelRequest};
use crate::response::{ApiToolCall, calls_text};
use serde_json::{Value, json};
use trainyard_tables::Message;

/// Looks up the conversation that ended with the response of an id.
pub type ConversationLookup<'a> = dyn Fn(&str) -> Option<Vec<Message>> + 'a;

/// Fields that the response repeats.
const ECHOED: [&str; 13] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "reasoning",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
    "truncation",
];

/// Reads a request. `past` looks up the conversation that the request continues. Errors: an invalid or unsupported
/// field, with its path.
pub fn read(body: &Value, past: &ConversationLookup<'_>) -> FieldResult<ModelRequest> {
    let fields = RequestFields::new(body, "")?;
    fields.expect_neutral(&[
        ("background", &[json!(false)]),
        ("conversation", &[]),
        ("prompt", &[]),
        ("truncation", &[json!("disabled")]),
        ("n", &[json!(1)]),
        ("context_management", &[]),
    ])?;
    let mut messages = Vec::new();
    let instructions = fields.text("instructions")?;
    messages.extend(instructions.map(|text| Message::new("system", text)));
    if let Some(id) = fields.text("previous_response_id")? {
        let unknown = || {
            let message = format!("no response `{id}` is stored; send the whole conversation as `input`");
            ModelApiError { param: Some("previous_response_id".into()), ..ModelApiError::new(400, message) }
                .code("previous_response_not_found")
        };
        messages.extend(past(id).ok_or_else(unknown)?);
    }
    input(&fields, &mut messages)?;
    content::expect_conversation(&messages, "input")?;
    let model = fields.text("model")?.unwrap_or_default();
    let mut request = ModelRequest::new(ApiKind::Responses, model, ModelPrompt::Messages(messages));
    request.instructions = instructions.is_some();
    common::sampling(&fields, &mut request)?;
    if let Some(text) = fields.get("text") {
        request.output = common::output(&RequestFields::new(text, "text")?, "format")?;
    }
    common::tools(&fields, &mut request)?;
    common::variables(&fields, &mut request)?;
    if let Some(reasoning) = fields.get("reasoning")
        && let Some(effort) = RequestFields::new(reasoning, "reasoning")?.text("effort")?
    {
        request.variables.insert("reasoning_effort".into(), json!(effort));
    }
    request.max_tokens = common::limit(&fields, &["max_output_tokens"])?;
    request.store = fields.flag("store")?.unwrap_or(true);
    request.logprobs = common::top(&fields, "top_logprobs")?;
    let included = fields.list("include")?.into_iter().flatten();
    for item in included {
        match item.as_str() {
            Some("message.output_text.logprobs") => request.logprobs = request.logprobs.or(Some(0)),
            // Encryption is unnecessary: thoughts are returned as text.
            Some("reasoning.encrypted_content") => {}
            _ => return Err(fields.unsupported("include")),
        }
    }
    request.echo = fields.copy(&ECHOED);
    Ok(request)
}

fn input(fields: &RequestFields<'_>, messages: &mut Vec<Message>) -> FieldResult<()> {
    match fields.get("input") {
        Some(Value::String(text)) => messages.push(Message::new("user", text.clone())),
        Some(Value::Array(items)) => {
            let mut turn = AssistantTurn::default();
            for (i, value) in items.iter().enumerate() {
                item(value, &format!("input[{i}]"), &mut turn, messages)?;
            }
            turn.close(messages);
        }
        Some(_) => return Err(fields.wrong("input", "must be a text or a list of items")),
        None => return Err(fields.wrong("input", "is missing")),
    }
    Ok(())
}

/// The items of one turn of the assistant, which make one message.
#[derive(Default)]
struct AssistantTurn {
    thinking: Option<String>,
    text: Option<String>,
    calls: Vec<ApiToolCall>,
}

impl AssistantTurn {
    fn close(&mut self, messages: &mut Vec<Message>) {
        let Self { thinking, text, calls } = std::mem::take(self);
        if text.is_none() && calls.is_empty() {
            // A thought at the end is not shown to the model.
            return;
        }
        let content = text.unwrap_or_default();
        let calls = calls_text(&calls);
        messages.push(Message { tool_calls: calls, reasoning_content: thinking, ..Message::new("assistant", content) });
    }
}

fn item(value: &Value, path: &str, turn: &mut AssistantTurn, messages: &mut Vec<Message>) -> FieldResult<()> {
    let fields = RequestFields::new(value, path)?;
    match fields.text("type")?.unwrap_or("message") {
        "message" => {
            let role = match fields.required("role")? {
                "developer" | "system" => "system",
                "user" => "user",
                "assistant" => "assistant",
                other => {
                    let problem = format!("is `{other}`, but must be system, developer, user or assistant");
                    return Err(fields.wrong("role", &problem));
                }
            };
            let content = fields.get("content").ok_or_else(|| fields.wrong("content", "is missing"))?;
            let text = content::text(Some(content), &fields.path("content"))?;
            if role != "assistant" || turn.text.is_some() || !turn.calls.is_empty() {
                turn.close(messages);
            }
            if role == "assistant" {
                turn.text = Some(text);
            } else {
                messages.push(Message::new(role, text));
            }
        }
        "reasoning" => {
            turn.close(messages);
            let of = |key: &str| content::text(fields.get(key), &fields.path(key));
            let (content, summary) = (of("content")?, of("summary")?);
            let thought = if content.is_empty() { summary } else { content };
            turn.thinking = (!thought.is_empty()).then_some(thought);
        }
        "function_call" => turn.calls.push(ApiToolCall {
            id: fields.required("call_id")?.to_string(),
            name: fields.required("name")?.to_string(),
            arguments: fields.required("arguments")?.to_string(),
        }),
        "function_call_output" => {
            turn.close(messages);
            let id = fields.required("call_id")?.to_string();
            let output = fields.get("output").ok_or_else(|| fields.wrong("output", "is missing"))?;
            let output = content::text(Some(output), &fields.path("output"))?;
            messages.push(Message { tool_call_id: Some(id), ..Message::new("tool", output) });
        }
        other => {
            let problem =
                format!("is `{other}`; this server reads message, reasoning, function_call and function_call_output");
            return Err(fields.wrong("type", &problem).code("unsupported_item"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ApiToolChoice, OutputForm};

    fn read_alone(body: &Value) -> FieldResult<ModelRequest> {
        read(body, &|_| None)
    }

    #[test]
    fn items_of_one_turn_become_one_message() {
        let request = read_alone(&json!({
            "model": "m", "instructions": "Be brief.", "max_output_tokens": 9, "store": false,
            "reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"],
            "text": {"format": {"type": "text"}},
            "input": [
                {"role": "user", "content": "2+2?"},
                {"type": "reasoning", "id": "rs_1", "summary": [],
                    "content": [{"type": "reasoning_text", "text": "hm"}]},
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "I add.", "annotations": []}]},
                {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "sum", "arguments": "{}"},
                {"type": "function_call", "call_id": "b", "name": "sum", "arguments": "{\"a\": 1}"},
                {"type": "function_call_output", "call_id": "a", "output": "4"},
                {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "5"}]},
            ],
            "tools": [{"type": "function", "name": "sum", "parameters": {"type": "object"}, "strict": true}],
        }))
        .unwrap();
        let roles: Vec<&str> = request.messages().iter().map(|m| m.role.as_str()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "tool"]);
        let assistant = &request.messages()[2];
        assert_eq!((assistant.content.as_str(), assistant.reasoning_content.as_deref()), ("I add.", Some("hm")));
        let calls: Value = serde_json::from_str(assistant.tool_calls.as_deref().unwrap()).unwrap();
        assert_eq!((&calls[0]["id"], &calls[1]["function"]["arguments"]), (&json!("a"), &json!("{\"a\": 1}")));
        assert_eq!((request.messages()[4].content.as_str(), request.tools[0].name.as_str()), ("5", "sum"));
        assert_eq!((request.max_tokens, request.store, request.instructions), (Some(9), false, true));
        assert_eq!(
            (&request.variables["reasoning_effort"], &request.echo["instructions"]),
            (&json!("low"), &json!("Be brief."))
        );
    }

    #[test]
    fn response_is_continued_by_id() {
        let past = |id: &str| (id == "resp_1").then(|| vec![Message::new("user", "a"), Message::new("assistant", "b")]);
        let body = |id: &str| json!({"input": "c", "instructions": "new", "previous_response_id": id});
        let request = read(&body("resp_1"), &past).unwrap();
        let texts: Vec<&str> = request.messages().iter().map(|m| m.content.as_str()).collect();
        assert_eq!(texts, ["new", "a", "b", "c"]);
        let refusal = read(&body("resp_2"), &past).unwrap_err();
        assert_eq!((refusal.status, refusal.code), (400, Some("previous_response_not_found")));
    }

    #[test]
    fn form_and_forced_call_are_read() {
        let request = read_alone(&json!({"input": "x",
            "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "string"}, "strict": true}},
            "tools": [{"type": "function", "name": "sum"}], "tool_choice": {"type": "function", "name": "sum"}}));
        let request = request.unwrap();
        assert_eq!(request.output, OutputForm::Schema(json!({"type": "string"})));
        assert_eq!(request.tool_choice, ApiToolChoice::Named("sum".into()));
    }

    #[test]
    fn unsupported_fields_are_reported_with_paths() {
        for (key, value, param) in [
            ("background", json!(true), "background"),
            ("conversation", json!("c"), "conversation"),
            ("truncation", json!("auto"), "truncation"),
            ("n", json!(2), "n"),
            ("text", json!({"format": {"type": "grammar"}}), "text.format.type"),
            ("text", json!({"format": {"type": "json_schema"}}), "text.format.schema"),
            ("include", json!(["file_search_call.results"]), "include"),
            ("tools", json!([{"type": "web_search"}]), "tools[0].type"),
            ("input", json!([{"type": "item_reference", "id": "x"}]), "input[0].type"),
            ("input", json!([{"role": "user", "content": [{"type": "input_image"}]}]), "input[0].content[0]"),
            ("input", json!([{"type": "function_call_output", "call_id": "x", "output": "4"}]), "input"),
            ("input", json!([]), "input"),
            ("input", json!(3), "input"),
        ] {
            let mut body = json!({"model": "m", "input": "x"});
            body[key] = value;
            let refusal = read_alone(&body).unwrap_err();
            assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some(param)), "{}", refusal.message);
        }
        assert_eq!(read_alone(&json!({})).unwrap_err().param.as_deref(), Some("input"));
    }
}
