//! Tests requests against a small scripted server.

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
struct Received {
    heads: Mutex<Vec<String>>,
    now: AtomicUsize,
    max: AtomicUsize,
}

/// Serves these responses in turn, then the last one repeatedly.
fn serve(responses: Vec<&'static str>, pause: Duration) -> (String, Arc<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received = Arc::new(Received::default());
    let (shared, next) = (received.clone(), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (received, next, responses) = (shared.clone(), next.clone(), responses.clone());
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
                received.heads.lock().unwrap().push(head);
                received.max.fetch_max(received.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(pause);
                received.now.fetch_sub(1, Ordering::SeqCst);
                let number = next.fetch_add(1, Ordering::SeqCst).min(responses.len() - 1);
                (&stream).write_all(responses[number].as_bytes()).unwrap();
            });
        }
    });
    (address, received)
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
fn request_is_retried_up_to_limit() {
    let (address, received) = serve(vec![BUSY, BUSY, GOOD], Duration::ZERO);
    assert_eq!(client(&address, None).request(JsonRequest::get("/x")).unwrap(), json!({"a": 1}));
    assert_eq!(received.heads.lock().unwrap().len(), 3);
    let (address, received) = serve(vec![BUSY], Duration::ZERO);
    let fault = client(&address, None).request(JsonRequest::post("/x", json!({}))).unwrap_err();
    assert_eq!((fault.status, fault.error.kind), (Some(503), ErrorKind::Retryable));
    assert!(fault.error.message.ends_with("/x returned status 503: busy (3 attempts)"), "{}", fault.error.message);
    assert_eq!(received.heads.lock().unwrap().len(), 3);
}

#[test]
fn responses_keep_order_within_concurrency_limit() {
    let (address, received) = serve(vec![GOOD], Duration::from_millis(20));
    let mut http = client(&address, Some("sesame"));
    let responses = http.request_all((0..20).map(|n| JsonRequest::post("/x", json!(n))).collect());
    assert!(responses.len() == 20 && responses.iter().all(Result::is_ok));
    assert!(received.max.load(Ordering::SeqCst) <= 4);
    assert!(received.heads.lock().unwrap().iter().all(|head| head.contains("authorization: Bearer sesame\r\n")));

    let guard = Arc::new(());
    let id = http.send(JsonRequest::get("/x"), guard.clone());
    let (first, response) = http.next(Duration::from_secs(20)).unwrap();
    assert!(first == id && response.is_ok() && Arc::strong_count(&guard) == 1);
    assert!(http.next(Duration::ZERO).is_none());
    let id = http.send(JsonRequest::get("/x"), guard.clone());
    http.cancel(id);
    drop(http);
}

#[test]
fn text_is_returned_and_oversized_response_is_reported() {
    let (address, _) = serve(vec![TEXT], Duration::ZERO);
    assert_eq!(client(&address, None).request(JsonRequest::get("/x")).unwrap(), json!("done"));
    let long = format!("{LONG}7d0\r\n{}\r\n0\r\n\r\n", " ".repeat(2000));
    let (address, _) = serve(vec![Box::leak(long.into_boxed_str())], Duration::ZERO);
    let fault = client(&address, None).request(JsonRequest::get("/x")).unwrap_err();
    assert!(fault.error.kind == ErrorKind::Data && fault.error.message.contains("more than 1000 bytes"));
}

#[test]
fn base_url_is_normalized_and_validated() {
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
