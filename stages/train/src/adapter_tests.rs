//! Tests adapters through the stages: training, publishing, resuming, further training and refusals.

use crate::stages::evaluate::Evaluate;
use crate::stages::prm::Prm;
use crate::stages::rl::Rl;
use crate::stages::sft::Sft;
use crate::testing::{
    context_in, demonstrations, digest_of, environment_options, half_trained, input, input_model, input_problems,
    input_trajectories, outputs, run_stage, sums, tiny_model,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use trainyard_api::StageContext;
use trainyard_core::{ArtifactKind, Digest, ErrorKind};
use trainyard_lm::ModelFolder;

/// Wires a folder to the input `port`.
fn wire(context: &mut StageContext, folder: &Path, port: &str, model: &Path) {
    input(context, folder, port, ArtifactKind::Model, |to| copy(model, to));
}
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

fn sft(folder: &Path, cpus: usize, cancel_after: Option<usize>) -> StageContext {
    let mut context = context_in(folder, cpus, cancel_after);
    input_model(&mut context, folder, "model", &tiny_model(16, 2, 1));
    input_trajectories(&mut context, folder, "trajectories", &demonstrations(64, 3, 2));
    outputs(&mut context, folder, &["model", "report"]);
    context
}
fn sft_options() -> Value {
    json!({
        "steps": 20, "batch_tokens": 512, "micro_batch_tokens": 256, "validation_share": 0.1, "validate_every": 4,
        "checkpoint_every": 5, "optimizer": {"learning_rate": 2e-2}, "adapter": {"rank": 4, "dropout": 0.1},
    })
}
fn rl_options(adapter: Value) -> Value {
    json!({
        "environment": environment_options(), "steps": 2, "problems_per_step": 4, "validate_every": 0,
        "rollout": {"group_size": 4, "max_turn_tokens": 12, "max_episode_tokens": 96},
        "checkpoint_every": 1, "adapter": adapter,
    })
}
fn model_of(context: &StageContext) -> PathBuf {
    context.output("model").unwrap().to_path_buf()
}
fn base_of(folder: &Path) -> Digest {
    Digest::of(&std::fs::read(folder.join("base/model.safetensors")).unwrap())
}

#[test]
fn sft_publishes_adapter_with_unchanged_base_and_resumes_to_the_same_bytes() {
    let whole = tempfile::tempdir().unwrap();
    let mut straight = sft(whole.path(), 1, None);
    run_stage::<Sft>(sft_options(), &mut straight).unwrap();
    let m = &straight.metrics;
    assert!(m["validation_loss"] < m["validation_loss_initial"] - 0.1, "{m:?}");
    let published = model_of(&straight);
    let input = straight.input("model").unwrap().folder.join("model.safetensors");
    assert_eq!(base_of(&published), Digest::of(&std::fs::read(input).unwrap()));
    assert!(published.join("adapter_config.json").exists() && !published.join("model.safetensors").exists());
    assert_eq!(straight.metadata["model"]["adapter"]["rank"], json!(4));
    // A resume point holds the trained weights only, without the base.
    let point = whole.path().join("checkpoints/15/weights.safetensors");
    let adapter = std::fs::metadata(published.join("adapter_model.safetensors")).unwrap().len();
    assert!(std::fs::metadata(point).unwrap().len() <= adapter);

    let killed = tempfile::tempdir().unwrap();
    let mut first = sft(killed.path(), 2, Some(2));
    assert_eq!(run_stage::<Sft>(sft_options(), &mut first).unwrap_err().kind, ErrorKind::Cancelled);
    let mut second = sft(killed.path(), 2, None);
    run_stage::<Sft>(sft_options(), &mut second).unwrap();
    for port in ["model", "report"] {
        assert_eq!(digest_of(straight.output(port).unwrap()), digest_of(second.output(port).unwrap()), "{port}");
    }
}

#[test]
fn every_stage_takes_a_model_with_an_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let adapter = json!({"rank": 4});
    let mut options = sft_options();
    options["adapter"] = adapter.clone();
    let mut first = sft(&at("sft"), 2, None);
    run_stage::<Sft>(options.clone(), &mut first).unwrap();
    let sft_model = model_of(&first);

    // `rl` continues training the adapter; the base file stays the same.
    let rl = |name: &str, adapter: Value| {
        let mut context = context_in(&at(name), 2, None);
        wire(&mut context, &at(name), "model", &sft_model);
        input_problems(&mut context, &at(name), "problems", &sums(12, 3, 21));
        outputs(&mut context, &at(name), &["model", "trajectories", "report"]);
        run_stage::<Rl>(rl_options(adapter), &mut context).map(|()| context)
    };
    let practiced = rl("rl", adapter.clone()).unwrap();
    assert_eq!(base_of(&model_of(&practiced)), base_of(&sft_model));
    assert_eq!(ModelFolder::load(&model_of(&practiced)).unwrap().adapter.unwrap().rank, 4);
    // Without the option, the adapter is merged and all weights are trained.
    let whole = rl("rl-whole", Value::Null).unwrap();
    assert!(ModelFolder::load(&model_of(&whole)).unwrap().adapter.is_none());
    let other = rl("rl-other", json!({"rank": 8})).err().unwrap();
    assert!(other.message.contains("rank 4") && other.help.unwrap().contains("model/merge"));

    // `prm` adds a head to the adapter; `evaluate` uses both.
    let mut prm = context_in(&at("prm"), 2, None);
    wire(&mut prm, &at("prm"), "model", &model_of(&practiced));
    input_problems(&mut prm, &at("prm"), "problems", &sums(10, 3, 31));
    outputs(&mut prm, &at("prm"), &["model", "trajectories", "report"]);
    let play = json!({"max_turn_tokens": 12, "max_episode_tokens": 96});
    let options = json!({
        "environment": environment_options(), "sampling": play, "steps": "turns", "rollouts": 2, "continuations": 2,
        "epochs": 2, "batch_tokens": 512, "adapter": adapter,
    });
    run_stage::<Prm>(options, &mut prm).unwrap();
    let scorer = ModelFolder::load(&model_of(&prm)).unwrap();
    assert_eq!((scorer.config.num_labels, scorer.adapter.unwrap().labels()), (Some(1), Some(1)));
    assert_eq!(base_of(&model_of(&prm)), base_of(&sft_model));

    let mut evaluate = context_in(&at("evaluate"), 2, None);
    for model in [&sft_model, &model_of(&practiced)] {
        wire(&mut evaluate, &at("evaluate"), "models", model);
    }
    wire(&mut evaluate, &at("evaluate"), "prm", &model_of(&prm));
    input_problems(&mut evaluate, &at("evaluate"), "problems", &sums(6, 3, 41));
    outputs(&mut evaluate, &at("evaluate"), &["report", "results", "trajectories"]);
    let options = json!({
        "environment": environment_options(), "names": ["sft", "rl"], "samples": 2, "sampling": play,
    });
    run_stage::<Evaluate>(options, &mut evaluate).unwrap();
    assert!(evaluate.metrics.contains_key("accuracy_rl"));
}

