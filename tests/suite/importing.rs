//! `data/import` on typical files: patterns, archives, unnamed formats, broken rows.

use crate::kit::Sandbox;
use serde_json::Value;
use std::io::Write as _;

const IMPORT: &str = r#"
version: 1
name: chats
stages:
  chats:
    uses: data/import
    with: {source: "shards/*.jsonl.zst"}
"#;

fn chat(n: usize) -> String {
    format!(
        "{{\"messages\": [{{\"role\": \"developer\", \"content\": \"s\"}}, \
         {{\"role\": \"user\", \"content\": \"q{n}\"}}, \
         {{\"role\": \"assistant\", \"content\": \"a{n}\"}}]}}\n"
    )
}

fn packed(rows: &str) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(rows.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn rows(s: &Sandbox, query: &str, output: &str) -> Value {
    s.run(&["artifacts", "query", &format!("latest/chats/{output}"), query, "--format", "json"]).code(0).json()["rows"]
        .take()
}

#[test]
fn a_pattern_of_archives_is_imported_and_broken_rows_are_an_output() {
    let s = Sandbox::new();
    let many: String = (0..60).map(chat).collect();
    s.write("shards/1.jsonl.zst", packed(&many));
    s.write("shards/2.jsonl.zst", packed(&format!("{}{{\"messages\": 7}}\n{}", chat(60), chat(61))));
    s.write("shards/3.jsonl", "not matched");
    s.write("chats.yaml", IMPORT);
    s.run(&["run", "chats.yaml"]).code(0).says("trajectories 62").says("quarantined 1");
    assert_eq!(rows(&s, "select count(*), max(tool_calls) from self", "trajectories")[0][0], 62);
    let refused = rows(&s, "select file, line, reason from self", "quarantine");
    assert!(refused[0][0] == "2.jsonl.zst" && refused[0][1] == 2, "{refused}");
    assert!(refused[0][2].as_str().unwrap().contains("not a list"), "{refused}");
    // The source consists of the matching files: another matching file changes the source, any other file does not.
    s.write("shards/4.jsonl", "not matched");
    s.run(&["run", "chats.yaml"]).code(0).says("chats: hit");
    s.write("shards/4.jsonl.zst", packed(&chat(70)));
    s.run(&["run", "chats.yaml"]).code(0).says("trajectories 63");
    s.run(&["run", "chats.yaml"]).code(0).says("chats: hit");
}

#[test]
fn what_cannot_be_imported_is_told_before_or_by_name() {
    let s = Sandbox::new();
    s.write("chats.yaml", IMPORT);
    s.run(&["check", "chats.yaml"]).code(2).says("shards");
    s.write("shards/1.jsonl", chat(1));
    s.run(&["check", "chats.yaml"]).code(2).says("*.jsonl.zst: no file matches");
    s.write("shards/1.jsonl.zst", packed(&format!("{}{{\"messages\": 7}}\n", chat(1))));
    s.run(&["run", "chats.yaml"]).code(1).says("1 of 2 rows cannot be read").says("1.jsonl.zst line 2: ");
    let bytes = packed(&(0..9_000).map(chat).collect::<String>());
    s.write("shards/1.jsonl.zst", &bytes[..bytes.len() / 2]);
    s.run(&["run", "chats.yaml"]).code(1).says("1.jsonl.zst is cut off or corrupt");
    s.write("shards/1.jsonl.zst", packed("{\"words\": 1}\n"));
    s.run(&["run", "chats.yaml"]).code(1).says("the columns of these rows: words");
}
