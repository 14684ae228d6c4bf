//! Hostile data: queries of a model, archives, formulas and files with many mistakes or very long lines. Each is
//! contained within its limits and gets a message that names the remedy. Attacks on the sandboxes of Python are tested
//! in `stages/envs/tests`.

use crate::kit::{Ran, Sandbox};
use serde_json::{Value, json};
use std::io::Write as _;
use std::time::Duration;
use trainyard_core::{Clock as _, SystemClock};
use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

/// Runs a command and asserts that it ends in time.
#[track_caller]
fn within(seconds: u64, s: &Sandbox, args: &[&str]) -> Ran {
    let clock = SystemClock::new();
    let start = clock.monotonic();
    let ran = s.run(args);
    let taken = clock.monotonic().saturating_sub(start);
    assert!(taken < Duration::from_secs(seconds), "{args:?} took {taken:?}\n{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    ran
}

const QUESTIONS: &str = r#"
version: 1
name: questions
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      environment: {kind: sql-questions}
      splits: {demonstrations: {total: 4}, test: {total: 2}}
  tested: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [test]}}
  evaluate:
    uses: evaluate
    with:
      problems: ${{ stages.tested.problems }}
      samples: 0
      environment: {kind: sql-questions, format: hermes, limits: {time_millis: 1000, memory_bytes: 67108864}}
      endpoints: {attacker: {model: {endpoint: "URL", model: m, attempts: 1}, calls: text}}
"#;

/// Ten matches of a text of 64,000 bytes against patterns of 20,000.
const SLOW_MATCH: &str = "WITH RECURSIVE s(a) AS (SELECT replace(hex(zeroblob(32000)),'0','a')), t(n) AS (SELECT 1 \
    UNION ALL SELECT n+1 FROM t LIMIT 10) SELECT sum(a LIKE '%'||substr(a,1,20000)||'b'||n||'%') FROM s,t";
/// A table of 30,000 rows of 65,000 bytes.
const LARGE_TABLE: &str = "WITH d(x) AS (VALUES(0),(1),(2),(3),(4),(5),(6),(7),(8),(9)), m AS MATERIALIZED (SELECT \
    zeroblob(65000) b FROM d a,d b,d c,d e,d f LIMIT 30000) SELECT (SELECT count(*) FROM m x), (SELECT count(*) FROM m \
    y)";

