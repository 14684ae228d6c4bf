//! Exports as their readers receive them: the files, the cards, and, if `TRAINYARD_TEST_CONSUMERS` names a Python with
//! `datasets`, `polars`, `pandas`, `duckdb`, `torch`, `transformers`, `trl` and `verl`, these programs themselves.

use crate::kit::Sandbox;
use crate::python_programs::python_with;
use serde_json::{Value, json};
use std::process::Command;

const CHAIN: &str = r#"
version: 1
name: consumers
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      mistakes: 0.5
      environment: {kind: word-problems, format: hermes}
      splits: {demonstrations: {levels: {1: 24}}, rl: {levels: {1: 12}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.data.problems }}"], corpus: ["${{ stages.data.demonstrations }}"], template: chatml,
          hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64, seed: 1}
  kept:
    uses: data/filter
    with:
      trajectories: ["${{ stages.data.demonstrations }}"]
      environment: {kind: word-problems, format: hermes}
      rules: [format]
  tokenized:
    uses: data/tokenize
    with: {model: "${{ stages.base.model }}", trajectories: ["${{ stages.kept.kept }}"]}
  rl:
    uses: rl
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.data.problems }}
      environment: {kind: word-problems, format: hermes}
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}]
      filters: []
      steps: 1
      problems_per_step: 8
      rollout: {group_size: 4, max_turn_tokens: 40}
  pairs:
    uses: data/pairs
    with: {trajectories: ["${{ stages.rl.trajectories }}"], min_gap: 0.05, per_problem: 2}
  solutions:
    uses: data/import
    with: {source: solutions.jsonl, format: gsm8k_solutions}
  labels:
    uses: data/step_labels
    with: {solutions: "${{ stages.solutions.solutions }}"}
  prm:
    uses: prm
    with:
      model: ${{ stages.base.model }}
      problems: ${{ stages.data.problems }}
      environment: {kind: word-problems, format: hermes}
      rollouts: 2
      continuations: 2
      sampling: {max_turn_tokens: 12, max_episode_tokens: 400}
      held_out_share: 0.3
  chats:
    uses: data/import
    with: {source: chats.jsonl}
"#;

const EXPORTS: [(&str, &str, &[&str]); 9] = [
    ("kept/kept", "trl-sft", &["--as", "trl"]),
    ("tokenized/tokenized", "trl-tokens", &["--as", "trl"]),
    ("pairs/preferences", "trl-preference", &["--as", "trl"]),
    ("data/problems", "trl-prompts", &["--as", "trl"]),
    ("labels/trajectories", "trl-steps", &["--as", "trl", "--form", "steps"]),
    ("kept/kept", "verl-sft", &["--as", "verl"]),
    ("data/problems", "verl-prompts", &["--as", "verl"]),
    ("chats/trajectories", "chats-sharegpt", &["--as", "sharegpt"]),
    ("chats/trajectories", "chats-openai", &["--as", "openai"]),
];

const TABLES: [&str; 9] = [
    "data/problems",
    "data/demonstrations",
    "kept/kept",
    "tokenized/tokenized",
    "rl/trajectories",
    "pairs/preferences",
    "solutions/solutions",
    "labels/trajectories",
    "chats/trajectories",
];

/// Returns conversations with tools of different parameters.
fn chats() -> Vec<Value> {
    let tool = |name: &str, of: &str| {
        let parameters = json!({"type": "object", "properties": {of: {"type": "string"}}});
        json!({"type": "function", "function": {"name": name, "parameters": parameters}})
    };
    let row = |i: usize| {
        let (name, of) = if i.is_multiple_of(2) { ("weather", "city") } else { ("add", "numbers") };
        let function = json!({"name": name, "arguments": json!({of: "1"}).to_string()});
        let call = json!({"id": format!("c{i}"), "type": "function", "function": function});
        let messages = json!([
            {"role": "user", "content": format!("Question {i}?")},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": format!("c{i}"), "content": "7"},
            {"role": "assistant", "content": "7"},
        ]);
        json!({"messages": messages, "tools": [tool("weather", "city"), tool("add", "numbers")]})
    };
    (0..6).map(row).collect()
}

