//! A model with an adapter: trained by reinforcement learning, exported, merged, imported again, and its base stored
//! once.

use crate::kit::Sandbox;
use crate::python_programs::{python_with, succeeds};
use std::collections::BTreeSet;

const CHAIN: &str = r#"
version: 1
name: adapters
params:
  targets: {type: list, default: [q_proj, v_proj, up_proj]}
stages:
  problems:
    uses: data/synthesize
    with: {method: procedural, seed: 1, splits: {demonstrations: {levels: {1: 60}}, rl: {levels: {1: 20}}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.problems.problems }}"], hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64,
          seed: 1}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.problems.demonstrations }}"]
      steps: 6
      batch_tokens: 2048
      adapter: {kind: lora, rank: 4, alpha: 8, dropout: 0.05, targets: "${{ params.targets }}"}
  rl:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.problems.problems }}
      rewards: [{kind: length, max_tokens: 40, buffer_tokens: 40}]
      filters: []
      steps: 2
      problems_per_step: 4
      rollout: {group_size: 4, max_turn_tokens: 40}
      adapter: {kind: lora, rank: 4, alpha: 8, targets: "${{ params.targets }}"}
  merged:
    uses: model/merge
    with: {model: "${{ stages.rl.model }}"}
  evaluation:
    uses: evaluate
    with:
      models: ["${{ stages.base.model }}", "${{ stages.rl.model }}", "${{ stages.merged.model }}"]
      names: [base, rl, merged]
      problems: ${{ stages.problems.problems }}
      problems_limit: 8
      samples: 0
      sampling: {max_turn_tokens: 24}
"#;

fn trained() -> Sandbox {
    let s = Sandbox::new();
    s.write("adapters.yaml", CHAIN);
    s.run(&["run", "adapters.yaml"]).code(0);
    s
}

#[test]
fn an_adapter_is_practiced_exported_and_brought_in_again_and_its_base_is_stored_once() {
    let s = trained();
    for stage in ["base", "sft", "rl", "merged"] {
        s.run(&["artifacts", "export", &format!("latest/{stage}/model"), stage]).code(0);
    }
    let file = |name: &str| std::fs::read(s.path(name)).unwrap();
    assert_eq!(file("sft/base/model.safetensors"), file("base/model.safetensors"));
    assert_eq!(file("rl/base/model.safetensors"), file("base/model.safetensors"));
    assert_ne!(file("rl/adapter_model.safetensors"), file("sft/adapter_model.safetensors"));
    assert!(file("rl/adapter_model.safetensors").len() < file("base/model.safetensors").len() / 2);
    let config: serde_json::Value = serde_json::from_slice(&file("rl/adapter_config.json")).unwrap();
    assert_eq!(config["target_modules"], serde_json::json!(["q_proj", "up_proj", "v_proj"]));
    assert_eq!((&config["r"], &config["lora_alpha"], &config["peft_type"]), (&4.into(), &8.into(), &"LORA".into()));

    // The store has one object of the base for all three artifacts, found by its size.
    let size = file("base/model.safetensors").len() as u64;
    let objects = s.files(".trainyard/objects").into_iter().map(|f| s.store().join("objects").join(f));
    let same = objects.filter(|f| std::fs::metadata(f).unwrap().len() == size);
    let contents: Vec<Vec<u8>> = same.map(|f| std::fs::read(f).unwrap()).collect();
    assert_eq!(contents.iter().filter(|c| **c == file("base/model.safetensors")).count(), 1);
    assert_eq!(contents.len(), contents.iter().collect::<BTreeSet<_>>().len());

    // Imported in the usual form: a base model, and a folder with PEFT's two files.
    std::fs::create_dir(s.path("only")).unwrap();
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(s.path("rl").join(name), s.path("only").join(name)).unwrap();
    }
    s.write(
        "import.yaml",
        "version: 1\nname: import\nstages:\n  both:\n    uses: model/init\n    \
         with: {from: ./base, adapter: ./only}\n  merged:\n    uses: model/merge\n    \
         with: {model: \"${{ stages.both.model }}\"}\n",
    );
    s.run(&["run", "import.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/merged/model", "again"]).code(0);
    assert_eq!(file("again/model.safetensors"), file("merged/model.safetensors"));
}

