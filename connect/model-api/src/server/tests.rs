//! Tests the server over real connections, with a scripted handler.

use super::{ModelApiServer, ModelApiSettings};
use crate::error::ModelApiError;
use crate::handler::{Caller, ModelCard, ModelHandler, PendingRequest, ResponseSender};
use crate::response::{ApiFinishReason, ApiToolCall, ChoiceDelta, ModelResponse, ResponseChoice, Usage};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::clock::ManualClock;
use trainyard_core::{Chance, Secret};

/// Repeats the last message, depending on its text: `slow` waits forever, `drop` never responds, `break` fails in the
/// middle, `call` calls a tool, `pieces` streams letter by letter.
#[derive(Default)]
struct Echo {
    waiting: Mutex<Vec<ResponseSender>>,
    bases: Mutex<Vec<Caller>>,
    /// Refusals of the server by the bases of their requests.
    refused: Mutex<Vec<(String, ModelApiError)>>,
    accepts_any_model: bool,
}

impl ModelHandler for Echo {
    fn models(&self, caller: &Caller) -> Result<Vec<ModelCard>, ModelApiError> {
        if caller.base == "/e/over" {
            return Err(ModelApiError::new(404, "the episode is over"));
        }
        Ok(vec![ModelCard { name: "echo".into(), positions: Some(64) }])
    }
    fn accepts_any_model(&self) -> bool {
        self.accepts_any_model
    }
    fn key(&self, base: &str) -> Option<Secret> {
        base.strip_prefix("/e/").map(|number| Secret::new(format!("key-{number}")))
    }
    fn record_refusal(&self, caller: &Caller, refusal: &ModelApiError) {
        self.refused.lock().unwrap().push((caller.base.clone(), refusal.clone()));
    }
    fn handle(&self, pending: PendingRequest) {
        let PendingRequest { request, caller, reply } = pending;
        self.bases.lock().unwrap().push(caller);
        let text = request.messages().last().map(|message| message.content.clone()).unwrap_or_default();
        let usage = Usage { prompt: request.messages().len(), sampled: 1, thinking: 0 };
        let mut choice = ResponseChoice { text: text.clone(), ..ResponseChoice::default() };
        match text.as_str() {
            "slow" => {
                self.waiting.lock().unwrap().push(reply);
                return;
            }
            "drop" => return,
            "break" => {
                reply.send_delta(ChoiceDelta { text: "b".into(), ..ChoiceDelta::default() });
                reply.fail(ModelApiError::new(500, "broken"));
                return;
            }
            "call" => {
                let call = ApiToolCall { id: "call_1".into(), name: "sum".into(), arguments: "{}".into() };
                choice =
                    ResponseChoice { calls: vec![call], finish: ApiFinishReason::Calls, ..ResponseChoice::default() };
            }
            "pieces" => {
                text.chars().for_each(|c| reply.send_delta(ChoiceDelta { text: c.into(), ..ChoiceDelta::default() }))
            }
            _ => {}
        }
        reply.finish(ModelResponse { choices: vec![choice; request.n], usage, ..ModelResponse::default() });
    }
}

fn settings() -> ModelApiSettings {
    ModelApiSettings::new(Arc::new(ManualClock::at_millis(5_000)), Chance::new(1))
}

fn start(settings: ModelApiSettings) -> (ModelApiServer, Arc<Echo>) {
    let handler = Arc::new(Echo::default());
    (ModelApiServer::start("127.0.0.1:0".parse().unwrap(), handler.clone(), settings).unwrap(), handler)
}

fn send(server: &ModelApiServer, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream
}

fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Returns status and body of a response.
fn read(mut stream: TcpStream) -> (u16, String) {
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    (head.split_whitespace().nth(1).unwrap_or("0").parse().unwrap(), body.to_string())
}

fn post(server: &ModelApiServer, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = read(send(server, &request(path, &body.to_string())));
    (status, serde_json::from_str(&text).unwrap_or_else(|_| json!(text)))
}

fn content(text: &str) -> Value {
    json!({"model": "echo", "messages": [{"role": "user", "content": text}]})
}