fn solutions() -> Vec<Value> {
    let row = |i: usize| {
        let solution = format!("{i}+1 = <<{i}+1={}>>{}\nThen 2*3 = <<2*3=6>>6\nA: 6", i + 1, i + 1);
        let truth = format!("{i}+1 = <<{i}+1={}>>{}\nA: 6", i + 1, i + 1);
        let graded = json!({"is_correct": true, "solution": solution});
        json!({"question": format!("Ann has {i}?"), "ground_truth": truth, "a": graded})
    };
    (1..7).map(row).collect()
}

fn made() -> Sandbox {
    let s = Sandbox::new();
    s.write("consumers.yaml", CHAIN);
    s.write_rows("chats.jsonl", chats());
    s.write_rows("solutions.jsonl", solutions());
    s.run(&["run", "consumers.yaml"]).code(0);
    for (artifact, to, how) in EXPORTS {
        s.run(&[&["artifacts", "export", &format!("latest/{artifact}"), to][..], how].concat()).code(0);
    }
    s
}

#[test]
fn exports_have_the_forms_of_their_readers_and_come_back() {
    let s = made();
    let kept = s.read_rows("trl-sft/train.jsonl");
    let messages: Vec<&Value> = kept.iter().flat_map(|row| row["messages"].as_array().unwrap()).collect();
    let calling: Vec<&&Value> = messages.iter().filter(|m| m.get("tool_calls").is_some()).collect();
    assert!(calling.len() >= kept.len(), "every demonstration calls");
    for message in &calling {
        assert!(message["tool_calls"][0]["function"]["arguments"].is_object(), "{message}");
        assert!(!message["content"].as_str().unwrap().contains("<tool_call>"), "{message}");
    }
    assert!(messages.iter().any(|m| m["weight"] == 0), "a mistake is no example");
    for row in s.read_rows("trl-tokens/train.jsonl") {
        let list = |name: &str| row[name].as_array().unwrap().clone();
        let (ids, labels, masks) = (list("input_ids"), list("labels"), list("assistant_masks"));
        assert!(ids.len() == labels.len() && masks.contains(&json!(1)) && masks.contains(&json!(0)));
        for ((id, label), mask) in ids.iter().zip(&labels).zip(&masks) {
            let expected = if mask == 1 { id.clone() } else { json!(-100) };
            assert_eq!(*label, expected);
        }
    }
    let pairs = s.read_rows("trl-preference/train.jsonl");
    assert!(pairs.iter().all(|row| row["chosen"][0]["role"] == "assistant" && row["chosen"] != row["rejected"]));
    let steps = s.read_rows("trl-steps/train.jsonl");
    assert!(steps.iter().all(|row| row["labels"].as_array().unwrap().contains(&json!(true))), "{steps:?}");
    // The way back through workflows: `data/import` turns the files into the exported rows.
    let said = "messages,tools,turns,tool_calls,answer";
    let asked = "id,messages,answer,verifier,environment,level,source,split,canonical,reference";
    let rows = |artifact: &str, to: &str, columns: &str| {
        s.run(&["artifacts", "export", &format!("latest/{artifact}"), to, "--columns", columns]).code(0);
        s.read(to)
    };
    let before = (rows("chats/trajectories", "a.jsonl", said), rows("data/problems", "b.jsonl", asked));
    s.write(
        "back.yaml",
        "version: 1\nname: back\nstages:\n  openai: {uses: data/import, with: {source: chats-openai/train.jsonl}}\n  \
         problems: {uses: data/import, with: {source: verl-prompts/train.parquet}}\n",
    );
    s.run(&["run", "back.yaml"]).code(0);
    let after = (rows("openai/trajectories", "c.jsonl", said), rows("problems/problems", "d.jsonl", asked));
    assert_eq!(before, after);
}

