//! Serves tools of this program to clients of the Model Context Protocol.
//!
//! One server is one session: a stateful tool, such as `python`, keeps its state until the client disconnects.

use super::protocol::VERSIONS;
use crate::tools::{AgentTool, ToolCall, ToolConfig, ToolHost, ToolLimits, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::Family;
use trainyard_core::{Error, Result};

/// Duration of one wait for a result, which the server repeats until the result arrives. Tools have separate time
/// limits.
const RESULT_WAIT: Duration = Duration::from_secs(60);
const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// Tools and the sessions of their client.
pub struct ToolServer {
    specs: Vec<ToolSpec>,
    /// Index in `sessions` of the owner of each spec.
    owners: Vec<usize>,
    sessions: Vec<Box<dyn ToolSession>>,
}

impl ToolServer {
    /// Opens a session of every tool.
    ///
    /// Errors: invalid (unknown tool, invalid options, two tools with the same name), and those of programs that do not
    /// start.
    pub fn open(
        tools: &Family<dyn AgentTool>,
        choices: &[ToolConfig],
        limits: &ToolLimits,
        host: &Arc<ToolHost>,
    ) -> Result<Self> {
        let mut server = Self { specs: Vec::new(), owners: Vec::new(), sessions: Vec::new() };
        for choice in choices {
            let tool = tools.build(choice.options(), &())?;
            for spec in tool.offered(host)? {
                if server.specs.iter().any(|known| known.name == spec.name) {
                    let error = Error::invalid(format!("two tools have the name `{}`", spec.name));
                    return Err(error.help("remove one of them"));
                }
                server.specs.push(spec);
                server.owners.push(server.sessions.len());
            }
            server.sessions.push(tool.open(host, limits)?);
        }
        Ok(server)
    }
    /// Handles a line of the client and returns the response; `None` if the line requires none. Blocks while a tool
    /// runs.
    pub fn answer(&mut self, line: &str) -> Option<Value> {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return Some(error_response(&Value::Null, PARSE_ERROR, "the line is not JSON"));
        };
        let id = message.get("id").cloned().unwrap_or(Value::Null);
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // A response of the client requires no response.
            let is_answer = message.get("result").is_some() || message.get("error").is_some();
            return (!is_answer).then(|| error_response(&id, INVALID_REQUEST, "the message has no `method`"));
        };
        if id.is_null() {
            return None;
        }
        let params = message.get("params").cloned().unwrap_or_default();
        Some(match method {
            "initialize" => response(&id, &initialize_result(&params)),
            "ping" => response(&id, &json!({})),
            "tools/list" => response(&id, &json!({"tools": self.specs.iter().map(tool_json).collect::<Vec<_>>()})),
            "tools/call" => self.call(&id, &params),
            other => error_response(&id, METHOD_NOT_FOUND, &format!("unknown method `{other}`")),
        })
    }
    fn call(&mut self, id: &Value, params: &Value) -> Value {
        let name = params["name"].as_str().unwrap_or_default();
        let Some(at) = self.specs.iter().position(|spec| spec.name == name) else {
            let known: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            let message = format!("unknown tool `{name}`; use one of: {}", known.join(", "));
            return error_response(id, INVALID_PARAMS, &message);
        };
        let arguments = params.get("arguments").filter(|given| !given.is_null()).cloned();
        let call = ToolCall { name: name.to_string(), arguments: arguments.unwrap_or_else(|| json!({})) };
        if !call.arguments.is_object() {
            return error_response(id, INVALID_PARAMS, "`arguments` is not an object");
        }
        let pending = self.sessions[self.owners[at]].submit_call(&call);
        let result = loop {
            if let Some(result) = pending.wait(RESULT_WAIT) {
                break result;
            }
        };
        let content = json!([{"type": "text", "text": result.text}]);
        response(id, &json!({"content": content, "isError": result.error}))
    }
}

fn initialize_result(params: &Value) -> Value {
    let requested = params["protocolVersion"].as_str().unwrap_or_default();
    let version = VERSIONS.into_iter().find(|version| *version == requested).unwrap_or(VERSIONS[0]);
    let info = json!({"name": "trainyard", "version": env!("CARGO_PKG_VERSION")});
    json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
}

fn tool_json(spec: &ToolSpec) -> Value {
    json!({"name": spec.name, "description": spec.description, "inputSchema": spec.parameters})
}

fn response(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error_response(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(tools: &[&str]) -> Result<ToolServer> {
        let choices: Vec<ToolConfig> = tools.iter().map(|name| ToolConfig::from(*name)).collect();
        ToolServer::open(&crate::tools::family(), &choices, &ToolLimits::default(), &ToolHost::new(1))
    }

    #[test]
    fn a_client_finds_tools_and_calls_them() {
        let mut server = server(&["calculator"]).unwrap();
        let mut ask = |message: Value| server.answer(&message.to_string());
        let begin = |version: &str| {
            let params = json!({"protocolVersion": version, "capabilities": {}});
            json!({"id": 0, "method": "initialize", "params": params})
        };
        assert_eq!(ask(begin("2024-11-05")).unwrap()["result"]["protocolVersion"], "2024-11-05");
        assert_eq!(ask(begin("1999-01-01")).unwrap()["result"]["protocolVersion"], VERSIONS[0]);
        assert_eq!(ask(json!({"method": "notifications/initialized"})), None);
        let listed = ask(json!({"id": "a", "method": "tools/list"})).unwrap();
        let tool = &listed["result"]["tools"][0];
        assert_eq!(
            (&listed["id"], &tool["name"], &tool["inputSchema"]["type"]),
            (&json!("a"), &json!("calculator"), &json!("object"))
        );
        let argument = tool["inputSchema"]["required"][0].as_str().unwrap().to_string();
        let mut call = |text: &str| {
            let params = json!({"name": "calculator", "arguments": {&argument: text}});
            ask(json!({"id": 1, "method": "tools/call", "params": params})).unwrap()["result"].clone()
        };
        assert_eq!(call("6*7"), json!({"content": [{"type": "text", "text": "42"}], "isError": false}));
        assert_eq!(call("6*")["isError"], true);
    }

    #[test]
    fn invalid_requests_get_protocol_errors() {
        let mut server = server(&["calculator"]).unwrap();
        let mut code = |line: &str| server.answer(line).map(|answer| answer["error"]["code"].clone());
        assert_eq!(code("nonsense"), Some(json!(PARSE_ERROR)));
        assert_eq!(code("{\"id\": 1}"), Some(json!(INVALID_REQUEST)));
        assert_eq!(code("{\"id\": 1, \"result\": {}}"), None);
        assert_eq!(code("{\"id\": 1, \"method\": \"prompts/list\"}"), Some(json!(METHOD_NOT_FOUND)));
        for params in ["{\"name\": \"abacus\"}", "{\"name\": \"calculator\", \"arguments\": 3}", "{}"] {
            let line = format!("{{\"id\": 1, \"method\": \"tools/call\", \"params\": {params}}}");
            assert_eq!(code(&line), Some(json!(INVALID_PARAMS)), "{params}");
        }
    }

    #[test]
    fn unknown_and_duplicate_tools_are_reported() {
        assert!(server(&["abacus"]).err().unwrap().message.contains("abacus"));
        assert!(server(&["calculator", "calculator"]).err().unwrap().message.contains("two tools have the name"));
    }
}
