//! Hostile requests to `serve` and `serve-model`: each gets the expected status, and both servers continue within a
//! bound of memory.

use crate::hostile::table::{Case, cases, expand};
use crate::hostile::{MEMORY, assert_none, peak_memory};
use crate::kit::{Sandbox, wait_for};
use crate::serve::{Daemon, ask, free_port};
use crate::serve_model::{Served, made};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Maximum seconds without a byte of the response.
const SECONDS: u64 = 30;

/// Words of the table for one server.
struct Words {
    kind: &'static str,
    list: &'static str,
    change: &'static str,
    body: &'static str,
}

const API: Words = Words { kind: "api", list: "/api/v1/runs", change: "/api/v1/schedules/nightly/pause", body: "{}" };
const MODEL: Words = Words {
    kind: "model",
    list: "/v1/models",
    change: "/v1/chat/completions",
    body: "{\"max_tokens\": 2, \"messages\": [{\"role\": \"user\", \"content\": \"2+2?\"}]}",
};

fn table(server: &Words) -> Vec<Case> {
    let all = cases(include_str!("hostile/http.txt"));
    all.into_iter().filter(|case| [server.kind, "both"].contains(&case.fields[0])).collect()
}

pub fn count() -> usize {
    table(&API).len() + table(&MODEL).len()
}

/// Returns the bytes of a request.
fn request(case: &Case, server: &Words) -> Vec<u8> {
    let text = case.content.replace("LIST", server.list).replace("CHANGE", server.change).replace("BODY", server.body);
    if case.fields[1] == "raw" {
        return expand(text.trim_end_matches('\n'));
    }
    let (head, body) = text.split_once("\n\n").unwrap_or_else(|| panic!("{} has no empty line", case.name));
    let body = expand(body);
    let head = String::from_utf8(expand(head)).unwrap().replace("LENGTH", &body.len().to_string());
    [head.replace('\n', "\r\n").as_bytes(), b"\r\n\r\n", &body].concat()
}

/// Sends a request; returns the response as far as it arrives. Errors: no byte in time.
fn send(port: u16, bytes: &[u8], ends: bool) -> Result<String, String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(SECONDS))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(SECONDS))).unwrap();
    // The server may refuse the request before its end.
    let _ = stream.write_all(bytes);
    if ends {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (mut response, mut part) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => response.extend_from_slice(&part[..length]),
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {
                return Err(format!("no byte for {SECONDS} s"));
            }
            Err(_) => break,
        }
    }
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// Sends all requests of a server.
fn attack(port: u16, server: &Words) {
    let mut failures = Vec::new();
    for case in table(server) {
        let response = send(port, &request(&case, server), case.fields[1] != "text");
        let response = response.unwrap_or_else(|error| error);
        let status = response.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)?.parse().ok()).unwrap_or(0);
        let is_expected = match case.code {
            0 => response.is_empty(),
            431 => status == 431 || response.is_empty(),
            code => status == code && response.contains(case.words),
        };
        if !is_expected || response.to_lowercase().contains("access-control-allow-origin") {
            let start: String = response.chars().take(400).collect();
            failures.push(format!("{}: not {} with `{}`: {start}", case.name, case.code, case.words));
        }
    }
    assert_none(&failures);
}

#[test]
fn api_refuses_hostile_requests_and_goes_on() {
    let s = Sandbox::new();
    let yearly = "version: 1\nname: nightly\nschedule: {cron: \"0 0 1 1 *\"}\nstages:\n  one: {uses: noop}\n";
    s.write("workflows/nightly.yaml", yearly);
    // A run, so that lists have an entry.
    s.run(&["run", "workflows/nightly.yaml"]).code(0);
    let port = free_port();
    let daemon = Daemon::guarded(&s, &["--bind", &format!("127.0.0.1:{port}"), "--no-token"]);
    wait_for("the API", 60, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    wait_for("the schedule", 60, || ask(port, "GET", "/schedules/nightly", "").0 == 200);
    attack(port, &API);
    assert_eq!(ask(port, "GET", "/health", "").0, 200);
    assert!(peak_memory(daemon.0.id()) < MEMORY);
}

#[test]
fn model_server_refuses_hostile_requests_and_goes_on() {
    let s = made();
    let served = Served::start(&s, &[]);
    attack(served.port, &MODEL);
    let plain = table(&MODEL).into_iter().find(|case| case.name == "a plain body").unwrap();
    let response = send(served.port, &request(&plain, &MODEL), false).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(peak_memory(served.child.id()) < MEMORY);
}
