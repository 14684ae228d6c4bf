//! Tests the client with a service of a few lines, which responds correctly or misbehaves in one way each.

use super::*;
use crate::programs::CustomCodeOptions as _;
use serde_json::{Map, Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::{Error, ErrorKind, Secrets};
use trainyard_process::{
    Hello, PendingProgramResponse, ProgramFault, ProgramResult, ProgramService, SessionLocation, null_log,
};

const TIMEOUT: Duration = Duration::from_secs(60);
const HELLO: Hello<'static> = Hello { role: "reward", name: "", seed: 7 };

/// Reaction of a service to a request.
enum Act {
    Say(Value),
    Text(String),
    Status(u16, &'static str),
    /// Closes the connection.
    Die,
    /// Never responds.
    Hang,
    /// Sends more than the limit.
    Flood,
    /// Sends single bytes with pauses.
    Drip,
    /// Sends half of the announced bytes.
    Half,
}

/// Received requests in order, with their heads.
#[derive(Default)]
struct ReceivedRequests {
    bodies: Mutex<Vec<Value>>,
    heads: Mutex<Vec<String>>,
}

impl ReceivedRequests {
    /// Returns the requested operations.
    fn ops(&self) -> Vec<String> {
        let bodies = self.bodies.lock().unwrap();
        let op = |line: &Value| line["op"].as_str().or(line["type"].as_str()).unwrap_or_default().to_string();
        bodies.iter().map(op).collect()
    }
}

fn ready() -> Value {
    json!({"type": "ready", "protocol": 1})
}

/// Starts a service; `act` receives a request and how many of its operation came before it. The handshake always gets a
/// response.
fn serve(act: impl Fn(&Value, usize) -> Act + Send + Sync + 'static) -> (String, Arc<ReceivedRequests>) {
    serve_all(move |line, before| if line["type"] == "hello" { Act::Say(ready()) } else { act(line, before) })
}

fn serve_all(act: impl Fn(&Value, usize) -> Act + Send + Sync + 'static) -> (String, Arc<ReceivedRequests>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/own", listener.local_addr().unwrap());
    let seen = Arc::new(ReceivedRequests::default());
    let (shared, act) = (Arc::clone(&seen), Arc::new(act));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, act) = (Arc::clone(&shared), Arc::clone(&act));
            std::thread::spawn(move || one(&stream, &seen, &*act));
        }
    });
    (url, seen)
}

