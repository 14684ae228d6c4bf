//! Rollouts as logs of Inspect and documents of ATIF: the files, and, if `TRAINYARD_TEST_TRACES` names a Python with
//! `inspect-ai` and `atif`, these programs themselves.

use crate::kit::Sandbox;
use crate::python_programs::{python_with, succeeds};
use serde_json::json;

const WORKFLOW: &str = r#"
version: 1
name: traces
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
"#;

/// Artifacts, each exported in both formats.
const ARTIFACTS: [(&str, &str); 2] = [("rl/trajectories", "rollouts"), ("data/demonstrations", "demonstrations")];

fn exported() -> Sandbox {
    let s = Sandbox::new();
    s.write("traces.yaml", WORKFLOW);
    s.run(&["run", "traces.yaml"]).code(0);
    for (artifact, name) in ARTIFACTS {
        let artifact = format!("latest/{artifact}");
        s.run(&["artifacts", "export", &artifact, &format!("{name}.eval"), "--as", "inspect"]).code(0);
        s.run(&["artifacts", "export", &artifact, &format!("{name}.jsonl"), "--as", "atif"]).code(0);
        s.run(&["artifacts", "export", &artifact, &format!("{name}-rows.jsonl")]).code(0);
        let tokens = format!("{name}-tokens.jsonl");
        s.run(&["artifacts", "export", &artifact, &tokens, "--columns", "id,token_ids,loss_mask,logprobs"]).code(0);
    }
    s
}

#[test]
fn documents_hold_the_rows_and_equal_rows_give_equal_files() {
    let s = exported();
    for (artifact, name) in ARTIFACTS {
        let (rows, documents) = (s.read_rows(&format!("{name}-rows.jsonl")), s.read_rows(&format!("{name}.jsonl")));
        assert_eq!(rows.len(), documents.len());
        for (row, document) in rows.iter().zip(&documents) {
            assert_eq!(row["id"], document["trajectory_id"]);
            let steps = document["steps"].as_array().unwrap();
            let results: usize =
                steps.iter().map(|step| step["observation"]["results"].as_array().map_or(0, Vec::len)).sum();
            let said = steps.len() + results;
            assert_eq!(row["messages"].as_array().unwrap().len(), said, "a step or a result for each message");
        }
        let log = std::fs::read(s.path(&format!("{name}.eval"))).unwrap();
        s.run(&["artifacts", "export", &format!("latest/{artifact}"), "again.eval", "--as", "inspect"]).code(0);
        assert_eq!(log, std::fs::read(s.path("again.eval")).unwrap());
    }
    let rollouts = s.read_rows("rollouts.jsonl");
    let sampled = rollouts.iter().flat_map(|document| document["steps"].as_array().unwrap());
    assert!(sampled.clone().any(|step| step["metrics"]["logprobs"][0].is_number()));
}

#[test]
fn folders_have_cards_and_mistakes_say_what_to_do() {
    let s = exported();
    let export = |artifact: &str, to: &str, more: &[&str]| {
        s.run(&[&["artifacts", "export", &format!("latest/{artifact}"), to][..], more].concat())
    };
    let told = export("rl/trajectories", "logs", &["--as", "inspect", "--format", "json"]).code(0).json();
    assert_eq!(told["lost"], json!({"rows with values of tokens (`--as atif` has them)": told["rows"]}));
    let card = s.read("logs/README.md");
    assert!(card.contains("inspect_ai.log.read_eval_log(\"train.eval\")") && !card.contains("configs:"), "{card}");
    assert!(s.path("logs/train.eval").exists());
    export("rl/trajectories", "x.eval", &[]).code(2).says("add `--as inspect`");
    export("rl/trajectories", "x.jsonl", &["--as", "inspect"]).code(2).says(".eval, or a folder");
    export("rl/trajectories", "x.eval", &["--as", "trl"]).code(2).says(".jsonl or .parquet");
    export("data/problems", "x", &["--as", "atif"]).code(2).says("they can be prompts; `atif` writes sft");
    assert!(!s.path("x.eval").exists() && !s.path("x.jsonl").exists());
}

#[test]
fn their_readers_take_them() {
    let Some(python) = python_with("inspect-ai and atif", "TRAINYARD_TEST_TRACES") else { return };
    let s = exported();
    s.write("traces.py", include_str!("traces.py"));
    for (check, (_, name)) in ["inspect", "atif"].iter().flat_map(|check| ARTIFACTS.map(|one| (check, one))) {
        succeeds(&python, &s, &["traces.py", check, name]);
    }
}
