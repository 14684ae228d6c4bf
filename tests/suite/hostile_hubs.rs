//! Hostile hubs: lists of files that leave the cache, downloads of other sizes and contents, responses without end.

use crate::hostile::{assert_none, bounded_command, message};
use crate::kit::Sandbox;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const ROW: &str = "{\"question\": \"1+1?\", \"answer\": \"#### 2\"}\n";

/// Response to the download of a file.
#[derive(Clone, Copy)]
enum Download {
    /// Rows.
    Good,
    Status(u16),
    /// An ETag of another content.
    OtherTag,
    /// Bytes until the client ends the connection.
    Endless,
    /// A redirection to the same path.
    Loop,
}

/// Name, entries of the list of files, download, words of the error; no words where the import succeeds.
type Case = (&'static str, fn() -> String, Download, Option<&'static str>);

const CASES: &[Case] = &[
    ("a good hub", || listed("train.jsonl", ROW.len()), Download::Good, None),
    ("a name that leaves", || listed("../../../train.jsonl", ROW.len()), Download::Good, Some("unsafe name")),
    ("dots within a name", || listed("a/../../train.jsonl", ROW.len()), Download::Good, Some("unsafe name")),
    ("an absolute name", || listed("/tmp/train.jsonl", ROW.len()), Download::Good, Some("unsafe name")),
    (
        "a commit that leaves",
        || list("../../../../tmp/x", "train.jsonl", 4),
        Download::Good,
        Some("instead of a commit"),
    ),
    ("a list that is no JSON", || "<html>".into(), Download::Good, Some("cannot be parsed")),
    ("a nested list", || "[".repeat(1_000_000), Download::Good, Some("cannot be parsed")),
    ("a list without files", || "{\"sha\": 3}".into(), Download::Good, Some("cannot be parsed")),
    ("fewer bytes than listed", || listed("train.jsonl", 4_000), Download::Good, Some("bytes came of 4000")),
    ("more bytes than listed", || listed("train.jsonl", 4), Download::Good, Some("more than the 4 listed bytes")),
    ("bytes without end", || listed("train.jsonl", 4), Download::Endless, Some("more than the 4 listed bytes")),
    ("another content", || listed("train.jsonl", ROW.len()), Download::OtherTag, Some("the ETag of the download")),
    ("a failure", || listed("train.jsonl", ROW.len()), Download::Status(500), Some("500")),
    ("no access", || listed("train.jsonl", ROW.len()), Download::Status(403), Some("no access")),
    ("redirections without end", || listed("train.jsonl", ROW.len()), Download::Loop, Some("hf://datasets/o/n")),
];

pub fn count() -> usize {
    CASES.len()
}

fn listed(name: &str, size: usize) -> String {
    list(COMMIT, name, size)
}

fn list(commit: &str, name: &str, size: usize) -> String {
    let file = serde_json::json!({"rfilename": name, "size": size, "blobId": COMMIT});
    serde_json::json!({"sha": commit, "siblings": [file]}).to_string()
}

/// Serves a hub on loopback; returns its address.
fn serve(listing: String, download: Download) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The client may have left.
            let _ = respond(&stream, &listing, download);
        }
    });
    endpoint
}

fn respond(mut stream: &TcpStream, listing: &str, download: Download) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let first = lines.next().unwrap_or_default();
    let path = first.split(' ').nth(1).unwrap_or("/").to_string();
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let (status, head, body) = match download {
        _ if path.starts_with("/api/") => (200, String::new(), listing),
        Download::Good => (200, format!("etag: \"{COMMIT}\"\r\n"), ROW),
        Download::OtherTag => (200, format!("etag: \"{}\"\r\n", "f".repeat(40)), ROW),
        Download::Status(status) => (status, String::new(), ""),
        Download::Loop => (302, format!("location: {path}\r\n"), ""),
        Download::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
            loop {
                stream.write_all(&[b' '; 1 << 16])?;
            }
        }
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{head}connection: close\r\n\r\n{body}")
}

#[test]
fn hostile_hubs_are_named_and_leave_nothing_behind() {
    let mut failures = Vec::new();
    for (name, listing, download, words) in CASES {
        let s = Sandbox::new();
        s.write(
            "x.yaml",
            "version: 1\nname: x\nstages:\n  a:\n    uses: data/import\n    retry: {attempts: 1}\n    \
             with: {source: \"hf://datasets/o/n\", format: gsm8k}\n",
        );
        let mut command = s.command(&["run", "x.yaml"]);
        command.env("HF_ENDPOINT", serve(listing(), *download)).env("HF_HUB_CACHE", s.path("cache/hub"));
        command.env("HF_HUB_OFFLINE", "0").env_remove("HF_TOKEN");
        let ran = bounded_command(name, command);
        let said = message(&ran);
        let is_expected = match words {
            None => ran.code == 0,
            Some(words) => [1, 2].contains(&ran.code) && said.contains(words),
        };
        let outside = s.files(".").iter().any(|file| file.ends_with("train.jsonl") && !file.starts_with("cache/hub/"));
        let stored = words.is_some() && s.files("cache").iter().any(|file| file.ends_with("train.jsonl"));
        if !is_expected || outside || stored || said.contains("panicked") {
            failures.push(format!("{name}: exit code {}, stored {stored}, outside {outside}: {said}", ran.code));
        }
    }
    assert_none(&failures);
}
