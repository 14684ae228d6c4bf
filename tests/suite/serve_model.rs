//! `trainyard serve-model`: a trained model over the APIs that agents use, and, if `TRAINYARD_TEST_CLIENTS` names a
//! Python with `openai` and `anthropic`, through these clients.

use crate::kit::Sandbox;
use crate::processes::signal;
use crate::python_programs::{python_with, succeeds};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

const MODEL: &str = r#"
version: 1
name: served
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      environment: {kind: word-problems, format: hermes}
      splits: {demonstrations: {levels: {1: 8}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.data.problems }}"], corpus: ["${{ stages.data.demonstrations }}"], template: chatml,
          tokenizer: {kind: bpe, vocabulary_size: 400}, hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
"#;

/// A server that stops with the test.
pub struct Served {
    pub child: Child,
    pub port: u16,
}

impl Served {
    /// Starts a server without a key, unless the arguments name its file.
    pub fn start(s: &Sandbox, args: &[&str]) -> Self {
        let open: &[&str] = if args.contains(&"--key-file") { &[] } else { &["--no-token"] };
        Self::guarded(s, &[args, open].concat())
    }
    /// Starts a server that needs a key.
    fn guarded(s: &Sandbox, args: &[&str]) -> Self {
        let all = [&["serve-model", "latest/base/model", "--bind", "127.0.0.1:0"], args].concat();
        let mut child = s.command(&all).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("serving "))).expect("it says where");
        // Later output is discarded and must not block the server.
        std::thread::spawn(move || lines.for_each(drop));
        let port = line.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
        Self { child, port }
    }
    fn send(&self, method: &str, path: &str, body: &str, more: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\n\
             {more}content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }
    fn ask(&self, path: &str, body: &Value) -> (u16, Value) {
        read(self.send("POST", path, &body.to_string(), ""))
    }
    fn signal(&self) {
        signal("-TERM", &self.child.id().to_string());
    }
    fn code(mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(mut stream: TcpStream) -> (u16, Value) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).unwrap_or("0").parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|_| json!(body)))
}

/// Creates a sandbox with a run that made a model.
pub fn made() -> Sandbox {
    let s = Sandbox::new();
    s.write("served.yaml", MODEL);
    s.run(&["run", "served.yaml"]).code(0);
    s
}

fn chat(text: &str) -> Value {
    let messages = json!([{"role": "user", "content": text}]);
    json!({"model": "agent", "messages": messages, "max_tokens": 8, "seed": 3, "temperature": 1.0})
}

#[test]
fn a_trained_model_is_served_until_a_signal_comes() {
    let s = made();
    let served = Served::start(&s, &["--name", "agent", "--max-batch", "4"]);
    let (status, models) = read(served.send("GET", "/v1/models", "", ""));
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("agent")));
    let (status, answer) = served.ask("/v1/chat/completions", &chat("2+2?"));
    assert_eq!(status, 200, "{answer}");
    assert!(answer["usage"]["completion_tokens"].as_u64().unwrap() > 0, "{answer}");
    let (_, again) = served.ask("/v1/chat/completions", &chat("2+2?"));
    assert_eq!(again["choices"], answer["choices"], "equal seeds give equal answers");

    // Two concurrent clients, one of which disconnects in the middle.
    let mut endless = chat("count");
    (endless["stream"], endless["ignore_eos"], endless["max_tokens"]) = (json!(true), json!(true), Value::Null);
    let mut gone = served.send("POST", "/v1/chat/completions", &endless.to_string(), "");
    let mut begin = [0; 400];
    gone.read_exact(&mut begin).unwrap();
    drop(gone);
    let (status, beside) = served.ask("/v1/chat/completions", &chat("2+2?"));
    assert_eq!((status, &beside["choices"]), (200, &answer["choices"]), "whoever shares the batch");

    let table = [
        ("not JSON", "{".to_string(), 400),
        ("no such model", json!({"model": "gpt", "messages": []}).to_string(), 400),
        ("another model", chat("x").to_string().replace("agent", "gpt"), 404),
        ("no messages", json!({"model": "agent", "messages": []}).to_string(), 400),
        ("cold", chat("x").to_string().replace("\"temperature\":1.0", "\"temperature\":-1"), 400),
        ("too many", chat("x").to_string().replace("\"seed\":3", "\"n\":100"), 400),
        ("too long", chat(&"1 ".repeat(100_000)).to_string(), 400),
    ];
    for (what, body, expected) in table {
        let (status, answer) = read(served.send("POST", "/v1/chat/completions", &body, ""));
        assert_eq!(status, expected, "{what}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{what}: {answer}");
    }

    // An active request is answered before the server stops.
    let last = served.send("POST", "/v1/chat/completions", &chat("2+2?").to_string(), "");
    std::thread::sleep(std::time::Duration::from_millis(100));
    served.signal();
    assert_eq!(read(last).0, 200);
    assert_eq!(served.code(), 0);
}

