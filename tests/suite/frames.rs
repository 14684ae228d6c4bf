//! `data/frame`: the user's SQL over artifacts of a workflow, and its mistakes.

use crate::kit::Sandbox;
use serde_json::{Value, json};

const FILE: &str = r#"version: 1
name: frames
stages:
  rows:
    uses: data/import
    with: {source: pairs.jsonl}
  best:
    uses: data/frame
    with:
      rows: ${{ stages.rows.preferences }}
      output: trajectories
      sql: |
        select r.* from rows r
        join (select problem_id, max(reward) as best from rows group by problem_id) b
          on r.problem_id = b.problem_id and r.reward = b.best
        order by r.id
  rates:
    uses: data/frame
    with:
      rows: ${{ stages.rows.preferences }}
      best: ["${{ stages.best.trajectories }}"]
      sql: |
        select r.reward, count(*) as n, count(b.id) as chosen
        from rows r left join best b on r.id = b.id
        group by r.reward order by r.reward
  kept:
    uses: data/filter
    with:
      trajectories: ["${{ stages.best.trajectories }}"]
      rules: [{kind: expression, keep: "reward > 0"}]
  sample:
    uses: data/frame
    with:
      rates: ${{ stages.rates.table }}
      seed: 3
      sql: select reward, n from rates order by random(reward) limit 1
"#;

/// Returns pairs of answers to six questions.
fn pairs() -> String {
    let pair = |n: usize| {
        let (prompt, chosen, rejected) = (format!("Is {n} even?"), format!("{n}: yes"), format!("{n}: no"));
        format!("{}\n", json!({"prompt": prompt, "chosen": chosen, "rejected": rejected}))
    };
    (0..6).map(pair).collect()
}

fn sandbox(file: &str) -> Sandbox {
    let s = Sandbox::new();
    s.write("pairs.jsonl", pairs());
    s.write("frames.yaml", file);
    s
}

fn rows(s: &Sandbox, output: &str, query: &str) -> Value {
    s.run(&["artifacts", "query", output, query, "--format", "json"]).code(0).json()["rows"].take()
}

#[test]
fn joined_and_grouped_rows_reach_the_next_stage() {
    let s = sandbox(FILE);
    s.run(&["check", "frames.yaml"]).code(0);
    s.run(&["run", "frames.yaml"]).code(0).says("kept: done");
    assert_eq!(rows(&s, "latest/kept/kept", "select count(*), min(reward) from self"), json!([[6, 1.0]]));
    let rates = json!([[0.0, 6, 0], [1.0, 6, 6]]);
    assert_eq!(rows(&s, "latest/rates/table", "select reward, n, chosen from self order by 1"), rates);
    assert_eq!(rows(&s, "latest/sample/table", "select n from self"), json!([[6]]));
    // Another seed is another stage; the rest is found.
    s.write("frames.yaml", FILE.replace("seed: 3", "seed: 4"));
    s.run(&["run", "frames.yaml"]).code(0).prints("4 hit");
}

#[test]
fn equal_runs_have_equal_digests() {
    let digest = || {
        let s = sandbox(FILE);
        s.run(&["run", "frames.yaml"]).code(0);
        let shown = |output: &str| {
            let shown = s.run(&["artifacts", "show", output, "--format", "json"]).code(0).json();
            shown["output"]["digest"].as_str().unwrap().to_string()
        };
        ["latest/best/trajectories", "latest/rates/table", "latest/sample/table"].map(shown)
    };
    assert_eq!(digest(), digest());
}

#[test]
fn mistakes_are_found_by_check_with_their_place() {
    for (before, after, words) in [
        ("from rows r\n        join", "from row r\n        join", vec!["no input of the stage", "mean `rows`?"]),
        ("r.reward = b.best", "r.rewrad = b.best", vec!["rewrad", "`sql`"]),
        ("sql: select reward, n from rates", "sql: drop table rates --", vec!["found DROP"]),
        ("seed: 3", "sead: 3", vec!["has no option or input `sead`", "did you mean `seed`?"]),
        ("best: [\"${{ stages.best", "bests: [\"${{ stages.best", vec!["does not read the input `bests`"]),
        ("output: trajectories", "output: problems", vec!["problems have no column"]),
    ] {
        assert!(FILE.contains(before), "{before}");
        let s = sandbox(&FILE.replacen(before, after, 1));
        let ran = s.run(&["check", "frames.yaml"]).code(2);
        words.into_iter().fold(ran, |ran, word| ran.says(word));
    }
}

#[test]
fn a_join_beyond_the_limit_fails_and_names_the_limit() {
    let s =
        sandbox(&FILE.replacen("      output: trajectories\n", "      output: trajectories\n      max_rows: 5\n", 1));
    s.run(&["check", "frames.yaml"]).code(0);
    s.run(&["run", "frames.yaml"]).code(1).says("`max_rows`");
}
