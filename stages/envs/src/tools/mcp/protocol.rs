//! Defines the part of the Model Context Protocol that a client of tools needs: the messages that the client sends, and
//! the meaning of a server's messages. This module does no I/O.
//!
//! A message is a JSON object of JSON-RPC 2.0. Ids of requests are numbers for calls and texts for all other requests,
//! so the id of a response shows which kind of request it belongs to.

use crate::tools::ToolSpec;
use serde_json::{Value, json};
use trainyard_process::ProgramException;

/// Supported versions of the protocol, the preferred one first. They agree in all features that this client uses.
pub const VERSIONS: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];
/// Id of the request `initialize`.
const INITIALIZE: &str = "initialize";
/// Id of requests for a page of the list of tools.
const LIST: &str = "tools";

/// Returns the first request of a session. The client offers no capabilities, such as files or sampling.
pub fn initialize() -> Value {
    let client = json!({"name": "trainyard", "version": env!("CARGO_PKG_VERSION")});
    let params = json!({"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": INITIALIZE, "method": "initialize", "params": params})
}

/// Returns the notification that the client is ready.
pub fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// Returns the request for a page of the list of tools: the first one, or the one of a cursor.
pub fn list(cursor: Option<&str>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
    json!({"jsonrpc": "2.0", "id": LIST, "method": "tools/list", "params": params})
}

/// Returns the fields of a call other than its id.
pub fn call(tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

/// A message of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerMessage {
    /// Response to [`initialize`].
    Initialized(Result<Value, ProgramException>),
    /// Response to [`list`].
    Listed(Result<Value, ProgramException>),
    /// Response to the call with this number.
    Called(u64, Result<Value, ProgramException>),
    /// A request to the client, by its id and method.
    Request(Value, String),
    /// The server's tools have changed.
    Changed,
    /// Message for the log.
    Log(String),
    /// Message that requires no action.
    Other,
}

/// Parses a message. The error describes the problem with it.
pub fn read(message: &Value) -> Result<ServerMessage, String> {
    let id = message.get("id").filter(|id| !id.is_null());
    if let Some(method) = message.get("method").and_then(Value::as_str) {
        return Ok(match (id, method) {
            (Some(id), method) => ServerMessage::Request(id.clone(), method.to_string()),
            (None, "notifications/tools/list_changed") => ServerMessage::Changed,
            (None, "notifications/message") => ServerMessage::Log(log_text(&message["params"])),
            _ => ServerMessage::Other,
        });
    }
    let Some(id) = id else {
        // An error without an id is the response to a request that the server could not parse.
        let error = message.get("error").ok_or("wrote a message with neither `method` nor `id`")?;
        return Err(format!("rejected a request: {}", raised(error)));
    };
    let result = match (message.get("result"), message.get("error")) {
        (_, Some(error)) => Err(raised(error)),
        (Some(result), None) => Ok(result.clone()),
        (None, None) => return Err("wrote an answer with neither `result` nor `error`".to_string()),
    };
    match (id.as_str(), id.as_u64()) {
        (Some(INITIALIZE), _) => Ok(ServerMessage::Initialized(result)),
        (Some(LIST), _) => Ok(ServerMessage::Listed(result)),
        (None, Some(number)) => Ok(ServerMessage::Called(number, result)),
        _ => Err(format!("answered request {id}, which is not open")),
    }
}

fn log_text(params: &Value) -> String {
    let data = &params["data"];
    data.as_str().map_or_else(|| data.to_string(), str::to_string)
}

/// Converts an error of JSON-RPC to an exception whose message includes the code.
fn raised(error: &Value) -> ProgramException {
    let message = error["message"].as_str().unwrap_or_default();
    let message = match error["code"].as_i64() {
        Some(code) => format!("{message} (code {code})"),
        None => message.to_string(),
    };
    ProgramException { kind: String::new(), message: format!("error: {message}"), traceback: String::new() }
}

