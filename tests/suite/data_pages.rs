//! Pages of data, served by `trainyard pages`: rows by a condition, SQL in its process, rules of a filter, lineage.

use crate::kit::Sandbox;
use crate::processes::Killed;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

const WORKFLOW: &str = r#"
version: 1
name: chats
stages:
  chats:
    uses: data/import
    with: {source: chats.jsonl}
  kept:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      rules: [near_duplicates, {kind: expression, keep: "answer <> 'a1'"}]
"#;

/// A page server that stops with the test.
struct Pages {
    _process: Killed,
    port: u16,
    token: String,
}

impl Pages {
    fn start(s: &Sandbox) -> Self {
        let args = ["pages", "--pages-bind", "127.0.0.1:0"];
        let mut child = s.command(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.contains("?token="))).expect("it says where");
        std::thread::spawn(move || lines.for_each(drop));
        let (address, token) = line.split_once("?token=").unwrap();
        let port = address.rsplit_once(':').unwrap().1.trim_end_matches('/').parse().unwrap();
        Self { _process: Killed(child), port, token: token.trim().to_string() }
    }
    /// Returns the HTML of a page.
    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let (port, token) = (self.port, &self.token);
        let head = format!("host: 127.0.0.1:{port}\r\nauthorization: Bearer {token}\r\nconnection: close");
        write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8(answer).expect("pages are not compressed unless the request says so");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }
}

fn chat(n: usize) -> String {
    let words: Vec<String> = (0..200).map(|word| format!("w{}", word * (1 + n / 4))).collect();
    format!(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{} end{n}\"}}, \
         {{\"role\": \"assistant\", \"content\": \"a{}\"}}]}}\n",
        words.join(" "),
        n / 4
    )
}

/// Runs a filter of twelve chats, of which four each differ in one word.
fn finished() -> (Sandbox, String) {
    let s = Sandbox::new();
    s.write("chats.jsonl", (0..12).map(chat).collect::<String>());
    s.write("chats.yaml", WORKFLOW);
    s.run(&["run", "chats.yaml"]).code(0);
    let shown = s.run(&["artifacts", "show", "latest/kept/kept", "--format", "json"]).code(0).json();
    let digest = shown["stage_digest"].as_str().unwrap().to_string();
    (s, digest)
}

#[test]
fn a_row_of_a_filter_is_found_and_followed_to_its_file() {
    let (s, digest) = finished();
    let pages = Pages::start(&s);
    let list = pages.page("/artifacts");
    assert!(list.contains(&format!("artifacts/{digest}/kept")), "{list}");
    let rows = pages.page(&format!("/artifacts/{digest}/kept/rows?where=answer+%3D+%27a2%27"));
    assert!(rows.contains("1 of 2 rows match"), "{rows}");
    let mistake = pages.page(&format!("/artifacts/{digest}/kept/rows?where=nothing+%3D+1"));
    assert!(mistake.contains("nothing") && mistake.contains("class=\"failure\""), "{mistake}");
    let lineage = pages.page(&format!("/artifacts/{digest}/kept/lineage?row=1"));
    assert!(lineage.contains("read from") && lineage.contains("chats.jsonl:9"), "{lineage}");
}

#[test]
fn rules_and_near_duplicates_of_a_filter_are_shown() {
    let (s, digest) = finished();
    let html = Pages::start(&s).page(&format!("/artifacts/{digest}/rejected/verdicts"));
    assert!(html.contains("2 of 12 rows were kept."), "{html}");
    assert!(html.contains("near_duplicates drops 9 of 12; expression drops 1 of 3"), "{html}");
    assert!(html.contains("<del>end1</del>") && html.contains("<ins>end0</ins>"), "{html}");
    assert!(html.contains("more rejected rows"), "nine pairs are more than a page: {html}");
}

#[test]
fn statements_run_in_their_process() {
    let (s, digest) = finished();
    let pages = Pages::start(&s);
    let query = |sql: &str| pages.page(&format!("/artifacts/{digest}/kept/query?sql={}", sql.replace(' ', "+")));
    let html = query("select answer, count(*) as n from self group by answer");
    assert!(html.contains(">a0</td>") && html.contains(">a2</td>") && html.contains("2 rows"), "{html}");
    let refused = query("delete from self");
    assert!(refused.contains("class=\"failure\"") && refused.contains("--timeout 5m"), "{refused}");
}
