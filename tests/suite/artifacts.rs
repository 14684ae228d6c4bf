//! Looking at artifacts: list, show, query, export.

use crate::kit::Sandbox;

const PROBLEMS: &str = r#"
version: 1
name: problems
stages:
  import:
    uses: data/import
    with: {source: rows.jsonl, format: gsm8k, split: test}
"#;

const ROWS: &str = "{\"question\": \"Ann has 2 figs and buys 3. How many?\", \"answer\": \"2+3 = <<2+3=5>>5\\n#### 5\"}\n{\"question\": \"Bob has 7 nuts and eats 1. How many?\", \"answer\": \"7-1 = <<7-1=6>>6\\n#### 6\"}\n";

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
    let told = s.run(&["artifacts", "export", "latest/import/problems", "rows.jsonl", "--format", "json"]).code(0).json();
    assert_eq!(told, serde_json::json!({"artifact": "latest/import/problems", "files": ["rows.jsonl"], "rows": 2}));
}

#[test]
fn a_statement_that_would_change_something_is_refused() {
    let s = imported();
    for statement in ["drop table self", "delete from self", "select 1; select 2", "create table x as select 1"] {
        s.run(&["artifacts", "query", "latest/import/problems", statement]).code(2);
    }
}

#[test]
fn a_wrong_name_lists_what_there_is() {
    let s = imported();
    s.run(&["artifacts", "show", "latest/import/problem"]).code(2).says("problems");
    s.run(&["artifacts", "show", "latest/imprt/problems"]).code(2).says("import");
    s.run(&["runs", "show", "20200101"]).code(2).says("20200101");
}
