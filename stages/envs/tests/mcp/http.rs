//! Tests MCP servers at a URL, against a small service with the transport "streamable HTTP".

use super::{call, play, with_tool};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use trainyard_core::ErrorKind;
use trainyard_envs::ToolHost;
use trainyard_tables::EpisodeStatus;

/// State of the service: a count for each session, and the received messages.
#[derive(Default)]
struct Memory {
    counts: BTreeMap<String, u32>,
    opened: u32,
    deleted: Vec<String>,
    /// Drops all sessions before this call.
    forget_at: Option<u32>,
    calls: u32,
}

/// Starts a service. With `streams`, its responses are streams of events that stay open.
fn serve(streams: bool, forget_at: Option<u32>) -> (String, Arc<Mutex<Memory>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let memory = Arc::new(Mutex::new(Memory { forget_at, ..Memory::default() }));
    let shared = Arc::clone(&memory);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let memory = Arc::clone(&shared);
            std::thread::spawn(move || answer(stream, &memory, streams));
        }
    });
    (url, memory)
}

fn answer(stream: TcpStream, memory: &Mutex<Memory>, streams: bool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let lower = head.to_lowercase();
    let header = |name: &str| lower.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let session = header("mcp-session-id").unwrap_or_default().to_string();
    let say = |text: String| (&stream).write_all(text.as_bytes()).unwrap_or_default();
    if head.starts_with("DELETE") {
        memory.lock().unwrap().deleted.push(session);
        return say("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n".into());
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    let result = respond(&message, &session, &mut memory.lock().unwrap());
    let Some(id) = message.get("id") else {
        return say("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into());
    };
    let Ok((result, opened)) = result else {
        return say("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into());
    };
    assert!(message["method"] == "initialize" || header("mcp-protocol-version") == Some("2025-06-18"), "{head}");
    let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let opened = opened.map(|session| format!("Mcp-Session-Id: {session}\r\n")).unwrap_or_default();
    if streams {
        say(format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{opened}\r\n: hi\n\ndata: {text}\n\n"));
        // The client has received its response and does not wait for the end of the stream.
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
    let length = text.len();
    say(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{opened}content-length: {length}\r\n\
        connection: close\r\n\r\n{text}"
    ));
}

/// Returns the result, and the session that was opened; an error for an unknown session.
fn respond(message: &Value, session: &str, memory: &mut Memory) -> Result<(Value, Option<String>), ()> {
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            memory.opened += 1;
            let session = format!("s{}", memory.opened);
            memory.counts.insert(session.clone(), 0);
            Ok((json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}), Some(session)))
        }
        "tools/list" => {
            Ok((json!({"tools": [{"name": "count", "inputSchema": {"type": "object", "properties": {}}}]}), None))
        }
        "tools/call" => {
            memory.calls += 1;
            if memory.forget_at == Some(memory.calls) {
                memory.counts.clear();
            }
            let count = memory.counts.get_mut(session).ok_or(())?;
            *count += 1;
            Ok((json!({"content": [{"type": "text", "text": count.to_string()}]}), None))
        }
        _ => Ok((Value::Null, None)),
    }
}

#[test]
fn every_episode_has_a_session_of_the_service() {
    for streams in [false, true] {
        let (url, memory) = serve(streams, None);
        let environment = with_tool(json!({"kind": "mcp", "url": url}), &ToolHost::new(1)).unwrap();
        for _ in 0..2 {
            let (read, outcome) = play(&*environment, &[call("count", "") + &call("count", ""), "1".into()]);
            assert_eq!((read, outcome.unwrap().status), (vec!["1".to_string(), "2".into()], EpisodeStatus::Ok));
        }
        let memory = memory.lock().unwrap();
        assert_eq!(memory.opened, 3, "one session listed the tools");
    }
}

#[test]
fn forgotten_session_is_rebuilt() {
    let (url, memory) = serve(false, Some(3));
    let environment = with_tool(json!({"kind": "mcp", "url": url}), &ToolHost::new(1)).unwrap();
    let turns = [call("count", ""), call("count", ""), call("count", ""), "1".into()];
    let (read, outcome) = play(&*environment, &turns);
    assert_eq!((read, outcome.unwrap().status), (vec!["1".to_string(), "2".into(), "3".into()], EpisodeStatus::Ok));
    assert_eq!(memory.lock().unwrap().opened, 3);
}

#[test]
fn all_episodes_may_share_a_session() {
    let (url, memory) = serve(true, None);
    let options = json!({"kind": "mcp", "url": url, "session": "shared"});
    let environment = with_tool(options, &ToolHost::new(1)).unwrap();
    for count in ["1", "2"] {
        assert_eq!(play(&*environment, &[call("count", ""), "1".into()]).0, [count]);
    }
    assert_eq!(memory.lock().unwrap().opened, 1);
}

#[test]
fn invalid_service_is_rejected() {
    let build = |url: &str| with_tool(json!({"kind": "mcp", "url": url}), &ToolHost::new(1)).err().unwrap();
    let (url, _) = serve(false, None);
    let gone = build(&url.replace("http:", "https:"));
    assert_eq!(gone.kind, ErrorKind::Retryable, "{gone}");
    let key = json!({"kind": "mcp", "url": url, "api_key": {"secret": "KEY"}});
    let error = with_tool(key, &ToolHost::new(1)).err().unwrap();
    assert!(error.message.contains("`KEY`"), "{error}");
}