#[test]
fn merged_adapter_is_published_as_an_equivalent_whole_model() {
    let run = |merge: bool| {
        let folder = tempfile::tempdir().unwrap();
        let mut context = sft(folder.path(), 2, None);
        let mut options = sft_options();
        options["adapter"] = json!({"rank": 4, "merge": merge});
        run_stage::<Sft>(options, &mut context).unwrap();
        ModelFolder::load(&model_of(&context)).unwrap()
    };
    let (merged, kept) = (run(true), run(false));
    assert!(merged.adapter.is_none() && kept.adapter.is_some());
    let kept = kept.merged().unwrap();
    for (name, tensor) in &merged.weights {
        let flat = |t: &_| -> Vec<f32> { trainyard_lm::generate::WeightSource::values(t, name).unwrap() };
        assert_eq!(flat(&merged.weights), flat(&kept.weights), "{name}: {tensor:?}");
    }
}

#[test]
fn value_model_of_an_adapter_is_a_reproducible_adapter() {
    let run = |folder: &Path| {
        let mut context = context_in(folder, 2, None);
        input_model(&mut context, folder, "model", half_trained());
        input_problems(&mut context, folder, "problems", &sums(12, 3, 21));
        outputs(&mut context, folder, &["model", "trajectories", "report"]);
        let mut options = rl_options(json!({"rank": 2}));
        options["advantage"] = json!({"kind": "gae"});
        options["loss"] = json!({"terms": [{"kind": "clip"}, {"kind": "value"}]});
        options["filters"] = json!([]);
        run_stage::<Rl>(options, &mut context).unwrap();
        context
    };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (run(first.path()), run(second.path()));
    assert_eq!(digest_of(&model_of(&a)), digest_of(&model_of(&b)));
    let critic = first.path().join("checkpoints/1/critic-weights.safetensors");
    let policy = first.path().join("checkpoints/1/weights.safetensors");
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&critic) < size(&policy) + 4096, "the value model is no copy of the whole model");
}

#[test]
fn wrong_options_are_found_before_anything_runs() {
    let stage = trainyard_api::erase(Sft::default());
    let at = |adapter: Value| {
        let options = stage.complete(&json!({"adapter": adapter})).unwrap();
        stage.validate(&options).into_iter().map(|p| p.pointer).collect::<Vec<_>>()
    };
    assert_eq!(at(json!({"kind": "lora"})), Vec::<String>::new());
    assert_eq!(at(json!({"rank": 0, "alpha": -1.0})), ["/adapter/rank", "/adapter/alpha"]);
    assert_eq!(at(json!({"dropout": 1.0, "targets": []})), ["/adapter/dropout", "/adapter/targets"]);
    assert!(stage.complete(&json!({"adapter": {"kind": "ia3"}})).is_err());
    let complete = stage.complete(&json!({})).unwrap();
    assert!(complete.get("adapter").is_none(), "a config without an adapter has the digest that it always had");
    let folder = tempfile::tempdir().unwrap();
    let mut context = sft(folder.path(), 1, None);
    let mut options = sft_options();
    options["adapter"] = json!({"targets": ["qkv_proj"]});
    let error = run_stage::<Sft>(options, &mut context).unwrap_err();
    assert!(error.message.contains("qkv_proj") && error.help.unwrap().contains("q_proj"));
}
