//! Artifacts published before a fault must survive it: the same bytes, and no recomputation.

use crate::kit::Sandbox;
use std::collections::BTreeMap;

const BEFORE: &str = r#"
version: 1
name: before
stages:
  words:
    run: printf before > ${{ outputs.o }}/words
    outputs: {o: {kind: files}}
  problems:
    uses: data/import
    with: {source: before.jsonl, format: gsm8k}
"#;

/// The files of one run, and a table.
pub struct Published {
    run: String,
    files: BTreeMap<String, Vec<u8>>,
}

/// Runs a small file and records its published artifacts.
pub fn publish(s: &Sandbox) -> Published {
    s.write("before.yaml", BEFORE);
    s.write("before.jsonl", "{\"question\": \"What was there before?\", \"answer\": \"1+1 = <<1+1=2>>2\\n#### 2\"}\n");
    s.run(&["run", "before.yaml"]).code(0);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let run = shown["run"].as_str().unwrap().to_string();
    let files = exported(s, &run);
    assert_eq!(files.len(), 2, "{:?}", files.keys());
    Published { run, files }
}

/// Asserts that the artifacts are unchanged.
#[track_caller]
pub fn readable(s: &Sandbox, before: &Published) {
    assert!(exported(s, &before.run) == before.files, "published artifacts have changed");
    let plan = s.run(&["plan", "before.yaml", "--format", "json"]).code(0).json();
    for stage in plan["stages"].as_array().unwrap() {
        assert_eq!(stage["decision"], "hit", "{plan}");
    }
}

/// Asserts that the artifacts are unchanged and that a new run reuses them.
#[track_caller]
pub fn intact(s: &Sandbox, before: &Published) {
    readable(s, before);
    all_hits(s, "before.yaml");
}

/// Runs a file whose stages are all published and asserts that all are hits.
#[track_caller]
pub fn all_hits(s: &Sandbox, file: &str) {
    let ran = s.run(&["run", file, "--format", "json"]).code(0).json();
    let stages = ran["run"]["stages"].as_array().unwrap();
    assert!(!stages.is_empty(), "{ran}");
    for stage in stages {
        assert_eq!(stage["status"], "hit", "{stage}");
    }
}

/// Returns the bytes of all files of the run's artifacts, by artifact and file.
fn exported(s: &Sandbox, run: &str) -> BTreeMap<String, Vec<u8>> {
    let _ = std::fs::remove_dir_all(s.path("exported"));
    for artifact in ["words/o", "problems/problems"] {
        s.run(&["artifacts", "export", &format!("{run}/{artifact}"), &format!("exported/{artifact}")]).code(0);
    }
    let read = |name: String| (name.clone(), std::fs::read(s.path("exported").join(name)).unwrap());
    s.files("exported").into_iter().map(read).collect()
}
