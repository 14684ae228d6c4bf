//! `engine/trl` that draws by vLLM: what it writes into TRL's configuration, and the log-probabilities that it returns,
//! with a double of TRL. The real vLLM requires a GPU.

use crate::kit::Sandbox;
use crate::python_programs::python;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;

const FILE: &str = r#"
version: 1
name: drawn
stages:
  data:
    uses: data/synthesize
    with:
      method: procedural
      seed: 1
      environment: {kind: word-problems, format: hermes}
      splits: {rl: {levels: {1: 8}}, demonstrations: {levels: {1: 16}}}
  base:
    uses: model/init
    with:
      {problems: ["${{ stages.data.problems }}"], corpus: ["${{ stages.data.demonstrations }}"], template: chatml,
          hidden_size: 32, layers: 2, heads: 2, intermediate_size: 64, seed: 1}
  practiced:
    uses: engine/trl
    with:
      model: ${{ stages.base.model }}
      problems: ["${{ stages.data.problems }}"]
      method: grpo
      environment: {kind: word-problems, format: hermes}
      rewards: [{kind: answer}]
      rollout: {group_size: 2, max_turn_tokens: 12, max_episode_tokens: 400}
      vllm: VLLM
      python: PYTHON
      version: "1.16"
      steps: 2
      batch_rows: 4
      micro_batch_rows: 2
      save_every: 0
"#;

/// Returns a sandbox whose Python imports the double in place of TRL and its dependencies.
fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.write("double/trl.py", include_str!("trl_double.py"));
    for package in ["torch", "transformers", "datasets"] {
        s.write(&format!("double/{package}.py"), "from trl import *\nfrom trl import __version__\n");
    }
    let python = s.write_placed("python", "#!/bin/sh\nPYTHONPATH=@double exec python3 $*\n");
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    s
}

fn write(s: &Sandbox, name: &str, vllm: &str) {
    s.write(name, FILE.replace("VLLM", vllm).replace("PYTHON", &s.path("python").display().to_string()));
}

/// Returns the configuration that the double printed.
fn configuration(s: &Sandbox) -> Value {
    let log = s.run(&["logs", "latest", "practiced"]).code(0).stdout;
    let printed = log.lines().find_map(|line| line.split_once("GRPOConfig ")).unwrap_or_else(|| panic!("{log}"));
    serde_json::from_str(printed.1).unwrap_or_else(|e| panic!("{e}: {log}"))
}

#[test]
fn options_of_vllm_reach_trl_and_each_sampled_token_has_its_log_probability() {
    if !python() {
        return;
    }
    let s = sandbox();
    let server = "mode: server, server_base_url: 'http://gpu-7:8000'";
    write(&s, "drawn.yaml", &format!("{{{server}, importance_sampling_mode: token_mask}}"));
    s.run(&["run", "drawn.yaml"]).code(0).says("practiced: done");
    let mut written = configuration(&s);
    let stop = written["generation_kwargs"]["stop_token_ids"].take();
    assert!(stop.as_array().is_some_and(|tokens| !tokens.is_empty()), "{stop}");
    let expected = json!({
        "use_vllm": true,
        "generation_kwargs": {"stop_token_ids": null},
        "vllm_mode": "server",
        "vllm_model_impl": "vllm",
        "vllm_enable_sleep_mode": false,
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_max_model_length": null,
        "vllm_server_base_url": "http://gpu-7:8000",
        "vllm_server_timeout": 240.0,
        "vllm_group_port": 51216,
        "vllm_importance_sampling_correction": true,
        "vllm_importance_sampling_mode": "token_mask",
        "vllm_importance_sampling_clip_max": 3.0,
        "vllm_importance_sampling_clip_min": null,
    });
    assert_eq!(written, expected);
    let curves = s.run(&["runs", "show", "latest", "--curves", "practiced"]).code(0);
    curves.prints("checked_tokens").prints("pass_rate");
}

#[test]
fn options_of_vllm_are_checked_before_the_run() {
    let s = sandbox();
    for (vllm, said) in [
        ("{mode: server}", "`mode: server` requires the server's URL"),
        ("{server_base_url: 'http://gpu-7:8000'}", "`mode: colocate` uses no server"),
        ("{max_model_length: 100}", "fewer than those of an episode (400)"),
        ("{server_host: gpu-7}", "server_host"),
    ] {
        write(&s, "wrong.yaml", vllm);
        s.run(&["check", "wrong.yaml"]).code(2).says(said);
    }
    write(&s, "wrong.yaml", "{mode: colocate}");
    let text = s.read("wrong.yaml").replace("      save_every: 0\n", "      config: {vllm_mode: server}\n");
    s.write("wrong.yaml", text);
    s.run(&["check", "wrong.yaml"]).code(2).says("`vllm_mode` is set by the stage").says("option `vllm`");
}
