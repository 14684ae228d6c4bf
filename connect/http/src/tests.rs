//! Requests against a small scripted server.

use crate::{BaseUrl, HttpClient, JsonRequest, RequestLimits};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::{ErrorKind, Secret};

const LIMITS: RequestLimits =
    RequestLimits { requests: 4, attempts: 3, timeout: Duration::from_secs(20), response_bytes: 1000 };

/// Requests that a server received: their heads, and the maximum in flight.
#[derive(Default)]
struct Seen {
    heads: Mutex<Vec<String>>,
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Serves these responses in turn, then the last one repeatedly.
fn serve(answers: Vec<&'static str>, pause: Duration) -> (String, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Seen::default());
    let (shared, next) = (seen.clone(), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, next, answers) = (shared.clone(), next.clone(), answers.clone());
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut head, mut length) = (String::new(), 0);
                while !head.ends_with("\r\n\r\n") {
                    let mut line = String::new();
                    reader.read_line(&mut line).unwrap();
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    head.push_str(&line);
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                seen.heads.lock().unwrap().push(head);
                seen.most.fetch_max(seen.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(pause);
                seen.now.fetch_sub(1, Ordering::SeqCst);
                let number = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
                (&stream).write_all(answers[number].as_bytes()).unwrap();
            });
        }
    });
    (address, seen)
}

fn client(address: &str, key: Option<&str>) -> HttpClient {
    HttpClient::open(BaseUrl::read(address).unwrap(), key.map(Secret::new), LIMITS).unwrap()
}

const GOOD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 8\r\nconnection: close\r\n\r\n{\"a\": 1}";
const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbusy";
const TEXT: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone";
const LONG: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n";

#[test]
fn a_request_is_tried_again_as_often_as_allowed() {
    let (address, seen) = serve(vec![BUSY, BUSY, GOOD], Duration::ZERO);
    assert_eq!(client(&address, None).request(JsonRequest::get("/x")).unwrap(), json!({"a": 1}));
    assert_eq!(seen.heads.lock().unwrap().len(), 3);
    let (address, seen) = serve(vec![BUSY], Duration::ZERO);
    let fault = client(&address, None).request(JsonRequest::post("/x", json!({}))).unwrap_err();
    assert_eq!((fault.status, fault.error.kind), (Some(503), ErrorKind::Retryable));
    assert!(fault.error.message.ends_with("/x answers 503: busy (3 tries)"), "{}", fault.error.message);
    assert_eq!(seen.heads.lock().unwrap().len(), 3);
}

#[test]
fn answers_come_in_order_and_no_more_requests_fly_than_allowed() {
    let (address, seen) = serve(vec![GOOD], Duration::from_millis(20));
    let mut desk = client(&address, Some("sesame"));
    let answers = desk.request_all((0..20).map(|n| JsonRequest::post("/x", json!(n))).collect());
    assert!(answers.len() == 20 && answers.iter().all(Result::is_ok));
    assert!(seen.most.load(Ordering::SeqCst) <= 4);
    assert!(seen.heads.lock().unwrap().iter().all(|head| head.contains("authorization: Bearer sesame\r\n")));

    let held = Arc::new(());
    let ticket = desk.send(JsonRequest::get("/x"), held.clone());
    let (first, answer) = desk.next(Duration::from_secs(20)).unwrap();
    assert!(first == ticket && answer.is_ok() && Arc::strong_count(&held) == 1);
    assert!(desk.next(Duration::ZERO).is_none());
    let ticket = desk.send(JsonRequest::get("/x"), held.clone());
    desk.cancel(ticket);
    drop(desk);
}

#[test]
fn text_is_text_and_too_much_is_refused() {
    let (address, _) = serve(vec![TEXT], Duration::ZERO);
    assert_eq!(client(&address, None).request(JsonRequest::get("/x")).unwrap(), json!("done"));
    let long = format!("{LONG}7d0\r\n{}\r\n0\r\n\r\n", " ".repeat(2000));
    let (address, _) = serve(vec![Box::leak(long.into_boxed_str())], Duration::ZERO);
    let fault = client(&address, None).request(JsonRequest::get("/x")).unwrap_err();
    assert!(fault.error.kind == ErrorKind::Data && fault.error.message.contains("more than 1000 bytes"));
}

#[test]
fn addresses_are_plain() {
    let read = |text: &str| BaseUrl::read(text).map(|address| address.to_string()).map_err(|e| e.message);
    assert_eq!(read("http://h:8000/v1/"), Ok("http://h:8000".into()));
    assert_eq!(read("https://h/below/v1"), Ok("https://h/below".into()));
    assert_eq!(BaseUrl::read("https://h/below/").unwrap().join("/v1/models").as_str(), "https://h/below/v1/models");
    for bad in ["h:8000", "ftp://h", "http://h/?a=1", "nonsense"] {
        assert!(read(bad).is_err(), "{bad}");
    }
    let error = read("http://me:hunter2@h").unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}
