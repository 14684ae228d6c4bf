//! Implements HTTP/1.1 to the extent that one client needs.

use crate::dialects;
use crate::fault::MockServerFault;
use crate::state::{MockServerState, lock};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// Reads one request and sends the response.
pub fn serve(stream: TcpStream, state: &MockServerState) {
    // A closed connection is no fault of the server.
    let _ = handle(stream, state);
}

fn handle(mut stream: TcpStream, state: &MockServerState) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let path = first.split_whitespace().nth(1).unwrap_or_default().to_string();
    let (mut length, mut key) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "authorization" => key = value.trim().strip_prefix("Bearer ").map(str::to_string),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    lock(&state.requests).push((path.clone(), body.clone()));
    let allowed = state.options.key.is_none() || state.options.key == key;
    let (status, value) = if allowed {
        dialects::respond(state, &path, &body)
    } else {
        (401, json!({"error": {"message": format!("the key `{}` is wrong", key.unwrap_or_default())}}))
    };
    let mut faults = lock(&state.faults);
    let position = faults.iter().position(|(of, _)| path.starts_with(of.as_str()));
    let fault = position.map(|position| faults.remove(position).1);
    drop(faults);
    send(&mut stream, fault, status, value)
}

fn send(stream: &mut TcpStream, fault: Option<MockServerFault>, status: u16, mut value: Value) -> std::io::Result<()> {
    match fault {
        None => write(stream, status, &[], value.to_string().as_bytes()),
        Some(MockServerFault::Status(status, headers, body)) => write(stream, status, &headers, body.as_bytes()),
        Some(MockServerFault::Close) => Ok(()),
        Some(MockServerFault::Cut) => {
            let text = value.to_string();
            stream.write_all(&head(status, &[], text.len()))?;
            stream.write_all(&text.as_bytes()[..text.len() / 2])
        }
        Some(MockServerFault::Half) => {
            let text = value.to_string();
            write(stream, status, &[], &text.as_bytes()[..text.len() / 2])
        }
        Some(MockServerFault::Drip(pause)) => {
            let text = value.to_string();
            stream.write_all(&head(status, &[], text.len()))?;
            for part in text.as_bytes().chunks(100) {
                std::thread::sleep(pause);
                stream.write_all(part)?;
                stream.flush()?;
            }
            Ok(())
        }
        Some(MockServerFault::Late(silence)) => {
            std::thread::sleep(silence);
            write(stream, status, &[], value.to_string().as_bytes())
        }
        Some(MockServerFault::Text(text)) => write(stream, status, &[], text.as_bytes()),
        Some(MockServerFault::Edit(change)) => {
            change(&mut value);
            write(stream, status, &[], value.to_string().as_bytes())
        }
    }
}

fn head(status: u16, headers: &[(&str, &str)], length: usize) -> Vec<u8> {
    let extra: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n{extra}\r\n"
    )
    .into_bytes()
}

fn write(stream: &mut TcpStream, status: u16, headers: &[(&str, &str)], body: &[u8]) -> std::io::Result<()> {
    stream.write_all(&head(status, headers, body.len()))?;
    stream.write_all(body)
}