fn one(stream: &TcpStream, seen: &ReceivedRequests, act: &dyn Fn(&Value, usize) -> Act) {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let line: Value = serde_json::from_slice(&body).unwrap();
    let before = {
        let mut bodies = seen.bodies.lock().unwrap();
        let before = bodies.iter().filter(|earlier| earlier["op"] == line["op"]).count();
        bodies.push(line.clone());
        before
    };
    seen.heads.lock().unwrap().push(head);
    let write = |text: &str| (&mut &*stream).write_all(text.as_bytes()).is_ok();
    let http_response = |status: u16, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
    };
    match act(&line, before) {
        Act::Say(value) => drop(write(&http_response(200, &value.to_string()))),
        Act::Text(text) => drop(write(&http_response(200, &text))),
        Act::Status(status, text) => drop(write(&http_response(status, text))),
        Act::Die => {}
        Act::Hang => std::thread::sleep(TIMEOUT),
        Act::Flood => {
            let part = " ".repeat(1 << 20);
            let chunk = format!("{:x}\r\n{part}\r\n", part.len());
            if write("HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n") {
                while write(&chunk) {}
            }
        }
        Act::Drip => {
            if write("HTTP/1.1 200 X\r\ncontent-length: 100\r\n\r\n") {
                while write(" ") {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
        Act::Half => drop(write(&http_response(200, "{\"id\":1,\"result\":[1,2,3]}")[..75])),
    }
}

/// Responds to a request with its id.
fn echo(line: &Value) -> Act {
    Act::Say(json!({"id": line["id"], "result": line["n"]}))
}

fn options(url: &str, more: Value) -> ServiceOptions {
    let mut options = json!({"url": url, "timeout": "20s", "attempts": 2});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(options).unwrap()
}

fn service(url: &str, more: Value) -> Arc<dyn ProgramService> {
    options(url, more).open(HELLO, &Secrets::default(), &null_log()).unwrap()
}

fn wait(pending: &PendingProgramResponse) -> ProgramResult {
    pending.wait(TIMEOUT).expect("an answer in time")
}

fn call_score(peer: &dyn ProgramService, body: &Value) -> ProgramResult {
    wait(&peer.call("score", body).unwrap())
}

fn outage(answer: ProgramResult) -> Error {
    match answer {
        Err(ProgramFault::Outage(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_requests_are_answered_after_one_handshake() {
    let (url, seen) = serve(|line, _| echo(line));
    let peer = service(&url, json!({"options": {"limit": 3}}));
    let pending: Vec<PendingProgramResponse> = (0..50).map(|n| peer.call("score", &json!({"n": n})).unwrap()).collect();
    for (n, response) in pending.iter().enumerate() {
        assert_eq!(wait(response).unwrap().value, n);
    }
    assert_eq!(wait(&peer.ready()).unwrap().value["type"], "ready");
    let bodies = seen.bodies.lock().unwrap();
    assert_eq!(bodies.iter().filter(|line| line["type"] == "hello").count(), 1);
    let hello =
        json!({"type": "hello", "protocol": 1, "role": "reward", "name": "", "options": {"limit": 3}, "seed": 7});
    assert_eq!(bodies[0], hello);
    // A restarted service still receives the handshake with each request.
    assert_eq!(bodies[1]["hello"], json!({"role": "reward", "name": "", "options": {"limit": 3}, "seed": 7}));
}

#[test]
fn faults_of_a_service_are_reported_with_their_kind() {
    use ErrorKind::{Data, Invalid, Retryable};
    type Case = (fn() -> Act, ErrorKind, &'static str);
    let cases: [Case; 12] = [
        (|| Act::Status(500, "boom"), Retryable, "returned status 500: boom (2 attempts)"),
        (|| Act::Status(429, ""), Retryable, "returned status 429 (2 attempts)"),
        (|| Act::Status(404, "no such path"), Invalid, "returned status 404: no such path"),
        (|| Act::Status(422, "{\"detail\": \"no items\"}"), Invalid, "returned status 422: no items"),
        (|| Act::Status(401, ""), Invalid, "returned status 401"),
        (|| Act::Die, Retryable, "closed the connection early (2 attempts)"),
        (|| Act::Half, Retryable, "closed the connection early (2 attempts)"),
        (|| Act::Text("{\"id\":2,\"res".into()), Retryable, "ended its response early (2 attempts)"),
        (|| Act::Text("<html>hello</html>".into()), Data, "wrote a line that is not a response"),
        (|| Act::Say(json!({"id": 99, "result": 1})), Data, "answered request 99 instead of request 1"),
        (|| Act::Say(json!({"id": 1})), Data, "neither `result` nor `error`"),
        (|| Act::Flood, Data, "returned more than 67108864 bytes"),
    ];
    for (act, kind, words) in cases {
        let (url, _) = serve(move |_, _| act());
        let error = outage(call_score(&*service(&url, json!({})), &json!({})));
        assert_eq!(error.kind, kind, "{words}: {error}");
        assert!(error.message.starts_with("reward `http`") && error.message.contains(words), "{words}: {error}");
    }
}

#[test]
fn slow_responses_time_out() {
    for act in [|| Act::Hang, || Act::Drip] {
        let (url, _) = serve(move |_, _| act());
        let error = outage(call_score(&*service(&url, json!({"timeout": "300ms"})), &json!({})));
        assert_eq!(error.kind, ErrorKind::Retryable);
        assert!(error.message.contains("did not answer within 300ms (2 attempts)"), "{error}");
    }
}

#[test]
fn transient_faults_are_retried() {
    for act in [|| Act::Status(503, ""), || Act::Die, || Act::Half] {
        let (url, seen) = serve(move |line, before| if before == 0 { act() } else { echo(line) });
        assert_eq!(call_score(&*service(&url, json!({})), &json!({"n": 5})).unwrap().value, 5);
        let bodies = seen.bodies.lock().unwrap();
        assert_eq!((bodies.len(), &bodies[1]), (3, &bodies[2]), "the second try is the first one, with its id");
    }
}

#[test]
fn exceptions_are_not_outages() {
    let (url, _) = serve(|line, _| {
        Act::Say(json!({"id": line["id"], "error": {"type": "ValueError", "message": "bad", "traceback": "line 1"}}))
    });
    let Err(ProgramFault::Exception(raised)) = call_score(&*service(&url, json!({})), &json!({})) else {
        panic!("no exception")
    };
    assert_eq!(raised.to_string(), "ValueError: bad");
}

#[test]
fn failed_handshake_is_repeated_by_the_next_request() {
    let (url, seen) = serve_all(|line, before| match (line["type"].as_str(), before) {
        (Some("hello"), 0) => Act::Say(json!({"type": "error", "error": {"type": "LookupError", "message": "none"}})),
        (Some("hello"), 1) => Act::Say(json!({"type": "ready", "protocol": 2})),
        (Some("hello"), _) => Act::Say(ready()),
        _ => echo(line),
    });
    let peer = service(&url, json!({}));
    for words in ["cannot be used: LookupError: none", "uses version 2 of the protocol"] {
        let error = outage(call_score(&*peer, &json!({})));
        assert!(error.kind == ErrorKind::Invalid && error.message.contains(words), "{error}");
    }
    assert_eq!(call_score(&*peer, &json!({"n": 1})).unwrap().value, 1);
    assert_eq!(seen.ops(), ["hello", "hello", "hello", "score"]);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = outage(call_score(&*service(&format!("http://{unused}"), json!({})), &json!({})));
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("cannot be reached (2 attempts)"), "{error}");
}

#[test]
fn keys_and_headers_are_sent_and_never_shown() {
    let (url, seen) = serve(|_, _| Act::Status(403, "who are you"));
    let more = json!({"api_key": {"secret": "KEY"}, "headers": {"X-Team": "red", "X-Pass": {"secret": "PASS"}}});
    let secrets = Secrets::new([("KEY", "sesame"), ("PASS", "hunter2")].map(|(n, v)| (n.to_string(), v.to_string())));
    let peer = options(&url, more).open(HELLO, &secrets, &null_log()).unwrap();
    let error = outage(call_score(&*peer, &json!({})));
    assert!(!format!("{error:?}").contains("hunter2") && !format!("{error:?}").contains("sesame"), "{error:?}");
    let heads = seen.heads.lock().unwrap();
    for head in heads.iter() {
        for line in ["authorization: Bearer sesame\r\n", "x-team: red\r\n", "x-pass: hunter2\r\n"] {
            assert!(head.contains(line), "{head}");
        }
    }
    let more = json!({"headers": {"X-Pass": {"secret": "PASS"}}});
    let broken = Secrets::new([("PASS".to_string(), "a\nb".to_string())]);
    let error = options(&url, more).open(HELLO, &broken, &null_log()).err().unwrap();
    assert!(error.kind == ErrorKind::Invalid && !error.message.contains("a\nb"), "{error}");
}

/// Returns the location of session 3.
fn location(generation: Option<u64>) -> SessionLocation {
    SessionLocation { session: 3, worker: 0, generation }
}

fn on(peer: &dyn ProgramService, generation: Option<u64>, op: &str) -> ProgramResult {
    wait(&peer.send_in_session(location(generation), op, Map::new()).unwrap())
}

#[test]
fn sessions_have_unique_names_and_are_closed() {
    let (url, seen) = serve(|line, _| echo(line));
    let peer = service(&url, json!({}));
    let generation = on(&*peer, None, "start").unwrap().generation;
    assert_eq!(on(&*peer, Some(generation), "step").unwrap().generation, generation);
    let forked =
        peer.send_in_session(SessionLocation { session: 4, ..location(Some(generation)) }, "fork", Map::new()).unwrap();
    assert_ne!(wait(&forked).unwrap().generation, generation, "a fork is another session");
    let again = on(&*peer, None, "start").unwrap().generation;
    assert_ne!(again, generation, "a session that is started again is another one");
    for session in [3, 4] {
        peer.send_in_session(SessionLocation { session, ..location(None) }, "close", Map::new()).unwrap();
    }
    drop(peer);
    let bodies = seen.bodies.lock().unwrap();
    let of = |op: &str, key: &str| -> Vec<String> {
        let mut names: Vec<String> =
            bodies.iter().filter(|l| l["op"] == op).map(|l| l[key].as_str().unwrap().to_string()).collect();
        names.sort();
        names
    };
    let (begun, forked) = (of("start", "session"), of("fork", "session"));
    assert_eq!((of("step", "session"), of("fork", "from")), (vec![begun[0].clone()], vec![begun[0].clone()]));
    let mut all = [begun, forked].concat();
    all.sort();
    assert_eq!(of("close", "session"), all, "every session is closed before the client is dropped");
    let other = service(&url, json!({}));
    drop(bodies);
    on(&*other, None, "start").unwrap();
    let name = seen.bodies.lock().unwrap().iter().rfind(|l| l["op"] == "start").unwrap()["session"].clone();
    assert!(!all.contains(&name.as_str().unwrap().to_string()), "session names are unique across stages");
}

#[test]
fn step_is_sent_once_and_a_lost_session_is_reported() {
    let lost = |answer: &ProgramResult| matches!(answer, Err(ProgramFault::Lost(_)));
    for act in [|| Act::Die, || Act::Half, || Act::Status(500, ""), || Act::Status(410, "who")] {
        let (url, seen) = serve(move |line, _| if line["op"] == "step" { act() } else { echo(line) });
        let peer = service(&url, json!({}));
        let generation = on(&*peer, None, "start").unwrap().generation;
        let answer = on(&*peer, Some(generation), "step");
        assert!(lost(&answer), "{answer:?}");
        assert_eq!(seen.ops(), ["hello", "start", "step"]);
    }
    let (url, seen) = serve(|line, before| match (line["op"].as_str(), before) {
        (Some("step"), 0) => Act::Status(429, ""),
        (Some("step"), 1) => Act::Hang,
        (Some("step"), _) => Act::Status(400, "no such tool"),
        _ => echo(line),
    });
    let peer = service(&url, json!({"timeout": "300ms"}));
    let generation = on(&*peer, None, "start").unwrap().generation;
    assert!(matches!(on(&*peer, Some(generation), "step"), Err(ProgramFault::TimedOut(_))));
    assert_eq!(seen.ops(), ["hello", "start", "step", "step"], "a rejected step was not run");
    assert_eq!(outage(on(&*peer, Some(generation), "step")).kind, ErrorKind::Invalid);
}

#[test]
fn step_is_retried_if_the_service_supports_repeats() {
    let (url, seen) = serve_all(|line, before| match (line["op"].as_str(), before) {
        (None, _) => Act::Say(json!({"type": "ready", "protocol": 1, "repeats": true})),
        (Some("step"), 0) => Act::Die,
        _ => echo(line),
    });
    let peer = service(&url, json!({}));
    let generation = on(&*peer, None, "start").unwrap().generation;
    assert_eq!(on(&*peer, Some(generation), "step").unwrap().generation, generation);
    let bodies = seen.bodies.lock().unwrap();
    assert_eq!(bodies[2], bodies[3], "with the same id");
}