#[test]
fn folders_have_cards_and_mistakes_say_what_to_do() {
    let s = made();
    let card = s.read("trl-sft/README.md");
    assert!(card.starts_with("---\nconfigs:\n- config_name: default\n"), "{card}");
    for part in [
        "path: \"train.jsonl\"",
        "stage digest",
        "generation",
        "| workflow | consumers |",
        "| run | `",
        "`kept` of a stage `data/filter`",
    ] {
        assert!(card.contains(part), "{part}\n{card}");
    }
    s.run(&["artifacts", "export", "latest/base/model", "model", "--card"]).code(0);
    let card = s.read("model/README.md");
    assert!(card.starts_with("---\nlibrary_name: transformers\n") && card.contains("| template_digest | `"), "{card}");
    s.run(&["artifacts", "export", "latest/base/model", "bare"]).code(0);
    assert!(!s.path("bare/README.md").exists(), "a plain copy holds the artifact's files alone");
    let export = |artifact: &str, to: &str, more: &[&str]| {
        s.run(&[&["artifacts", "export", &format!("latest/{artifact}"), to][..], more].concat())
    };
    export("base/model", "x", &["--as", "trl"]).code(2).says("these files of a model cannot be written as `trl`");
    export("data/problems", "x", &["--as", "openai"]).code(2).says("they can be prompts; `openai` writes sft");
    export("kept/kept", "x", &["--as", "trl", "--form", "preference"]).code(2).says("--form sft");
    export("kept/kept", "x", &["--as", "trl", "--form", "tokens"]).code(1).says("data/tokenize");
    export("kept/kept", "x.csv", &["--as", "trl"]).code(2).says(".jsonl or .parquet");
    export("kept/kept", "x", &["--as", "trel"]).code(2).says("no export format `trel`").says("sharegpt");
    export("kept/kept", "x.jsonl", &["--as", "trl", "--card"]).code(2).says("name a folder");
    export("data/problems", "plain", &["--as", "csv"]).code(0).prints("wrote");
    assert!(s.read("plain/train.csv").starts_with("id,messages,") && s.path("plain/README.md").exists());
    let told = export("chats/trajectories", "chats.jsonl", &["--as", "sharegpt", "--format", "json"]).code(0).json();
    assert_eq!(told["lost"], json!({"ids of calls": 12}));
    export("chats/trajectories", "again.jsonl", &["--as", "sharegpt"]).code(0).prints("left out ids of calls: 12");
}

#[test]
fn their_readers_take_them() {
    let Some(python) = python_with("datasets, trl, verl, …", "TRAINYARD_TEST_CONSUMERS") else { return };
    let s = made();
    for table in TABLES {
        let to = format!("artifacts/{}", table.replace('/', "-"));
        s.run(&["artifacts", "export", &format!("latest/{table}"), &to]).code(0);
    }
    for (artifact, to) in [("base/model", "model"), ("prm/model", "prm")] {
        s.run(&["artifacts", "export", &format!("latest/{artifact}"), to]).code(0);
    }
    let columns = "id,token_ids,step_ends,step_scores";
    s.run(&["artifacts", "export", "latest/prm/trajectories", "scored.jsonl", "--columns", columns]).code(0);
    s.write("consumers.py", include_str!("consumers.py"));
    let checks = ["as_they_are", "folders", "sft", "tokens", "dpo", "grpo", "steps", "prm", "verl"];
    let failed: Vec<String> = checks.iter().filter_map(|check| reads(&python, check, &s)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs one check; returns its error, if any.
fn reads(python: &str, check: &str, s: &Sandbox) -> Option<String> {
    let output = Command::new(python).args(["consumers.py", check]).current_dir(s.path(".")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.lines().filter(|line| line.starts_with("skipped")).for_each(|line| eprintln!("{check}: {line}"));
    (!output.status.success()).then(|| format!("{check}: {}", String::from_utf8_lossy(&output.stderr)))
}
