//! A command that reads and writes rows by Daft, if `TRAINYARD_TEST_DAFT` names a Python that has it.

use crate::kit::{Sandbox, repository};
use crate::python_programs::python_with;

/// Copies the shipped workflow with its program and its chats.
fn shipped() -> Sandbox {
    let s = Sandbox::new();
    let workflows = repository().join("workflows");
    for name in ["daft.yaml", "daft/balance.py", "custom-code/chats.jsonl"] {
        s.write(name, std::fs::read_to_string(workflows.join(name)).unwrap());
    }
    s
}

fn count(s: &Sandbox, artifact: &str, query: &str) -> u64 {
    let rows = s.run(&["artifacts", "query", artifact, query, "--format", "json"]).code(0).json();
    rows["rows"][0][0].as_u64().unwrap_or_else(|| panic!("{query}: {rows}"))
}

#[test]
fn daft_reads_rows_and_its_rows_are_read_by_the_next_stage() {
    let Some(python) = python_with("daft", "TRAINYARD_TEST_DAFT") else { return };
    let s = shipped();
    let python = format!("python={python}");
    s.run(&["run", "daft.yaml", "-p", &python]).code(0);
    let balanced = "select sum(min(chats, 5)) from self";
    let kept = count(&s, "latest/balanced/counts", balanced);
    assert_eq!(count(&s, "latest/balanced/counts", "select sum(chats) from self"), 400);
    assert!(kept < 400, "some answer has more than five chats");
    assert_eq!(count(&s, "latest/balanced/kept", "select count(*) from self"), kept);
    let most = "select max(n) from (select count(*) as n from self group by answer)";
    assert_eq!(count(&s, "latest/balanced/kept", most), 5);
    // The next stage judges these rows: their messages came through.
    assert_eq!(count(&s, "latest/distinct/kept", "select count(*) from self where messages like '%user%'"), kept);
    s.run(&["run", "daft.yaml", "-p", &python]).code(0).says("balanced: hit");
    // Equal rows give an equal file.
    let digest = |s: &Sandbox| {
        let listed = s.run(&["artifacts", "list", "latest", "--format", "json"]).code(0).json();
        let found =
            listed.as_array().unwrap().iter().find(|a| a["artifact"].as_str().unwrap().ends_with("/balanced/kept"));
        found.unwrap()["digest"].clone()
    };
    let before = digest(&s);
    s.run(&["run", "daft.yaml", "-p", &python, "--rerun", "balanced"]).code(0).says("balanced: done");
    assert_eq!(digest(&s), before);
    s.run(&["run", "daft.yaml", "-p", &python, "-p", "most=1"]).code(0);
    let answers = count(&s, "latest/balanced/counts", "select count(*) from self");
    assert_eq!(count(&s, "latest/balanced/kept", "select count(*) from self"), answers);
}

#[test]
fn the_stage_on_the_page_is_that_of_the_shipped_file() {
    let page = std::fs::read_to_string(repository().join("docs/daft.md")).unwrap();
    let shipped = std::fs::read_to_string(repository().join("workflows/daft.yaml")).unwrap();
    let block = page.split("```yaml\n").nth(1).unwrap().split_once("```").unwrap().0;
    for line in block.lines() {
        assert!(shipped.contains(&format!("  {line}\n")), "workflows/daft.yaml lacks the line {line}");
    }
}
