//! Implements a minimal HTTP/1.1 server for API clients: requests and responses with a content length, and keep-alive.

use std::collections::BTreeMap;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub struct Request {
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub query: BTreeMap<String, String>,
    /// Headers, with names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// Response, or the end of the connection without one.
pub enum Response {
    Json(u16, serde_json::Value),
    Text(u16, String),
    Close,
}

/// Handles the requests of one connection until it ends.
pub async fn serve(stream: TcpStream, handler: impl Fn(Request) -> Response) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let (code, kind, body) = match handler(request) {
            Response::Json(code, value) => (code, "application/json", value.to_string()),
            Response::Text(code, text) => (code, "text/plain", text),
            Response::Close => return,
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {code} Answer\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        if stream.write_all((head + &body).as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads the next request; returns `None` if the connection ended.
async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let first = line(stream).await?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
    let mut headers = BTreeMap::new();
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
    }
    let length = headers.get("content-length").map_or(Ok(0), |text| text.parse()).ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { method, path: path.to_string(), query, headers, body })
}

async fn line(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let size = stream.read_line(&mut line).await.ok()?;
    (size > 0).then(|| line.trim_end().to_string())
}

/// Decodes form encoding.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        let (byte, used) = match (first, hex) {
            (b'%', Some(byte)) => (byte, 3),
            (b'+', _) => (b' ', 1),
            (other, _) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
