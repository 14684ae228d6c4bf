//! Models served over endpoints: evaluation and rollouts by requests, and unsupported features.

use crate::kit::{Sandbox, skipped};
use std::path::Path;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_tables::{Trajectory, read_trajectories};
use trainyard_testkit_lm::{MockModelServer, MockServerOptions};

/// A small model and problems; `STAGES` is replaced by the stages of a test.
const FILE: &str = r#"
version: 1
name: served
stages:
  data:
    uses: data/synthesize
    with: {method: procedural, splits: {demonstrations: {levels: {1: 60}}, test: {levels: {1: 8}}}}
  demonstrated: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [demonstrations]}}
  tested: {uses: data/select, with: {problems: ["${{ stages.data.problems }}"], splits: [test]}}
  base: {uses: model/init, with: {hidden_size: 32, layers: 2, heads: 2, intermediate_size: 48}}
  sft:
    uses: sft
    with:
      model: ${{ stages.base.model }}
      trajectories: ["${{ stages.data.demonstrations }}"]
      steps: 8
      batch_tokens: 1024
      micro_batch_tokens: 512
      optimizer: {learning_rate: 1e-2}
STAGES"#;

fn evaluate(backend: &str) -> String {
    let stage = r#"  evaluate:
    uses: evaluate
    with:
      models: ["${{ stages.sft.model }}"]
      problems: ${{ stages.tested.problems }}
      samples: 2
      sampling: {max_turn_tokens: 12, max_episode_tokens: 200}
      BACKEND
"#;
    FILE.replace("STAGES", &stage.replace("BACKEND", backend))
}

/// Returns the model of the file, from a run of its first stages.
fn model(s: &Sandbox) -> ModelFolder {
    s.write("base.yaml", FILE.replace("STAGES", ""));
    s.run(&["run", "base.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/sft/model", "model"]).code(0);
    ModelFolder::load(Path::new(&s.path("model"))).unwrap()
}

/// Returns the rows of an output of the newest run, by id.
fn rows(s: &Sandbox, output: &str) -> Vec<Trajectory> {
    s.run(&["artifacts", "export", &format!("latest/{output}"), "rows.parquet"]).code(0);
    let mut rows = read_trajectories(&s.path("rows.parquet")).unwrap();
    std::fs::remove_file(s.path("rows.parquet")).unwrap();
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows
}

#[test]
fn an_evaluation_by_requests_is_that_of_the_reference() {
    let s = Sandbox::new();
    let model = model(&s);
    s.write("cpu.yaml", evaluate("{}").replace("      {}\n", ""));
    s.run(&["run", "cpu.yaml"]).code(0);
    let (expected, accuracy) = (rows(&s, "evaluate/trajectories"), s.metrics("evaluate")["accuracy"].clone());
    for (server, name) in [
        (InferenceServerKind::Vllm, "vllm"),
        (InferenceServerKind::Sglang, "sglang"),
        (InferenceServerKind::LlamaCpp, "llama_cpp"),
    ] {
        let served = MockModelServer::start(server, &model, MockServerOptions::default()).unwrap();
        let backend = format!("backend: {{kind: endpoint, server: {name}, url: \"{}\"}}", served.url());
        s.write("served.yaml", evaluate(&backend));
        s.run(&["run", "served.yaml"]).code(0);
        assert_eq!(s.metrics("evaluate")["accuracy"], accuracy, "{name}");
        let found = rows(&s, "evaluate/trajectories");
        assert_eq!(found.len(), expected.len());
        let greedy = |row: &&Trajectory| row.id.contains("/greedy/");
        assert!(found.iter().any(|row| greedy(&row)));
        for (ours, theirs) in found.iter().filter(greedy).zip(expected.iter().filter(greedy)) {
            assert_eq!((&ours.token_ids, &ours.answer), (&theirs.token_ids, &theirs.answer), "{name}");
            let (ours, theirs) = (ours.logprobs.as_ref().unwrap(), theirs.logprobs.as_ref().unwrap());
            assert!(ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() < 1e-5), "{name}");
        }
        assert!(found.iter().all(|row| row.entropies.is_none()), "a server gives no entropies");
    }
}

