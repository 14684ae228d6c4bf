//! Weights on disk: in bfloat16 and in several files, read by every stage and by transformers.

use crate::kit::Sandbox;
use crate::python_programs::{python_with, succeeds};

const CHAIN: &str = r#"
version: 1
name: saved
params:
  save: {type: map, default: {}}
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 40}}, rl: {levels: {1: 8}}}}
  base:
    uses: model/init
    with: {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      steps: 6
      batch_tokens: 2048
      save: ${{ params.save }}
  evaluation:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}"]
      names: [sft]
      problems: ${{ stages.problems.problems }}
      problems_limit: 8
      samples: 0
      sampling: {max_turn_tokens: 24}
"#;

const SHARDS: &str = "save={dtype: bf16, shard_size: 20kB}";

fn trained(save: &str, folder: &str, s: &Sandbox) {
    s.run(&["run", "saved.yaml", "-p", save]).code(0);
    s.run(&["artifacts", "export", "latest/sft/model", folder]).code(0);
}

#[test]
fn a_model_in_shards_of_bfloat16_takes_half_the_space_and_the_default_leaves_no_trace() {
    let s = Sandbox::new();
    s.write("saved.yaml", CHAIN);
    trained("save={}", "plain", &s);
    s.write("unsaid.yaml", CHAIN.replace("      save: ${{ params.save }}\n", ""));
    let planned = s.run(&["plan", "unsaid.yaml", "--format", "json"]).code(0).json();
    let sft = planned["stages"].as_array().unwrap().iter().find(|stage| stage["stage"] == "sft").unwrap().clone();
    assert_eq!(sft["decision"], "hit", "options that say the default change no digest");
    trained(SHARDS, "shards", &s);
    let size = |name: String| std::fs::metadata(s.path(&name)).unwrap().len();
    let files: Vec<String> = s.files("shards").into_iter().filter(|name| name.ends_with(".safetensors")).collect();
    assert!(files.len() > 2 && !s.path("shards/model.safetensors").exists(), "{files:?}");
    let index: serde_json::Value = serde_json::from_str(&s.read("shards/model.safetensors.index.json")).unwrap();
    let named: std::collections::BTreeSet<&str> =
        index["weight_map"].as_object().unwrap().values().map(|file| file.as_str().unwrap()).collect();
    assert!(named.iter().all(|file| s.path("shards").join(file).exists()) && named.len() == files.len());
    let whole = size("plain/model.safetensors".into());
    let shards: u64 = files.iter().map(|name| size(format!("shards/{name}"))).sum();
    assert!(shards > whole / 3 && shards < whole * 2 / 3, "{shards} of {whole}");
    let config: serde_json::Value = serde_json::from_str(&s.read("shards/config.json")).unwrap();
    assert_eq!(config["dtype"], "bfloat16");
    // The folder is imported again, with all of its files, and merges into one.
    s.write(
        "again.yaml",
        "version: 1\nname: again\nstages:\n  model: {uses: model/init, with: {from: ./shards, save: {dtype: bf16}}}\n",
    );
    s.run(&["run", "again.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/model/model", "again"]).code(0);
    assert!(size("again/model.safetensors".into()) < whole * 2 / 3);
}

#[test]
fn a_size_of_files_that_is_none_is_named() {
    let s = Sandbox::new();
    s.write("saved.yaml", CHAIN.replace("save: ${{ params.save }}", "save: {dtype: f16, shard_size: 2GB}"));
    s.run(&["check", "saved.yaml"]).code(2).says("bf16").says("saved.yaml:20:");
    s.write("saved.yaml", CHAIN.replace("save: ${{ params.save }}", "save: {shard_size: small}"));
    s.run(&["check", "saved.yaml"]).code(2).says("`small` is not a size").says("saved.yaml:20:");
}

#[test]
fn transformers_loads_the_shards_and_answers_the_same_tokens() {
    let Some(python) = python_with("torch and transformers", "TRAINYARD_TEST_TRANSFORMERS") else { return };
    let s = Sandbox::new();
    s.write("saved.yaml", CHAIN);
    trained(SHARDS, "shards", &s);
    let columns = "id,token_ids,loss_mask";
    s.run(&["artifacts", "export", "latest/evaluation/trajectories", "played.jsonl", "--columns", columns]).code(0);
    s.write("peers.py", include_str!("saved_weights_peers.py"));
    succeeds(&python, &s, &["peers.py"]);
}
