//! Tests the server over real connections.

use super::{
    BodyError, RequestDenial, RequestPolicy, ServerLimits, admit, bind, is_stalled, read_body, same_digest, serve,
};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use trainyard_core::Digest;

const OPEN: RequestPolicy = RequestPolicy {
    protected: false,
    credential: "key",
    x_api_key: true,
    target_host: false,
    help_unprotected: "set a key",
    help_unbound: "choose another address",
};
const PROTECTED: RequestPolicy = RequestPolicy { protected: true, ..OPEN };
/// Timeout of every operation in these tests.
const SOON: Duration = Duration::from_secs(20);
const GET: &str = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Limits that a test can wait for.
fn short() -> ServerLimits {
    ServerLimits { head: Duration::from_secs(1), body: Duration::from_secs(1), ..ServerLimits::default() }
}

struct Server {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
}

async fn guard(State(policy): State<RequestPolicy>, request: Request, next: Next) -> Response {
    let find = |key: &str| same_digest(&Digest::of(key.as_bytes()), &Digest::of(b"k")).then_some(());
    match admit(&policy, request.headers(), request.uri(), find) {
        Ok(_) => next.run(request).await,
        Err(RequestDenial::NoCredential) => StatusCode::UNAUTHORIZED.into_response(),
        Err(RequestDenial::OtherHost | RequestDenial::OtherOrigin) => StatusCode::FORBIDDEN.into_response(),
    }
}

async fn repeat(request: Request) -> Response {
    match read_body(request.into_body(), 100, SOON).await {
        Ok(bytes) => bytes.into_response(),
        Err(BodyError::TooLarge) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        Err(BodyError::Broken(error)) if !is_stalled(&error) => StatusCode::BAD_REQUEST.into_response(),
        Err(BodyError::Late | BodyError::Broken(_)) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

async fn slow() -> &'static str {
    sleep(Duration::from_millis(500)).await;
    "slow"
}

async fn start(policy: RequestPolicy, limits: ServerLimits) -> Server {
    let listener = bind("127.0.0.1:0".parse().unwrap(), &policy).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/slow", get(slow))
        .route("/repeat", post(repeat))
        .layer(from_fn_with_state(policy, guard));
    let (stop, stopped) = oneshot::channel();
    let stopped = async move {
        let _ = stopped.await;
    };
    let ended = tokio::spawn(serve(listener, router, limits, "{\"busy\":true}".to_string(), stopped));
    Server { address, stop, ended }
}

impl Server {
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
    /// Sends a request without closing the connection afterwards; returns the status.
    async fn request_status(&self, text: &str) -> u16 {
        status(&response(&mut self.send(text).await).await)
    }
}

/// Reads once, which suffices for a small response.
async fn response(stream: &mut TcpStream) -> String {
    let mut bytes = [0; 4096];
    let count = timeout(SOON, stream.read(&mut bytes)).await.unwrap().unwrap();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    timeout(SOON, stream.read_to_string(&mut text)).await.expect("the connection is closed").unwrap();
    text
}

fn status(response: &str) -> u16 {
    response.split(' ').nth(1).unwrap_or("0").parse().unwrap()
}

#[tokio::test]
async fn connection_serves_several_requests() {
    let server = start(OPEN, ServerLimits::default()).await;
    let mut stream = server.send(GET).await;
    let first = response(&mut stream).await;
    assert!(status(&first) == 200 && first.ends_with("hello"), "{first}");
    stream.write_all(b"POST /repeat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
    let second = response(&mut stream).await;
    assert!(status(&second) == 200 && second.ends_with("abc"), "{second}");
    let large = format!("POST /repeat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 300\r\n\r\n{}", "x".repeat(300));
    assert_eq!(server.request_status(&large).await, 413);
}

#[tokio::test]
async fn incomplete_head_times_out() {
    let server = start(OPEN, short()).await;
    for text in ["", "GET / HTTP/1.1\r\nhost: local"] {
        assert_eq!(rest(&mut server.send(text).await).await, "");
    }
    assert_eq!(server.request_status(GET).await, 200);
}

#[tokio::test]
async fn incomplete_body_times_out() {
    let server = start(OPEN, short()).await;
    let head = "POST /repeat HTTP/1.1\r\nhost: localhost\r\ncontent-length: 6\r\n\r\n";
    assert_eq!(status(&rest(&mut server.send(&format!("{head}abc")).await).await), 408);
    // Slow, but it makes progress: longer than the limit in total.
    let mut stream = server.send(head).await;
    for byte in [b"a", b"b", b"c", b"d", b"e", b"f"] {
        sleep(Duration::from_millis(250)).await;
        stream.write_all(byte).await.unwrap();
    }
    assert_eq!(status(&response(&mut stream).await), 200);
}

#[tokio::test]
async fn connection_above_limit_is_refused() {
    let server = start(OPEN, ServerLimits { connections: 2, ..ServerLimits::default() }).await;
    let (first, _second) = (server.send("").await, server.send("").await);
    let refusal = rest(&mut server.send(GET).await).await;
    assert_eq!(status(&refusal), 503);
    assert!(refusal.contains("retry-after: 1\r\n") && refusal.ends_with("{\"busy\":true}"), "{refusal}");
    assert_eq!(status(&rest(&mut server.send("").await).await), 503, "a client that sends nothing");
    drop(first);
    let freed = async { while server.request_status(GET).await != 200 {} };
    timeout(SOON, freed).await.unwrap();
}

#[tokio::test]
async fn other_hosts_and_origins_are_refused() {
    let server = start(OPEN, ServerLimits::default()).await;
    assert_eq!(server.request_status(&GET.replace("localhost", "evil.example")).await, 403);
    assert_eq!(server.request_status(&GET.replace("\r\n\r\n", "\r\norigin: http://evil.example\r\n\r\n")).await, 403);
    assert_eq!(server.request_status(&GET.replace("\r\n\r\n", "\r\norigin: http://localhost:3000\r\n\r\n")).await, 200);
    let open = bind("0.0.0.0:0".parse().unwrap(), &OPEN).await.unwrap_err();
    assert!(open.message.contains("the server requires no key"), "{}", open.message);
    let taken = bind(server.address, &OPEN).await.unwrap_err();
    assert!(taken.message.contains("cannot listen on"), "{}", taken.message);
}

#[tokio::test]
async fn wrong_key_is_refused() {
    let server = start(PROTECTED, ServerLimits::default()).await;
    assert_eq!(server.request_status(GET).await, 401);
    let wrong = [("authorization: Bearer x", 401), ("authorization: k", 401), ("x-api-key: kk", 401)];
    let right = [("authorization: Bearer k", 200), ("x-api-key: k", 200)];
    for (header, expected) in wrong.into_iter().chain(right) {
        assert_eq!(
            server.request_status(&GET.replace("\r\n\r\n", &format!("\r\n{header}\r\n\r\n"))).await,
            expected,
            "{header}"
        );
    }
}

#[tokio::test]
async fn shutdown_completes_current_requests() {
    let server = start(OPEN, ServerLimits::default()).await;
    let _unused = server.send("").await;
    let mut stream = server.send(&GET.replace("/ ", "/slow ")).await;
    sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    assert!(rest(&mut stream).await.ends_with("slow"));
    timeout(SOON, server.ended).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}
