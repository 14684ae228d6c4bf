//! Tests that imported rows name the file and the line from which they were read.

use crate::import::format::{ImportContext, ImportedRows};
use crate::import::registry::names;
use crate::import::tests::read_file;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use tempfile::TempDir;
use trainyard_tables::{Problem, TableBuilder, Trajectory};

fn context() -> ImportContext {
    ImportContext { name: "x".into(), split: "train".into(), ..ImportContext::default() }
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

fn read(format: &str, source: &Path) -> ImportedRows {
    read_file(format, source, &context()).unwrap()
}

/// Returns the parents of all rows of one file, output by output.
fn parents(format: &str, name: &str, content: &[u8]) -> Vec<Vec<String>> {
    let folder = folder(&[(name, content.to_vec())]);
    of(read(format, &folder.path().join(name)))
}

fn of(rows: ImportedRows) -> Vec<Vec<String>> {
    let problems = rows.problems.into_iter().map(|row| row.parents);
    let trajectories = rows.trajectories.into_iter().chain(rows.preferences).map(|row| row.parents);
    problems.chain(trajectories).chain(rows.solutions.into_iter().map(|row| row.parents)).collect()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a row of every format, by its name.
fn rows() -> Vec<(&'static str, Value)> {
    let user = json!([{"role": "user", "content": "q"}]);
    let chat = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]);
    let instructions = json!({"task_instructions": ".", "domain": "retail", "reason_for_call": "You want help.",
        "known_info": null, "unknown_info": null});
    vec![
        ("alpaca", json!({"instruction": "q", "output": "a"})),
        ("gsm8k", json!({"question": "q", "answer": "a\n#### 1"})),
        (
            "gsm8k_solutions",
            json!({"question": "q", "ground_truth": "A: 1", "s": {"is_correct": true, "solution": "A: 1"}}),
        ),
        ("jsonl", json!({"question": "q", "answer": "1"})),
        ("openai", json!({"messages": chat})),
        ("preferences", json!({"prompt": "q", "chosen": "a", "rejected": "b"})),
        ("sharegpt", json!({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})),
        (
            "tau2",
            json!({"id": "0", "user_scenario": {"instructions": instructions}, "evaluation_criteria": {"actions": []}}),
        ),
        ("toolrl", json!({"prompt": user, "reward_model": {"ground_truth": "<response> a </response>"}})),
        ("trl", json!({"prompt": "q", "completion": "a"})),
        ("verl", json!({"prompt": user, "reward_model": {"ground_truth": "1"}})),
    ]
}

#[test]
fn rows_of_every_format_name_file_and_line() {
    let rows = rows();
    assert_eq!(rows.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names());
    for (format, row) in rows {
        let found = parents(format, "rows.jsonl", format!("\n\n{row}\n").as_bytes());
        // A pair has two sides, and graded solutions are a problem and a solution.
        let count = if ["gsm8k_solutions", "preferences"].contains(&format) { 2 } else { 1 };
        assert_eq!(found, vec![["rows.jsonl:3"]; count], "{format}");
    }
}

#[test]
fn the_number_counts_lines_items_or_rows_from_1() {
    let lines = b"{\"question\": \"q\", \"answer\": 1}\n\n{\"question\": \"r\", \"answer\": 2}\r\n";
    assert_eq!(parents("jsonl", "a:b.jsonl", lines), [["a:b.jsonl:1"], ["a:b.jsonl:3"]]);
    assert_eq!(parents("jsonl", "x.jsonl.gz", &gzipped(lines)), [["x.jsonl.gz:1"], ["x.jsonl.gz:3"]]);
    // A record of several lines counts by its first one.
    let cells = b"question,answer\n\"q\nq\",1\nr,2\n";
    assert_eq!(parents("jsonl", "x.csv", cells), [["x.csv:2"], ["x.csv:4"]]);
    let list = b"[\n{\"question\": \"q\", \"answer\": 1},\n\n{\"question\": \"r\",\n\"answer\": 2}]";
    assert_eq!(parents("jsonl", "x.json", list), [["x.json:1"], ["x.json:2"]]);
    let table = b"{\"question\": [\"q\", \"r\"], \"answer\": [1, 2]}";
    assert_eq!(parents("jsonl", "x.json", table), [["x.json:1"], ["x.json:2"]]);
}

#[test]
fn rows_of_parquet_are_numbered_over_all_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.parquet");
    let question = |n: i64| format!("q{n}");
    TableBuilder::new().string("question", (0..3000).map(question)).i64("answer", 0..3000).write(&path).unwrap();
    let found = of(read("jsonl", &path));
    let expected: Vec<[String; 1]> = (1..=3000).map(|n| [format!("x.parquet:{n}")]).collect();
    assert_eq!(found, expected);
}

#[test]
fn files_of_a_folder_are_named_by_their_paths_in_it() {
    let row = |n: usize| format!("{{\"question\": \"q{n}\", \"answer\": {n}}}\n");
    let files = [
        ("data/train-1.jsonl", format!("{}{}", row(1), row(2)).into_bytes()),
        ("data/train-2.jsonl", row(3).into_bytes()),
    ];
    let (first, second) = (folder(&files), folder(&files));
    let found = read("jsonl", first.path());
    let expected = [["data/train-1.jsonl:1"], ["data/train-1.jsonl:2"], ["data/train-2.jsonl:1"]];
    assert_eq!(of(found.clone()), expected);
    assert_eq!(found, read("jsonl", second.path()), "rows do not depend on the place of the folder");
    let found = of(read("jsonl", &first.path().join("data/train-?.jsonl")));
    assert_eq!(found, [["train-1.jsonl:1"], ["train-1.jsonl:2"], ["train-2.jsonl:1"]]);
}

#[test]
fn what_a_format_names_itself_follows_the_place() {
    let problem = Problem { parents: vec!["seed-1".into()], ..Problem::default() };
    let rows = ImportedRows { trajectories: vec![Trajectory::default()], ..problem.into() }.with_place("x.jsonl:2");
    assert_eq!(of(rows), [vec!["x.jsonl:2", "seed-1"], vec!["x.jsonl:2"]]);
}