#[test]
fn queries_of_a_model_are_bounded() {
    for (query, words) in [(SLOW_MATCH, "pattern too complex"), (LARGE_TABLE, "the query needs more memory")] {
        let call = json!({"name": "sql", "arguments": {"query": query}});
        let attacker = move |body: &Value, _: usize| -> MockResponse {
            let was_answered = body["messages"].as_array().unwrap().iter().any(|turn| turn["role"] == "assistant");
            says(body, &if was_answered { "#### 1".to_string() } else { format!("<tool_call>\n{call}\n</tool_call>") })
        };
        let served = MockChatServer::start(attacker);
        let s = Sandbox::new();
        s.write("questions.yaml", QUESTIONS.replace("URL", served.url()));
        within(120, &s, &["run", "questions.yaml"]).code(0);
        let told = served.bodies().iter().filter(|body| body.to_string().contains(words)).count();
        assert!(told > 0, "{query}: {:?}", served.bodies().last());
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn import(source: &str, options: &str) -> String {
    format!(
        "version: 1\nname: rows\nstages:\n  rows: {{uses: data/import, with: {{source: {source}, format: \
         jsonl{options}}}}}\n"
    )
}

#[test]
fn archives_are_limited_by_what_they_contain() {
    let row = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n";
    let rows = row.repeat(20_000).into_bytes();
    let list = format!("[{}{}]", row.replace('\n', ",").repeat(20_000), row.trim()).into_bytes();
    for (name, bytes) in [
        ("rows.jsonl", rows.clone()),
        ("rows.jsonl.zst", packed(&rows)),
        ("rows.json.zst", packed(&list)),
        ("empty.jsonl.zst", packed(&[row.as_bytes(), &b"\n".repeat(64 << 20)[..]].concat())),
    ] {
        let s = Sandbox::new();
        s.write(name, bytes);
        s.write("rows.yaml", import(name, ", max_file_bytes: 500000"));
        within(60, &s, &["check", "rows.yaml"]).code(0);
        within(60, &s, &["run", "rows.yaml"])
            .code(1)
            .says(&format!("{name}: more than 488.3 KiB of decompressed data"))
            .says("`max_file_bytes`");
        s.write("rows.yaml", import(name, ""));
        within(60, &s, &["run", "rows.yaml"]).code(0);
    }
    let s = Sandbox::new();
    s.write("rows.jsonl", row);
    s.write("rows.yaml", import("rows.jsonl", ", max_file_bytes: 0"));
    s.run(&["check", "rows.yaml"]).code(2).says("max_file_bytes");
}

#[test]
fn csv_files_hold_no_formulas_of_a_model() {
    let s = Sandbox::new();
    let answers = ["=HYPERLINK('http://evil')", "@SUM(1)", "-2+3", "-5"];
    let row = |answer: &&str| format!("{}\n", json!({"question": format!("What is {answer}?"), "answer": answer}));
    s.write("rows.jsonl", answers.iter().map(row).collect::<String>());
    s.write("rows.yaml", import("rows.jsonl", ""));
    s.run(&["run", "rows.yaml"]).code(0);
    let export = |file: &str, more: &[&str]| {
        let command = [&["artifacts", "export", "latest/rows/problems", file, "--columns", "answer"], more].concat();
        s.run(&command)
    };
    export("escaped.csv", &[]).code(0);
    assert_eq!(s.read("escaped.csv"), "answer\n'=HYPERLINK('http://evil')\n'@SUM(1)\n'-2+3\n-5\n");
    export("unchanged.csv", &["--keep-formulas"]).code(0);
    assert_eq!(s.read("unchanged.csv"), "answer\n=HYPERLINK('http://evil')\n@SUM(1)\n-2+3\n-5\n");
    export("unchanged.jsonl", &["--keep-formulas"]).code(2).says("`--keep-formulas` has an effect on .csv files only");
}

#[test]
fn mistakes_in_very_long_lines_are_shown() {
    let long = "y".repeat(70_000);
    for (text, words) in [
        (
            format!(
                "{{\"version\": 1, \"name\": \"x\", \"description\": \"{long}\", \"stages\": {{\"a\": {{\"run\": \
                 \"true\", \"wiht\": 1}}}}}}\n"
            ),
            vec!["`wiht`", "x.yaml:1:70"],
        ),
        (
            format!("version: 1\nname: x\nstages:\n  a: {{run: \"true # {}\", wiht: 3}}\n", "é".repeat(70_000)),
            vec!["`wiht`", "x.yaml:4:70"],
        ),
    ] {
        let s = Sandbox::new();
        s.write("x.yaml", text);
        let ran = words.iter().fold(within(20, &s, &["check", "x.yaml"]).code(2), |ran, word| ran.says(word));
        // The message may repeat a long name; the snippet does not.
        let snippet = ran.stderr.lines().filter(|line| line.contains('│') || line.contains('·'));
        assert!(snippet.clone().count() > 0, "{}", ran.stderr);
        assert!(snippet.clone().all(|line| line.chars().count() < 10_000), "{}", ran.stderr);
    }
}

#[test]
fn too_many_stages_are_one_mistake() {
    let stages: String = (0..200).map(|n| format!("  s{n}: {{run: \"true\"}}\n")).collect();
    let list = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let matrix = format!("  all: {{run: \"true\", matrix: {{a: [{}], b: [{}]}}}}\n", list(250), list(400));
    let s = Sandbox::new();
    s.write("x.yaml", format!("version: 1\nname: x\nstages:\n{matrix}{stages}"));
    let ran = within(60, &s, &["check", "x.yaml", "--format", "json"]).code(2).json();
    let found = ran["diagnostics"].as_array().unwrap();
    let large: Vec<&Value> = found.iter().filter(|d| d["message"].to_string().contains("more than 100000")).collect();
    assert_eq!(large.len(), 1, "{found:?}");
}

#[test]
fn thousands_of_mistakes_are_counted() {
    let keys: String = (0..20_000).map(|n| format!("x{n}: 1\n")).collect();
    let stages: String = (0..20_000).map(|n| format!("  s{n}: {{uses: nothing}}\n")).collect();
    let params: String = (0..20_000).map(|n| format!("  s{n}: {{run: \"echo ${{{{ params.p{n} }}}}\"}}\n")).collect();
    for (text, words) in [
        (format!("version: 1\nname: x\nstages:\n  a: {{run: \"true\"}}\n{keys}"), "has no key `x"),
        (format!("version: 1\nname: x\nstages:\n{stages}"), "there is no stage kind `nothing`"),
        (format!("version: 1\nname: x\nstages:\n{params}"), "there is no param `p"),
    ] {
        let s = Sandbox::new();
        s.write("x.yaml", text);
        // An unoptimized build on a busy machine needs seconds.
        let ran = within(30, &s, &["check", "x.yaml"]).code(2).says("and 19900 more");
        assert_eq!(ran.stderr.matches(words).count(), 100, "{words}");
        let all = within(30, &s, &["check", "x.yaml", "--format", "json"]).code(2).json();
        assert_eq!(all["diagnostics"].as_array().unwrap().len(), 20_000);
    }
}