#[test]
fn responses_have_the_form_that_requests_give() {
    let s = made();
    let served = Served::start(&s, &["--name", "agent"]);
    let schema = json!({"type": "object", "required": ["city", "warm"], "additionalProperties": false, "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 8}, "warm": {"type": "boolean"}}});
    let has_form = |text: &Value| {
        let value: Value = serde_json::from_str(text.as_str().unwrap()).unwrap_or_else(|e| panic!("{text}: {e}"));
        let length = value["city"].as_str().unwrap().chars().count();
        assert!((1..=8).contains(&length) && value["warm"].is_boolean(), "{value}");
        assert_eq!(value.as_object().unwrap().len(), 2, "{value}");
    };
    let bounded = |seed: u64| {
        let mut body = chat("weather?");
        (body["max_tokens"], body["seed"]) = (json!(480), json!(seed));
        body
    };
    for seed in 0..4 {
        let mut body = bounded(seed);
        body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "w", "schema": schema}});
        let (status, answer) = served.ask("/v1/chat/completions", &body);
        assert_eq!((status, &answer["choices"][0]["finish_reason"]), (200, &json!("stop")), "{answer}");
        has_form(&answer["choices"][0]["message"]["content"]);
    }
    let (status, answer) = served.ask(
        "/v1/responses",
        &json!({"model": "agent", "input": "weather?", "max_output_tokens": 480, "seed": 1, "temperature": 1.0,
            "text": {"format": {"type": "json_schema", "name": "w", "schema": schema}}}),
    );
    assert_eq!(status, 200, "{answer}");
    has_form(&answer["output"][0]["content"][0]["text"]);

    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": schema}});
    for (choice, names) in [
        (json!("required"), &["look", "ask"][..]),
        (json!({"type": "function", "function": {"name": "ask"}}), &["ask"][..]),
    ] {
        let mut body = bounded(2);
        (body["tools"], body["tool_choice"]) = (json!([tool("look"), tool("ask")]), choice);
        body["parallel_tool_calls"] = json!(false);
        let (status, answer) = served.ask("/v1/chat/completions", &body);
        assert_eq!((status, &answer["choices"][0]["finish_reason"]), (200, &json!("tool_calls")), "{answer}");
        let function = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
        assert!(names.contains(&function["name"].as_str().unwrap()), "{answer}");
        has_form(&function["arguments"]);
    }
    let (status, answer) = served.ask(
        "/v1/messages",
        &json!({"model": "agent", "max_tokens": 700, "messages": [{"role": "user", "content": "x"}],
            "tools": [{"name": "look", "input_schema": schema}], "tool_choice": {"type": "any"}}),
    );
    let blocks = answer["content"].as_array().unwrap_or_else(|| panic!("{answer}"));
    assert!(status == 200 && blocks.iter().any(|block| block["name"] == "look"), "{answer}");

    let mut body = bounded(1);
    let unsupported = json!({"type": "string", "pattern": "a+"});
    body["response_format"] = json!({"type": "json_schema", "json_schema": {"name": "p", "schema": unsupported}});
    let (status, answer) = served.ask("/v1/chat/completions", &body);
    assert!(status == 400 && answer["error"]["message"].to_string().contains("/pattern"), "{answer}");
}

#[test]
fn mistakes_of_the_command_are_told_at_once() {
    let s = made();
    let mistaken = |args: &[&str]| s.run(&[&["serve-model", "--bind", "127.0.0.1:0"], args].concat()).code(2);
    mistaken(&["latest/base/weights"]).says("no output `weights`");
    mistaken(&["latest/data/problems"]).says("not a model");
    mistaken(&["nowhere"]).says("there is no folder nowhere");
    s.run(&["serve-model", "latest/base/model", "--bind", "0.0.0.0:0"]).code(2).says("the server requires no key");
    mistaken(&["latest/base/model", "--backend", "gpu"]).says("gpu");
    mistaken(&["latest/base/model", "--calls", "xml"]).says("use one of");
    s.write("key", "\n");
    mistaken(&["latest/base/model", "--key-file", "key"]).says("contains no key");
    s.write("key", "sesame\n");
    let served = Served::start(&s, &["--key-file", "key", "--name", "agent"]);
    assert_eq!(served.ask("/v1/chat/completions", &chat("x")).0, 401);
    let with = served.send("POST", "/v1/chat/completions", &chat("x").to_string(), "x-api-key: sesame\r\n");
    assert_eq!(read(with).0, 200);
}

#[test]
fn requests_of_this_machine_need_the_key_of_a_private_file() {
    let s = made();
    let served = Served::guarded(&s, &["--name", "agent"]);
    let file = s.path(&format!("home/tokens/serve-model-{}", served.port));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&file).unwrap();
    assert_eq!(served.ask("/v1/chat/completions", &chat("x")).0, 401);
    for head in [format!("authorization: Bearer {}\r\n", key.trim()), format!("x-api-key: {}\r\n", key.trim())] {
        assert_eq!(read(served.send("POST", "/v1/chat/completions", &chat("x").to_string(), &head)).0, 200);
    }
    served.signal();
    assert_eq!(served.code(), 0);
    assert!(!file.exists(), "the key ends with the server");
}

/// Requires TRAINYARD_TEST_CLIENTS, a Python with `openai` and `anthropic`.
#[test]
fn the_official_clients_understand_every_form() {
    let Some(python) = python_with("`openai` and `anthropic`", "TRAINYARD_TEST_CLIENTS") else { return };
    let s = made();
    let served = Served::start(&s, &["--name", "agent"]);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/suite/serve_model_clients.py");
    let ran = succeeds(&python, &s, &[script, &format!("http://127.0.0.1:{}", served.port)]);
    for part in ["chat", "stream", "tools", "responses", "completions", "anthropic", "errors"] {
        assert!(ran.stdout.contains(&format!("{part}: ok")), "{part} was not checked");
    }
}
