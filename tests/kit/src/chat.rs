//! Provides a scripted server of chat completions, with valid and faulty responses, which counts its requests.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Response of the server.
#[derive(Debug, Clone, PartialEq)]
pub enum MockResponse {
    /// Responds with this JSON.
    Json(Value),
    /// Responds with a status and a text.
    Status(u16, &'static str),
    /// Sends half of the response and closes the connection.
    Half(Value),
    /// Sends single bytes with pauses, for longer than any timeout.
    Drip,
    /// Closes the connection.
    Hang,
}

/// Returns a completion with this text by the requested model, of 10 prompt tokens and 5 completion tokens.
pub fn says(body: &Value, text: &str) -> MockResponse {
    let message = json!({"role": "assistant", "content": text});
    completion(body, &message)
}

/// Returns a completion that calls a tool with these arguments.
pub fn calls(body: &Value, id: &str, tool: &str, arguments: &Value) -> MockResponse {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"id": id, "type": "function", "function": function});
    completion(body, &json!({"role": "assistant", "content": null, "tool_calls": [call]}))
}

fn completion(body: &Value, message: &Value) -> MockResponse {
    MockResponse::Json(json!({
        "object": "chat.completion",
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }))
}

/// A server on loopback. Its threads end with the process.
pub struct MockChatServer {
    url: String,
    seen: Arc<MockRequests>,
}

#[derive(Default)]
struct MockRequests {
    requests: AtomicUsize,
    open: AtomicUsize,
    max_open: AtomicUsize,
    heads: Mutex<Vec<String>>,
    bodies: Mutex<Vec<Value>>,
}

impl MockChatServer {
    /// Starts a server that responds with the result of `respond` for the body of a request and its number, counted
    /// from 0.
    pub fn start(respond: impl Fn(&Value, usize) -> MockResponse + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (seen, respond) = (Arc::new(MockRequests::default()), Arc::new(respond));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, respond) = (Arc::clone(&shared), Arc::clone(&respond));
                // The client may disconnect at any moment.
                std::thread::spawn(move || drop(serve(&stream, &seen, &*respond)));
            }
        });
        Self { url, seen }
    }
    pub fn url(&self) -> &str {
        &self.url
    }
    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }
    /// Returns the maximum number of simultaneously open requests.
    pub fn most(&self) -> usize {
        self.seen.max_open.load(Ordering::SeqCst)
    }
    /// Returns the heads of all requests.
    pub fn heads(&self) -> Vec<String> {
        self.seen.heads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Returns the bodies of all requests.
    pub fn bodies(&self) -> Vec<Value> {
        self.seen.bodies.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(
    stream: &TcpStream,
    seen: &MockRequests,
    respond: &dyn Fn(&Value, usize) -> MockResponse,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push_str(&line);
    }
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    seen.heads.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    seen.bodies.lock().unwrap_or_else(PoisonError::into_inner).push(body.clone());
    let number = seen.requests.fetch_add(1, Ordering::SeqCst);
    seen.max_open.fetch_max(seen.open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    let response = respond(&body, number);
    seen.open.fetch_sub(1, Ordering::SeqCst);
    send(stream, &response)
}

fn send(mut stream: &TcpStream, response: &MockResponse) -> std::io::Result<()> {
    let head = |status: u16, kind: &str, length: usize| {
        format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n")
    };
    match response {
        MockResponse::Json(body) => {
            let body = body.to_string();
            stream.write_all(format!("{}{body}", head(200, "application/json", body.len())).as_bytes())
        }
        MockResponse::Status(status, text) => {
            stream.write_all(format!("{}{text}", head(*status, "text/plain", text.len())).as_bytes())
        }
        MockResponse::Half(body) => {
            let body = body.to_string();
            stream.write_all(head(200, "application/json", body.len()).as_bytes())?;
            stream.write_all(&body.as_bytes()[..body.len() / 2])
        }
        MockResponse::Drip => {
            stream.write_all(head(200, "application/json", 10_000).as_bytes())?;
            for _ in 0..600 {
                stream.write_all(b" ")?;
                std::thread::sleep(Duration::from_millis(100));
            }
            Ok(())
        }
        MockResponse::Hang => Ok(()),
    }
}