const RL: &str = r#"  rl:
    uses: rl
    with:
      model: ${{ stages.sft.model }}
      problems: ${{ stages.tested.problems }}
      steps: 2
      problems_per_step: 4
      filters: []
      rollout:
        group_size: 4
        max_turn_tokens: 12
        max_episode_tokens: 200
        backend: {kind: endpoint, server: vllm, url: "URL", weights: {folder: FOLDER}}
      OPTIONS
"#;

#[test]
fn rollouts_by_requests_teach_the_policy() {
    let s = Sandbox::new();
    let model = model(&s);
    for options in ["loss: {correction: {kind: none}}", "loss: {correction: {kind: truncated}}"] {
        let served = MockModelServer::start(InferenceServerKind::Vllm, &model, MockServerOptions::default()).unwrap();
        let folder = s.path("weights").display().to_string();
        let stage = RL.replace("URL", &served.url()).replace("FOLDER", &folder).replace("OPTIONS", options);
        s.write("rl.yaml", FILE.replace("STAGES", &stage));
        s.run(&["run", "rl.yaml"]).code(0);
        let metrics = s.metrics("rl");
        assert_eq!(metrics["steps"], 2.0);
        assert!(metrics["policy_entropy"].is_number() && metrics["entropy"].is_null(), "{metrics}");
        assert!(metrics["kl"].is_number(), "{metrics}");
        let sampled = rows(&s, "rl/trajectories");
        assert!(!sampled.is_empty() && sampled.iter().all(|row| row.entropies.is_none()));
        assert!(sampled.iter().flat_map(|row| row.logprobs.as_ref().unwrap()).all(|number| number.is_finite()));
        let reloads = served.seen().iter().filter(|(path, _)| path == "/collective_rpc").count();
        assert_eq!(reloads, 2, "the first weights, and those after the first step");
    }
}

#[track_caller]
fn refused(s: &Sandbox, text: &str, message: &str) {
    s.write("x.yaml", text);
    s.run(&["check", "x.yaml"]).code(2).says(message);
}

#[test]
fn what_a_server_cannot_do_is_refused_before_the_run() {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\nsecrets: {LLM: env:LLM}\n");
    let served = "{kind: endpoint, server: vllm, url: \"http://h:8000\"}";
    let backend = |more: &str| evaluate(&format!("backend: {{kind: endpoint, url: \"http://h:8000\", {more}}}"));
    s.write("good.yaml", backend("server: vllm, api_key: {secret: LLM}"));
    s.run(&["check", "good.yaml"]).code(0);

    let trained =
        FILE.replace("      steps: 8\n", &format!("      steps: 8\n      backend: {served}\n")).replace("STAGES", "");
    refused(&s, &trained, "the backend `endpoint` samples and does not train");
    refused(&s, &backend("server: vllm, api_key: {secret: LMM}"), "the site file provides no secret `LMM`");
    refused(&s, &backend("server: tgi"), "tgi");
    refused(&s, &backend("model: a"), "server");
    refused(&s, &backend("server: vllm, api_key: sesame"), "api_key");
    refused(&s, &backend("server: vllm, timeout: soon"), "soon");
    refused(&s, &backend("server: vllm, requests: 0"), "requests");
    refused(&s, &backend("server: llama_cpp, weights: {folder: /w}"), "cannot load other weights");
    refused(&s, &backend("server: vllm, weights: {folder: w}"), "`w` is not an absolute path");
    refused(
        &s,
        &backend("server: vllm").replace("http://", "http://me:hunter2@"),
        "the URL contains a user name or a password",
    );
    refused(&s, &backend("server: vllm").replace("http://", "ws://"), "not an http or https URL");
    let truncated = backend("server: sglang").replace("max_turn_tokens: 12", "max_turn_tokens: 12, top_k: 5");
    refused(&s, &truncated, "log-probabilities after top-k and top-p");
    let two = backend("server: vllm").replace("models: [", "models: [\"${{ stages.base.model }}\", ");
    refused(&s, &two, "the backend serves one model, but 2 are wired");
}

