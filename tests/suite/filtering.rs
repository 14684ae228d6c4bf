//! Rules of `data/filter` that compare the rows of a group, on the user's own rows.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const FILE: &str = r#"
version: 1
name: filtered
stages:
  rows:
    uses: data/import
    with: {source: pairs.jsonl}
  best:
    uses: data/filter
    with:
      trajectories: ["${{ stages.rows.preferences }}"]
      rules:
        - {kind: pass_rate, reward: preference}
        - {kind: rank, mixed_only: true, reward: preference, by: [reward, shortest]}
        - {kind: diversity, by: meta_source, max_per_group: 2}
  others:
    uses: data/filter
    with:
      trajectories: ["${{ stages.rows.preferences }}"]
      rated: ["${{ stages.best.kept }}"]
      rules: [{kind: pass_rate, attempts: rated, reward: preference, min_rows: 1, unknown: keep}]
"#;

/// Returns pairs of answers to six questions: four from the web, two from a book.
fn pairs() -> String {
    let pair = |n: usize| {
        let source = if n < 4 { "web" } else { "book" };
        let (prompt, chosen, rejected) = (format!("Is {n} even?"), format!("{n}: yes"), format!("{n}: no"));
        let row = json!({"prompt": prompt, "chosen": chosen, "rejected": rejected, "source": source});
        format!("{row}\n")
    };
    (0..6).map(pair).collect()
}

fn rows(s: &Sandbox, output: &str, query: &str) -> Value {
    s.run(&["artifacts", "query", output, query, "--format", "json"]).code(0).json()["rows"].take()
}

#[test]
fn the_best_rows_of_problems_and_sources_are_kept_and_the_report_says_why() {
    let s = Sandbox::new();
    s.write("pairs.jsonl", pairs());
    s.write("filtered.yaml", FILE);
    s.run(&["run", "filtered.yaml"]).code(0).says("best: done").says("others: done");
    let by_source = "select meta_source, count(*), min(reward) from self group by meta_source order by meta_source";
    assert_eq!(rows(&s, "latest/best/kept", by_source), json!([["book", 2, 1.0], ["web", 2, 1.0]]));
    // The rates are those of the rows kept before: the two questions that are not among them are unknown.
    assert_eq!(rows(&s, "latest/others/kept", by_source), json!([["web", 4, 0.0]]));
    s.run(&["artifacts", "export", "latest/best/report", "report"]).code(0);
    let report: Value = serde_json::from_str(&s.read("report/report.json")).unwrap();
    let table = |title: &str| {
        let tables = report["tables"].as_array().unwrap();
        tables.iter().find(|table| table["title"].as_str().unwrap().starts_with(title)).unwrap()["rows"].clone()
    };
    let shares = [("pass_rate", 0), ("rank", 6), ("diversity", 2), ("(no rule)", 4)];
    let shares = shares.map(|(rule, rows)| json!([rule, f64::from(rows), f64::from(rows) / 12.0]));
    let found = table("Rows by the rule");
    for (row, expected) in found.as_array().unwrap().iter().zip(&shares) {
        assert_eq!(
            (row[0].as_str(), row[1].as_f64(), row[2].as_f64()),
            (expected[0].as_str(), expected[1].as_f64(), expected[2].as_f64())
        );
    }
    assert_eq!(found.as_array().unwrap().len(), shares.len());
    let examples = table("Examples");
    let reasons: Vec<&str> = examples.as_array().unwrap().iter().map(|row| row[1].as_str().unwrap()).collect();
    assert_eq!(reasons, ["not_among_best", "not_among_best", "not_among_best", "over_cap", "over_cap"]);
    assert_eq!(examples[3][3], "web (at most 2)");
    let numbers = table("Numbers");
    assert_eq!(
        (numbers[0][2].as_f64(), numbers[0][4].as_f64(), numbers.as_array().unwrap().len()),
        (Some(0.5), Some(12.0), 1)
    );
    s.run(&["run", "filtered.yaml"]).code(0).says("best: hit");
}

#[test]
fn wrong_options_of_groups_are_named_before_the_run() {
    let s = Sandbox::new();
    s.write("pairs.jsonl", pairs());
    s.write("groups.yaml", FILE.replace("meta_source", "source"));
    s.run(&["check", "groups.yaml"]).code(2).says("rows have no groups by `source`").says("`meta_` and the name");
    s.write("near.yaml", FILE.replace("meta_source", "meta_sorce"));
    s.run(&["check", "near.yaml"]).says("no column for `meta_sorce`").says("did you mean `meta_source`?");
    s.write("reward.yaml", FILE.replace("pass_rate, reward: preference", "pass_rate, reward: preferred"));
    s.run(&["run", "reward.yaml"]).code(1).says("no row has the reward component `preferred`").says("preference");
    s.write("unwired.yaml", FILE.replace("      rated: [\"${{ stages.best.kept }}\"]\n", ""));
    s.run(&["check", "unwired.yaml"]).code(2).says("there is no attempt of another model").says("wire `rated`");
}
