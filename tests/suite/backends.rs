//! Backends: one model, computed by several of them; GPUs that a build or a backend does not use.

use crate::kit::Sandbox;
use serde_json::Value;

/// All stages that compute a model, on a backend named by a parameter.
const PIPELINE: &str = r#"
version: 1
name: backends
params: {backend: {type: string, default: cpu}}
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 60}}, rl: {levels: {1: 8}}}}
  demonstrated: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [demonstrations]}}
  practice: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [rl]}}
  base: {uses: model/init, with: {hidden_size: 32, layers: 2, heads: 2, intermediate_size: 48}}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      backend: ${{ params.backend }}
      steps: 8
      batch_tokens: 1024
      micro_batch_tokens: 512
      checkpoint_every: 3
      optimizer: {learning_rate: 1e-2}
  rl:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.practice.problems }}
      backend: ${{ params.backend }}
      steps: 2
      problems_per_step: 4
      filters: []
      rollout: {group_size: 4, max_turn_tokens: 12, max_episode_tokens: 200}
  prm:
    uses: prm
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.practice.problems }}
      backend: ${{ params.backend }}
      rollouts: 2
      continuations: 2
      sampling: {max_turn_tokens: 12, max_episode_tokens: 200}
      held_out_share: 0.3
  evaluate:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}", "${{ stages.rl.model }}"]
      names: [sft, rl]
      problems: ${{ stages.practice.problems }}
      prm: ${{ stages.prm.model }}
      backend: ${{ params.backend }}
      samples: 2
      sampling: {max_turn_tokens: 12, max_episode_tokens: 200}
"#;

fn metrics(s: &Sandbox, backend: &str, stage: &str) -> Value {
    s.run(&["run", "backends.yaml", "-p", &format!("backend={backend}")]).code(0);
    s.metrics(stage)
}

#[test]
fn every_stage_with_a_model_runs_on_another_backend_and_learns_what_the_reference_learns() {
    let s = Sandbox::new();
    s.write("backends.yaml", PIPELINE);
    let [ours, theirs] = ["candle", "cpu"].map(|backend| metrics(&s, backend, "sft"));
    for name in ["loss", "validation_loss", "validation_loss_initial", "grad_norm"] {
        let (ours, theirs) = (ours[name].as_f64().unwrap(), theirs[name].as_f64().unwrap());
        assert!((ours - theirs).abs() < 2e-3 * theirs, "{name} is {ours}, the reference has {theirs}");
    }
    assert!(ours["validation_loss"].as_f64() < ours["validation_loss_initial"].as_f64());
    let evaluated = metrics(&s, "candle", "evaluate");
    assert!(evaluated["accuracy"].is_number(), "{evaluated}");
}

#[test]
fn an_adapter_learns_on_another_backend_what_it_learns_on_the_reference() {
    let s = Sandbox::new();
    let adapter = "      adapter: {rank: 4, dropout: 0.1}\n";
    let mut text = PIPELINE.to_string();
    for line in ["      steps: 8\n", "      steps: 2\n", "      continuations: 2\n"] {
        text = text.replace(line, &format!("{line}{adapter}"));
    }
    s.write("backends.yaml", text);
    let [ours, theirs] = ["candle", "cpu"].map(|backend| metrics(&s, backend, "sft"));
    for name in ["loss", "validation_loss", "grad_norm"] {
        let (ours, theirs) = (ours[name].as_f64().unwrap(), theirs[name].as_f64().unwrap());
        assert!((ours - theirs).abs() < 2e-3 * theirs, "{name} is {ours}, the reference has {theirs}");
    }
    assert!(ours["validation_loss"].as_f64() < ours["validation_loss_initial"].as_f64());
    assert!(metrics(&s, "candle", "evaluate")["accuracy"].is_number());
    s.run(&["artifacts", "export", "latest/rl/model", "rl"]).code(0);
    assert!(s.path("rl/adapter_model.safetensors").exists() && s.path("rl/base/model.safetensors").exists());
}

#[test]
fn a_file_that_names_the_default_backend_and_one_that_names_none_share_their_results() {
    let s = Sandbox::new();
    s.write("backends.yaml", PIPELINE);
    s.write("without.yaml", PIPELINE.replace("      backend: ${{ params.backend }}\n", ""));
    s.run(&["run", "without.yaml", "--until", "sft"]).code(0);
    let decision = |backend: &str| {
        let planned = s.run(&["plan", "backends.yaml", "-p", &format!("backend={backend}"), "--format", "json"]);
        let planned = planned.code(0).json();
        planned["stages"].as_array().unwrap().iter().find(|p| p["stage"] == "sft").unwrap()["decision"].clone()
    };
    assert_eq!(decision("cpu"), "hit");
    assert_eq!(decision("candle"), "run");
}

#[test]
fn a_gpu_that_nobody_computes_on_is_refused_with_the_way_to_a_build_that_does() {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "pools: [{name: gpu, gpus: 2}]\n");
    let asks = |backend: &str| {
        let asked = format!("      backend: {backend}\n      steps: 8\n");
        let text = PIPELINE.replace("      backend: ${{ params.backend }}\n      steps: 8\n", &asked);
        text.replace("  rl:\n", "    resources: {gpus: 1}\n  rl:\n")
    };
    s.write("x.yaml", asks("cpu"));
    s.run(&["check", "x.yaml"])
        .code(2)
        .says("the stage requests a GPU, but its backend `cpu` does not use one")
        .says("cargo build --release --features cuda");
    s.write("x.yaml", asks("{kind: candle, device: cuda}"));
    s.run(&["check", "x.yaml"])
        .code(2)
        .says("this build does not compute on `cuda`")
        .says("cargo build --release --features cuda")
        .says("x.yaml:17:39");
    s.write("x.yaml", asks("{kind: candle, dtype: bf16}"));
    s.run(&["check", "x.yaml"]).code(2).says("candle has no bfloat16 products on the CPU");
    s.write("x.yaml", asks("abacus"));
    s.run(&["check", "x.yaml"]).code(2).says("abacus");
}

#[test]
fn backends_have_pages() {
    let s = Sandbox::new();
    s.run(&["stages", "backends"]).code(0).prints("candle").prints("cpu");
    s.run(&["stages", "backends/candle"]).code(0).prints("recompute").prints("device").prints("bf16");
    s.run(&["stages", "sft"]).code(0).prints("backend");
}
