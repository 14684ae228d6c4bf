//! Runs a server in this process that records requests and responds as the test defines.

use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

#[derive(Debug, Clone, PartialEq)]
pub struct RecordedRequest {
    /// Method and path: `GET /api/jobs/`.
    pub line: String,
    /// All header lines, in lower case.
    pub headers: String,
    pub body: String,
}

type ResponseFn = dyn Fn(&RecordedRequest) -> (u16, String) + Send + Sync;

pub struct Server {
    pub address: String,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server that responds to every request with a status and a body.
    pub async fn new(responder: impl Fn(&RecordedRequest) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (requests, responder): (Arc<Mutex<Vec<RecordedRequest>>>, Arc<ResponseFn>) =
            (Arc::default(), Arc::new(responder));
        let log = requests.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, responder.clone(), log.clone()));
            }
        });
        Self { address, requests, task }
    }
    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
    /// Returns method and path of the requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handles one request; then the connection is closed.
async fn serve(mut stream: TcpStream, responder: Arc<ResponseFn>, log: Arc<Mutex<Vec<RecordedRequest>>>) {
    let Some(request) = read(&mut stream).await else { return };
    let (status, body) = responder(&request);
    log.lock().unwrap().push(request);
    let head = format!("HTTP/1.1 {status} Response\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn read(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let (line, headers) = text.split_once("\r\n").unwrap_or((&text, ""));
    let headers = headers.to_lowercase();
    let length = headers.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    while bytes.len() < head + 4 + length.unwrap_or(0) {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = String::from_utf8_lossy(&bytes[head + 4..]).into_owned();
    Some(RecordedRequest { line: line.trim_end_matches(" HTTP/1.1").to_string(), headers, body })
}