#[test]
fn every_api_responds_in_its_format() {
    let (server, handler) = start(settings());
    let (status, response) = post(&server, "/v1/chat/completions", &content("hi"));
    assert_eq!((status, &response["choices"][0]["message"]["content"]), (200, &json!("hi")));
    assert_eq!(response["created"], 5);
    let (_, response) = post(&server, "/e/7/v1/chat/completions", &content("call"));
    assert_eq!(response["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(handler.bases.lock().unwrap()[1].base, "/e/7");
    let (_, response) = post(&server, "/v1/completions", &json!({"prompt": "x", "n": 2}));
    assert_eq!((&response["model"], response["choices"].as_array().unwrap().len()), (&json!("echo"), 2));
    let message = json!({"model": "echo", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]});
    let (_, response) = post(&server, "/v1/messages", &message);
    assert_eq!(response["content"], json!([{"type": "text", "text": "hi"}]));
    let (status, response) = post(&server, "/v1/messages/count_tokens", &message);
    assert_eq!((status, &response["type"]), (404, &json!("error")), "the handler does not count tokens");
    let get = |path: &str| {
        let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let (status, body) = read(send(&server, &text));
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    assert_eq!(get("/health"), (200, json!({"status": "ok"})));
    assert_eq!(get("/v1/models").1["data"][0]["id"], "echo");
    assert_eq!(get("/v1/models/echo").1["max_model_len"], 64);
    assert_eq!(get("/v1/models/other").0, 404);
    assert_eq!(get("/v1/chat/completions").0, 405);
    assert_eq!(get("/nowhere").0, 404);
}

#[test]
fn response_is_continued_only_on_its_path() {
    let (server, _) = start(settings());
    let (_, first) = post(&server, "/v1/responses", &json!({"input": "hi", "instructions": "Be brief."}));
    let next = json!({"input": "more", "previous_response_id": first["id"]});
    let (status, second) = post(&server, "/v1/responses", &next);
    assert_eq!((status, &second["usage"]["input_tokens"]), (200, &json!(3)), "without the instructions");
    assert_eq!(post(&server, "/e/1/v1/responses", &next).0, 400);
    let (_, unstored) = post(&server, "/v1/responses", &json!({"input": "hi", "store": false}));
    let (status, refusal) =
        post(&server, "/v1/responses", &json!({"input": "x", "previous_response_id": unstored["id"]}));
    assert_eq!((status, &refusal["error"]["code"]), (400, &json!("previous_response_not_found")));
}

#[test]
fn stream_has_deltas_or_whole_response() {
    let (server, _) = start(settings());
    for (text, count) in [("pieces", 6), ("whole", 1)] {
        let mut body = content(text);
        body["stream"] = json!(true);
        let (status, stream) = read(send(&server, &request("/v1/chat/completions", &body.to_string())));
        assert_eq!(status, 200);
        let events: Vec<Value> =
            stream.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
        let deltas = events.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
        let deltas: Vec<&str> = deltas.filter(|delta| !delta.is_empty()).collect();
        assert_eq!((deltas.len(), deltas.concat().as_str()), (count, text));
        assert!(stream.contains("data: [DONE]"), "{stream}");
    }
    let mut body = content("break");
    body["stream"] = json!(true);
    let (_, stream) = read(send(&server, &request("/v1/chat/completions", &body.to_string())));
    assert!(stream.contains("\"message\":\"broken\""), "{stream}");
}

#[test]
fn invalid_requests_are_rejected_and_server_continues() {
    let (server, _) =
        start(ModelApiSettings { max_body_bytes: 1000, body_timeout: Duration::from_secs(1), ..settings() });
    let large = format!("\"{}\"", "x".repeat(2000));
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n";
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n800\r\n{}\r\n0\r\n\r\n", "x".repeat(2048));
    let cases = [
        (request("/v1/chat/completions", "{"), 400, "not valid JSON"),
        (request("/v1/chat/completions", ""), 400, "not valid JSON"),
        (request("/v1/chat/completions", "[]"), 400, "must be a JSON object"),
        (request("/v1/chat/completions", &large), 413, "more than 1000 bytes"),
        (chunked, 413, "more than 1000 bytes"),
        (format!("{head}content-length: 50\r\n\r\n{{\"mod"), 408, "did not arrive within 1 s"),
        (request("/v1/chat/completions", &content("x").to_string().replace("echo", "gpt")), 404, "use one of: echo"),
        (request("/e/over/v1/chat/completions", &content("x").to_string()), 404, "the episode is over"),
        (request("/v1/chat/completions", &content("drop").to_string()), 500, "stopped without a response"),
        (request("/v1/messages", "{}"), 400, "\"type\":\"error\""),
        (request("/v1/chat/completions", "{}").replace("127.0.0.1", "evil.example"), 403, "another host"),
    ];
    for (text, status, message) in cases {
        let (actual, body) = read(send(&server, &text));
        assert_eq!(actual, status, "{text}: {body}");
        assert!(body.contains(message), "{body}");
    }
    // Half a body, then the client disconnects.
    drop(send(&server, &format!("{head}content-length: 50\r\n\r\n{{\"mod")));
    assert_eq!(post(&server, "/v1/chat/completions", &content("hi")).0, 200);
}

#[test]
fn client_disconnect_is_noticed() {
    let (server, handler) = start(settings());
    for stream in [false, true] {
        let mut body = content("slow");
        body["stream"] = json!(stream);
        let client = send(&server, &request("/v1/chat/completions", &body.to_string()));
        let wait = |until: &dyn Fn() -> bool| {
            (0..500).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                until()
            })
        };
        assert!(wait(&|| handler.waiting.lock().unwrap().len() == 1), "the request arrives");
        assert!(!handler.waiting.lock().unwrap()[0].is_disconnected());
        drop(client);
        assert!(wait(&|| handler.waiting.lock().unwrap()[0].is_disconnected()), "its end is noticed");
        handler.waiting.lock().unwrap().clear();
    }
}