#[test]
fn parts_that_read_what_a_server_does_not_say_are_refused_by_name() {
    let s = Sandbox::new();
    let rl = |options: &str| {
        let stage = RL.replace("URL", "http://h:8000").replace("FOLDER", "/shared").replace("OPTIONS", options);
        FILE.replace("STAGES", &stage)
    };
    s.write("good.yaml", rl("seed: 1"));
    s.run(&["check", "good.yaml"]).code(0);
    refused(&s, &rl("seed: 1").replace(", weights: {folder: /shared}", ""), "cannot load new weights");
    refused(&s, &rl("advantage: {modulations: [entropy_modulated]}"), "this part needs `rollout_entropies`");
    refused(&s, &rl("loss: {terms: [clip, entropy_smoothing]}"), "this part needs `rollout_entropies`");
    let branching =
        rl("seed: 1").replace("group_size: 4", "group_size: 4\n        strategy: {kind: entropy_branching}");
    refused(&s, &branching, "this part needs `rollout_entropies`");
    let text = rl("seed: 1").replace("  rl:\n", "  rl:\n    checks: [{metric: entropy, min: 0.1}]\n");
    refused(&s, &text, "entropy");
    // The learner computes the policy's own entropy.
    s.write("good.yaml", rl("loss: {terms: [clip, {kind: entropy, weight: 0.01}]}"));
    s.run(&["check", "good.yaml"]).code(0);
    let warm = rl("seed: 1").replace(
        "group_size: 4",
        "group_size: 4\n        temperature: 0.7\n        strategy: {kind: demonstration_prefix}",
    );
    refused(&s, &warm, "cannot score given tokens at this temperature");
}

/// The real server; see `stages/lm/src/backend/endpoint/tests/real.rs`.
#[test]
fn a_real_model_behind_a_real_server_is_evaluated() {
    let (Ok(file), Ok(url)) = (std::env::var("TRAINYARD_TEST_GGUF"), std::env::var("TRAINYARD_TEST_LLAMA_CPP")) else {
        skipped("TRAINYARD_TEST_GGUF and TRAINYARD_TEST_LLAMA_CPP name no model and no server of it");
        return;
    };
    let s = Sandbox::new();
    let file = |backend: &str| {
        format!(
            r#"
version: 1
name: real
stages:
  data: {{uses: data/synthesize, with: {{method: procedural, splits: {{demonstrations: {{levels: {{1: 6}}}}}}}}}}
  base: {{uses: model/init, with: {{from: "{file}"}}}}
  evaluate:
    uses: evaluate
    with:
      models: ["${{{{ stages.base.model }}}}"]
      problems: ${{{{ stages.data.problems }}}}
      samples: 0
      sampling: {{max_turn_tokens: 40, max_episode_tokens: 900}}
{backend}"#
        )
    };
    s.write("cpu.yaml", file(""));
    s.run(&["run", "cpu.yaml"]).code(0);
    let expected = rows(&s, "evaluate/trajectories");
    s.write("real.yaml", file(&format!("      backend: {{kind: endpoint, server: llama_cpp, url: \"{url}\"}}\n")));
    s.run(&["run", "real.yaml"]).code(0);
    let found = rows(&s, "evaluate/trajectories");
    assert_eq!(found.len(), expected.len());
    let (mut same, mut all, mut off) = (0_u32, 0, 0.0);
    for (ours, theirs) in found.iter().zip(&expected) {
        let sampled = theirs.loss_mask.iter().filter(|m| **m).count();
        all += sampled;
        let (Some(a), Some(b)) = (&ours.logprobs, &theirs.logprobs) else { continue };
        // Greedy turns may diverge where two tokens are about equally likely; the numbers before that are compared.
        let pairs = ours.token_ids.iter().zip(&theirs.token_ids).take_while(|(a, b)| a == b).count();
        for t in (0..pairs).filter(|t| theirs.loss_mask[*t]) {
            same += 1;
            off += f64::from((a[t] - b[t]).abs());
        }
    }
    let mean = off / f64::from(same);
    eprintln!("{same} of {all} sampled tokens are equal from the start, {mean:.4} nats apart in the mean");
    assert!(same > 20 && mean < 0.1);
}
