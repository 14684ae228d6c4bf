//! Hostile MCP servers at a URL: each is refused in bounded time, with an error that names the place.

use super::with_tool;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use trainyard_envs::ToolHost;

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// Name, content type, responses by request, words of the error.
type Case = (&'static str, &'static str, fn(&Value) -> String, &'static str);

/// Error of the environment, which does not name the server.
const SAME_NAME: &str = "two tools of the environment have the name `a`";

const CASES: &[Case] = &[
    ("no JSON", JSON, |_| "<html>".into(), "did not list its tools"),
    ("a list", JSON, |_| "[1, 2]".into(), ""),
    ("a nested list", JSON, |_| "[".repeat(1_000_000), "did not list its tools"),
    ("bytes of a stream", STREAM, |_| "\u{0}\u{fffd}\n\n".repeat(1_000), "did not list its tools"),
    ("a stream without data", STREAM, |_| ": nothing\n\n".repeat(10_000), "did not list its tools"),
    ("another id", JSON, |_| json!({"jsonrpc": "2.0", "id": 99, "result": {}}).to_string(), ""),
    ("a version of escape sequences", JSON, |m| opened(m, "\u{1b}[2J"), "version"),
    ("no tools", JSON, |m| listed(m, json!({"tools": []})), "no tools"),
    ("tools that are no list", JSON, |m| listed(m, json!({"tools": {"a": 1}})), "no list `tools`"),
    ("a tool without a name", JSON, |m| listed(m, json!({"tools": [{"inputSchema": {}}]})), "without a name"),
    ("a tool without a schema", JSON, |m| listed(m, json!({"tools": [{"name": "a", "inputSchema": 3}]})), ""),
    ("tools of one name", JSON, |m| listed(m, json!({"tools": [tool("a"), tool("a")]})), SAME_NAME),
    ("a name of escape sequences", JSON, |m| listed(m, json!({"tools": [tool("\u{1b}[2J")]})), ""),
    ("pages without end", JSON, |m| listed(m, json!({"tools": [], "nextCursor": "x"})), "more than 100 pages"),
    (
        "an error",
        JSON,
        |m| json!({"jsonrpc": "2.0", "id": m["id"], "error": {"code": 1, "message": "no"}}).to_string(),
        "no",
    ),
    ("requests without end", STREAM, pings, "requests without end"),
    ("a response of 20 MiB", JSON, |_| " ".repeat(20 << 20), ""),
];

fn opened(message: &Value, version: &str) -> String {
    let result = json!({"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}});
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string()
}

/// Opens a session as a good server does, and lists tools with this result.
fn listed(message: &Value, result: Value) -> String {
    match message["method"].as_str() {
        Some("tools/list") => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
        _ => opened(message, message["params"]["protocolVersion"].as_str().unwrap_or_default()),
    }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "x", "inputSchema": {"type": "object"}})
}

/// Responds to each message with two requests, and lists no tools.
fn pings(message: &Value) -> String {
    let ping = json!({"jsonrpc": "2.0", "id": 1_000, "method": "ping"});
    let answer = if message["method"] == "initialize" { listed(message, Value::Null) } else { ping.to_string() };
    format!("data: {ping}\n\ndata: {ping}\n\ndata: {answer}\n\n")
}

/// Starts a service; returns its URL.
fn serve(kind: &'static str, respond: fn(&Value) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(&stream, kind, respond));
        }
    });
    url
}

fn answer(mut stream: &TcpStream, kind: &str, respond: fn(&Value) -> String) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    // A notification has no response.
    let (status, text) =
        if message["id"].is_null() { ("202 Accepted", String::new()) } else { ("200 OK", respond(&message)) };
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n", text.len());
    // The client may have left.
    let _ = write!(stream, "{head}connection: close\r\n\r\n{text}");
}

#[test]
fn hostile_servers_at_a_url_are_refused_in_time() {
    let mut failures = Vec::new();
    for (name, kind, respond, words) in CASES {
        let options = json!({"kind": "mcp", "url": serve(kind, *respond), "timeout": "5s"});
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let error = with_tool(options, &ToolHost::new(1)).err().map(|error| error.to_string());
            // The receiver may have given up.
            let _ = sender.send(error);
        });
        match receiver.recv_timeout(Duration::from_secs(60)) {
            Ok(Some(error)) if error.contains(words) && (*words == SAME_NAME || error.contains("127.0.0.1")) => {}
            // Without words, the server may also be usable.
            Ok(None) if words.is_empty() => {}
            Ok(other) => failures.push(format!("{name}: {other:?} lacks `{words}`")),
            Err(_) => failures.push(format!("{name}: no end, or a panic, within a minute")),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