#[test]
fn key_is_required_on_network() {
    let (server, _) = start(ModelApiSettings { key: Some(Secret::new("k")), ..settings() });
    let text = request("/v1/chat/completions", &content("hi").to_string());
    let (status, body) = read(send(&server, &text));
    assert!(status == 401 && body.contains("invalid_api_key"), "{body}");
    assert_eq!(read(send(&server, &text.replace("\r\nhost", "\r\nauthorization: Bearer k\r\nhost"))).0, 200);
    assert_eq!(read(send(&server, &text.replace("\r\nhost", "\r\nx-api-key: k\r\nhost"))).0, 200);
    let open = ModelApiServer::start("0.0.0.0:0".parse().unwrap(), Arc::new(Echo::default()), settings());
    assert!(open.err().unwrap().message.contains("is reachable from the network"));
}

#[test]
fn refusals_of_the_server_are_recorded_by_path() {
    let (server, handler) = start(settings());
    assert_eq!(post(&server, "/e/7/v1/chat/completions", &content("hi")).0, 200);
    let mut forced = content("hi");
    forced["n"] = json!("many");
    assert_eq!(post(&server, "/e/7/v1/chat/completions", &forced).0, 400);
    assert_eq!(post(&server, "/e/8/v1/embeddings", &json!({})).0, 404);
    assert_eq!(read(send(&server, &request("/e/9/v1/messages", "{"))).0, 400);
    let refused = handler.refused.lock().unwrap();
    let bases: Vec<&str> = refused.iter().map(|(base, _)| base.as_str()).collect();
    assert_eq!(bases, ["/e/7", "/e/8/v1/embeddings", "/e/9"]);
    assert_eq!(refused[0].1.param.as_deref(), Some("n"), "{:?}", refused[0]);
}

#[test]
fn handler_holds_a_key_for_each_path() {
    let keyed = ModelApiSettings { handler_has_keys: true, ..settings() };
    let network = ModelApiServer::start("0.0.0.0:0".parse().unwrap(), Arc::new(Echo::default()), keyed.clone());
    assert!(network.is_ok(), "a network address is permitted");
    let (server, _) = start(keyed);
    let status = |path: &str, key: &str| {
        let text = request(path, &content("hi").to_string()).replace("127.0.0.1", "gpu-7");
        read(send(&server, &text.replace("\r\nhost", &format!("\r\nauthorization: Bearer {key}\r\nhost")))).0
    };
    assert_eq!(status("/e/7/v1/chat/completions", "key-7"), 200);
    for (path, key) in [("/e/7", "key-8"), ("/e/8", "key-7"), ("/e/7", ""), ("", "key-7")] {
        assert_eq!(status(&format!("{path}/v1/chat/completions"), key), 401, "{path} {key}");
    }
}

#[test]
fn any_name_of_a_model_may_be_looked_up_where_it_may_be_requested() {
    let name = "/v1/models/gpt-4o-2024-08-06";
    for (accepts_any_model, status) in [(true, 200), (false, 404)] {
        let handler = Arc::new(Echo { accepts_any_model, ..Echo::default() });
        let server = ModelApiServer::start("127.0.0.1:0".parse().unwrap(), handler, settings()).unwrap();
        let text = format!("GET {name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let (actual, body) = read(send(&server, &text));
        assert_eq!(actual, status, "{body}");
        assert!(body.contains("gpt-4o-2024-08-06"), "{body}");
    }
}
