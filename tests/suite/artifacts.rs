//! Inspection of artifacts: list, show, query, export.

use crate::kit::{Sandbox, wait_for};
use crate::processes::kill;

const PROBLEMS: &str = r#"
version: 1
name: problems
stages:
  import:
    uses: data/import
    with: {source: rows.jsonl, format: gsm8k, split: test}
"#;

const ROWS: &str = concat!(
    "{\"question\": \"Ann has 2 figs and buys 3. How many?\", \"answer\": \"2+3 = <<2+3=5>>5\\n#### 5\"}\n",
    "{\"question\": \"Bob has 7 nuts and eats 1. How many?\", \"answer\": \"7-1 = <<7-1=6>>6\\n#### 6\"}\n",
);

fn imported() -> Sandbox {
    let s = Sandbox::new();
    s.write("problems.yaml", PROBLEMS);
    s.write("rows.jsonl", ROWS);
    s.run(&["run", "problems.yaml"]).code(0);
    s
}

#[test]
fn a_table_can_be_listed_shown_queried_and_exported() {
    let s = imported();
    s.run(&["artifacts", "list"]).code(0).prints("import").prints("problems");
    s.run(&["artifacts", "show", "latest/import/problems"]).code(0).prints("answer").prints("2 rows");
    let ran = s
        .run(&[
            "artifacts",
            "query",
            "latest/import/problems",
            "select answer, count(*) as n from self group by answer order by answer",
            "--format",
            "json",
        ])
        .code(0);
    let rows = ran.json();
    assert_eq!(rows["rows"], serde_json::json!([["5", 1], ["6", 1]]), "{rows}");
    s.run(&["artifacts", "export", "latest/import/problems", "rows.csv"]).code(0);
    let csv = s.read("rows.csv");
    assert!(csv.starts_with("id,") && csv.contains("Ann has 2 figs") && csv.contains("Bob has 7 nuts"), "{csv}");
    let told =
        s.run(&["artifacts", "export", "latest/import/problems", "rows.jsonl", "--format", "json"]).code(0).json();
    assert_eq!(told, serde_json::json!({"artifact": "latest/import/problems", "files": ["rows.jsonl"], "rows": 2}));
}

#[test]
fn what_a_run_prints_of_a_digest_names_its_artifacts() {
    let s = imported();
    let ran = s.run(&["run", "problems.yaml"]).code(0);
    let line = ran.stderr.lines().find(|line| line.starts_with("import: hit")).unwrap_or(&ran.stderr);
    let short = line.split(' ').nth(2).unwrap();
    assert_eq!(short.len(), 12, "{line}");
    s.run(&["artifacts", "show", &format!("{short}/problems")]).code(0).prints("2 rows");
    s.run(&["artifacts", "show", &format!("{}/problems", &short[..6])]).code(0).prints("2 rows");
    s.run(&["artifacts", "show", &format!("{short}/problem")]).code(2).says("problems");
    let other: String = short.chars().map(|digit| if digit == 'f' { '0' } else { 'f' }).collect();
    s.run(&["artifacts", "show", &format!("{other}/problems")]).code(2).says("no stage digest").says("artifacts list");
    s.run(&["artifacts", "show", "ab/problems"]).code(2).says("names no artifact");
}

#[test]
fn a_statement_that_would_change_something_is_refused() {
    let s = imported();
    for statement in ["drop table self", "delete from self", "select 1; select 2", "create table x as select 1"] {
        s.run(&["artifacts", "query", "latest/import/problems", statement]).code(2);
    }
}

/// Creates a table of 20,000 problems; joined with itself it has 400 million rows.
fn many() -> Sandbox {
    let s = Sandbox::new();
    s.write("problems.yaml", PROBLEMS);
    let row = |i: u32| {
        let (question, sum) = (format!("Ann has {i} figs and buys 3. How many?"), i + 3);
        let row =
            serde_json::json!({"question": question, "answer": format!("{i}+3 = <<{i}+3={sum}>>{sum}\n#### {sum}")});
        format!("{row}\n")
    };
    s.write("rows.jsonl", (1..=20_000).map(row).collect::<String>());
    s.run(&["run", "problems.yaml"]).code(0);
    s
}

/// Returns a statement with much computation for every pair of rows, none of which it keeps: it takes minutes and
/// hardly any memory.
fn endless() -> String {
    let deep = (0..8).fold("a.level + b.level".to_string(), |inner, _| format!("sin(cos({inner}))"));
    format!("select count(*) as n from self a cross join self b where {deep} > 3")
}

const COUNT: &str = "select count(*) as n from self";

#[test]
fn a_statement_that_runs_away_ends_at_its_time_limit() {
    let s = many();
    let query =
        |sql: &str, timeout: &str| s.run(&["artifacts", "query", "latest/import/problems", sql, "--timeout", timeout]);
    query(&endless(), "1s").code(1).says("limit of 1.0s").says("`--timeout 5m`");
    query(COUNT, "10m").code(0).prints("20000");
    query(COUNT, "10").code(2).says("is not a duration");
}

#[test]
fn a_statement_that_needs_too_much_memory_ends_at_its_limit() {
    let s = many();
    let query =
        |sql: &str, memory: &str| s.run(&["artifacts", "query", "latest/import/problems", sql, "--memory", memory]);
    let pairs = "select a.id as x, b.id as y from self a cross join self b order by y";
    query(pairs, "64MiB").code(1).says("limit of 64.0 MiB").says("`--memory 8GiB`");
    query(COUNT, "64MiB").code(0).prints("20000");
    query(COUNT, "much").code(2).says("is not a size");
}

#[test]
fn the_process_of_a_statement_dies_with_its_command() {
    let s = many();
    let mut command = s.spawn(&["artifacts", "query", "latest/import/problems", &endless(), "--timeout", "10m"]);
    let id = command.id().to_string();
    let worker = || {
        let found = std::process::Command::new("pgrep").args(["-P", &id, "-f", "query-worker"]).output().unwrap();
        String::from_utf8(found.stdout).unwrap().trim().to_string()
    };
    wait_for("the statement's process", 20, || !worker().is_empty());
    let worker = worker();
    kill(&mut command);
    // A zombie process has no command line.
    wait_for("its end", 10, || std::fs::read(format!("/proc/{worker}/cmdline")).unwrap_or_default().is_empty());
}

#[test]
fn a_wrong_name_lists_what_there_is() {
    let s = imported();
    s.run(&["artifacts", "show", "latest/import/problem"]).code(2).says("problems");
    s.run(&["artifacts", "show", "latest/imprt/problems"]).code(2).says("import");
    s.run(&["runs", "show", "20200101"]).code(2).says("20200101");
}