/// Returns the client's response to a request of the server: it responds to pings, lists no folders, and rejects all
/// other requests.
pub fn client_response(id: &Value, method: &str) -> Value {
    let result = match method {
        "ping" => json!({}),
        "roots/list" => json!({"roots": []}),
        other => {
            let error = json!({"code": -32601, "message": format!("this client does not offer {other}")});
            return json!({"jsonrpc": "2.0", "id": id, "error": error});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Returns the protocol version in the response to [`initialize`]. The error is the reason why the server cannot be
/// used.
pub fn accept(result: &Result<Value, ProgramException>) -> Result<String, String> {
    let result = result.as_ref().map_err(|raised| format!("it rejected `initialize`: {raised}"))?;
    let version = result["protocolVersion"].as_str().unwrap_or_default();
    if !VERSIONS.contains(&version) {
        let known = VERSIONS.join(", ");
        return Err(format!("it speaks version `{version}` of the protocol; supported are {known}"));
    }
    if result["capabilities"].get("tools").is_none_or(Value::is_null) {
        return Err("it offers no tools".to_string());
    }
    Ok(version.to_string())
}

/// Returns the tools of a page, and the cursor of the next one. The error describes the problem with the page.
pub fn page(result: &Result<Value, ProgramException>) -> Result<(Vec<ToolSpec>, Option<String>), String> {
    let result = result.as_ref().map_err(|raised| format!("it rejected `tools/list`: {raised}"))?;
    let tools = result["tools"].as_array().ok_or("its answer to `tools/list` has no list `tools`")?;
    let tools = tools.iter().map(spec).collect::<Result<_, _>>()?;
    let cursor = result["nextCursor"].as_str().filter(|cursor| !cursor.is_empty());
    Ok((tools, cursor.map(str::to_string)))
}

fn spec(tool: &Value) -> Result<ToolSpec, String> {
    let name = tool["name"].as_str().filter(|name| !name.is_empty()).ok_or("it lists a tool without a name")?;
    let mut parameters = tool["inputSchema"].clone();
    let Some(schema) = parameters.as_object_mut() else {
        return Err(format!("its tool `{name}` has no `inputSchema`"));
    };
    // `$schema` carries no information for the model.
    schema.remove("$schema");
    let description = tool["description"].as_str().unwrap_or_default().trim().to_string();
    Ok(ToolSpec { name: name.to_string(), description, parameters })
}

/// Returns the result of a call as a map with `text`, of about `max_bytes` bytes at most, and `error` if the call
/// failed.
pub fn result(result: &Value, max_bytes: usize) -> Value {
    let content = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let blocks: Vec<String> = content.iter().map(block).collect();
    let text = match result.get("structuredContent") {
        Some(structured) if blocks.is_empty() && !structured.is_null() => structured.to_string(),
        _ => blocks.join("\n"),
    };
    json!({"text": cut(text, max_bytes), "error": result["isError"].as_bool().unwrap_or(false)})
}

/// Returns a block of content as text. For content that is not text, returns its type or URI, because a text model
/// cannot see the content.
fn block(block: &Value) -> String {
    let text = |at: &str| block.pointer(at).and_then(Value::as_str);
    let kind = |at: &str| text(at).unwrap_or("unknown type");
    match text("/type").unwrap_or_default() {
        "text" => text("/text").unwrap_or_default().to_string(),
        "resource_link" => format!("[resource {}]", text("/uri").unwrap_or_default()),
        "resource" => match text("/resource/text") {
            Some(inner) => inner.to_string(),
            None => format!("[resource {}, {}]", text("/resource/uri").unwrap_or_default(), kind("/resource/mimeType")),
        },
        other => format!("[{other}, {}]", kind("/mimeType")),
    }
}

/// Truncates a text to `max_bytes` bytes and appends a note on the omitted part.
fn cut(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[{} of {} bytes left out]", &text[..end], text.len() - end, text.len())
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