#[test]
fn mistakes_are_named_with_what_there_is() {
    let s = Sandbox::new();
    s.write("adapters.yaml", CHAIN);
    s.run(&["run", "adapters.yaml", "-p", "targets=[qkv_proj]"]).code(2).says("qkv_proj").says("q_proj, up_proj");
    let stage = |with: &str| {
        let text = format!("version: 1\nname: x\nstages:\n  a: {{uses: model/init, with: {with}}}\n");
        s.write("x.yaml", text);
        s.run(&["check", "x.yaml"])
    };
    s.write("only/adapter_config.json", "{}");
    stage("{adapter: ./only}").code(2).says("adapter").says("from");
    let sft = CHAIN.replace("rank: 4, alpha: 8, dropout: 0.05", "rank: 0, dropout: 2");
    s.write("bad.yaml", sft);
    s.run(&["check", "bad.yaml"]).code(2).says("rank").says("dropout");
    s.write(
        "merge.yaml",
        "version: 1\nname: m\nstages:\n  base: {uses: model/init, with: {hidden_size: 32, heads: 2}}\n  \
        whole: {uses: model/merge, with: {model: \"${{ stages.base.model }}\"}}\n",
    );
    s.run(&["run", "merge.yaml"]).code(2).says("no adapter");
}

#[test]
fn a_model_that_memory_cannot_hold_is_refused_before_anything_runs() {
    let s = Sandbox::new();
    // The shape of Qwen2.5-0.5B: 494 million parameters, 2 GB in float32, 7.9 GB with gradients and moments.
    s.write(
        "big/config.json",
        r#"{"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896,
            "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
            "tie_word_embeddings": true, "max_position_embeddings": 32768}"#,
    );
    let check = |memory: &str, options: &str| {
        let data = "{uses: data/synthesize, with: {method: procedural, splits: {demonstrations: {levels: {1: 5}}}}}";
        let inputs = "model: \"${{ stages.base.model }}\", trajectories: [\"${{ stages.data.demonstrations }}\"]";
        s.write(
            "big.yaml",
            format!(
                "version: 1\nname: big\nstages:\n  data: {data}\n  \
                 base: {{uses: model/init, with: {{from: ./big}}}}\n  \
                 sft: {{uses: sft, resources: {{memory: {memory}}}, with: {{{inputs}, {options}}}}}\n"
            ),
        );
        s.run(&["check", "big.yaml"])
    };
    check("6GiB", "steps: 1")
        .code(2)
        .says("494 million parameters takes at least")
        .says("may use 6.0 GiB")
        .says("adapter");
    check("6GiB", "steps: 1, adapter: {rank: 16}, micro_batch_tokens: 4096").code(0);
    check("2GiB", "steps: 1, adapter: {rank: 16}, micro_batch_tokens: 4096").code(2).says("micro_batch_tokens");
}

#[test]
fn peft_loads_what_is_written_and_answers_the_same_tokens_and_the_other_way_round() {
    let Some(python) = python_with("torch, transformers and peft", "TRAINYARD_TEST_TRANSFORMERS") else { return };
    let s = trained();
    for stage in ["base", "rl"] {
        s.run(&["artifacts", "export", &format!("latest/{stage}/model"), stage]).code(0);
    }
    let columns = "id,token_ids,loss_mask";
    let table = "latest/evaluation/trajectories";
    s.run(&["artifacts", "export", table, "played.jsonl", "--columns", columns]).code(0);
    s.write("peers.py", include_str!("adapters_peers.py"));
    let run = |mode: &str| succeeds(&python, &s, &["peers.py", mode]);
    run("compare");
    // An adapter that PEFT made and saved, on the same base.
    run("make");
    s.write(
        "theirs.yaml",
        "version: 1\nname: theirs\nstages:\n  both: {uses: model/init, with: {from: ./base, adapter: ./theirs}}\n  \
         whole: {uses: model/merge, with: {model: \"${{ stages.both.model }}\"}}\n",
    );
    s.run(&["run", "theirs.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/whole/model", "whole"]).code(0);
    run("merged");
}
