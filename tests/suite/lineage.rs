//! `artifacts lineage`: from a row to its sources and descendants, and from an artifact to the stages before it.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const WORKFLOW: &str = r#"
version: 1
name: chats
stages:
  chats:
    uses: data/import
    with: {source: "shards/*.jsonl"}
  kept:
    uses: data/filter
    with:
      trajectories: ["${{ stages.chats.trajectories }}"]
      rules: [{kind: expression, keep: "answer <> 'a1'"}]
  pairs:
    uses: data/filter
    with:
      trajectories: ["${{ stages.kept.kept }}"]
      rules: [exact_duplicates]
"#;

fn chat(n: usize) -> String {
    format!(
        "{{\"messages\": [{{\"role\": \"user\", \"content\": \"question {n}\"}}, \
         {{\"role\": \"assistant\", \"content\": \"a{n}\"}}]}}\n"
    )
}

fn finished() -> Sandbox {
    let s = Sandbox::new();
    s.write("shards/1.jsonl", (0..3).map(chat).collect::<String>());
    s.write("shards/2.jsonl", (3..5).map(chat).collect::<String>());
    s.write("chats.yaml", WORKFLOW);
    s.run(&["run", "chats.yaml"]).code(0);
    s
}

/// Returns the relations and ids from a node down its first sources.
fn chain(node: &Value) -> Vec<(String, String)> {
    let text = |key: &str| node[key].as_str().unwrap_or_default().to_string();
    let mut chain = vec![(text("relation"), text("id"))];
    if let Some(first) = node["sources"].as_array().and_then(|sources| sources.first()) {
        chain.extend(self::chain(first));
    }
    chain
}

#[test]
fn every_kept_row_leads_to_its_file_and_line() {
    let s = finished();
    let ids = s.run(&["artifacts", "query", "latest/pairs/kept", "select id, parents from self", "--format", "json"]);
    let rows = ids.code(0).json()["rows"].take();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for (row, cells) in rows.iter().enumerate() {
        let row = row.to_string();
        let tree = s.run(&["artifacts", "lineage", "latest/pairs/kept", "--row", &row, "--format", "json"]);
        let chain = chain(&tree.code(0).json());
        let relations: Vec<&str> = chain.iter().map(|(relation, _)| relation.as_str()).collect();
        assert_eq!(relations, ["row", "kept", "kept", "source"], "{chain:?}");
        assert_eq!(json!([chain[3].1]), cells[1], "the place is that of the row's column `parents`");
        assert!(chain[..3].iter().all(|(_, id)| cells[0] == json!(id)), "{chain:?}");
    }
    s.run(&["artifacts", "lineage", "latest/pairs/kept", "--row", "3"])
        .code(0)
        .prints("/pairs/kept row 3, id ")
        .prints("└─ kept from ")
        .prints("read from 2.jsonl:2");
}

#[test]
fn rows_lead_forward_and_artifacts_to_their_stages() {
    let s = finished();
    let forward = |row: &str| {
        let made = s.run(&[
            "artifacts",
            "lineage",
            "latest/chats/trajectories",
            "--row",
            row,
            "--forward",
            "--format",
            "json",
        ]);
        let made = made.code(0).json();
        let artifact = |found: &Value| {
            let name = found["artifact"].as_str().unwrap().split_once('/').unwrap().1.to_string();
            (name, found["rows"].as_u64(), found["first"][0]["row"].as_u64())
        };
        made["artifacts"].as_array().unwrap().iter().map(artifact).collect::<Vec<_>>()
    };
    assert_eq!(
        forward("2"),
        [("kept/kept".to_string(), Some(1), Some(1)), ("pairs/kept".to_string(), Some(1), Some(1))]
    );
    assert_eq!(forward("1"), [("kept/rejected".to_string(), Some(1), Some(0))]);
    s.run(&["artifacts", "lineage", "latest/pairs/kept"])
        .code(0)
        .prints("/pairs, data/filter")
        .prints("└─ kept: ")
        .prints("   └─ trajectories: ")
        .prints("/chats, data/import");
}

#[test]
fn what_has_no_lineage_is_an_error_that_says_why() {
    let s = finished();
    s.run(&["artifacts", "lineage", "latest/pairs/kept", "--row", "9"]).code(2).says("there is no row 9");
    s.run(&["artifacts", "lineage", "latest/pairs/kept", "--id", "none"]).code(2).says("no row with the id `none`");
    s.run(&["artifacts", "lineage", "latest/pairs/kept", "--forward"]).code(2).says("add `--row N` or `--id ID`");
    s.run(&["artifacts", "lineage", "latest/pairs/report", "--row", "0"]).code(2).says("not a table");
}
