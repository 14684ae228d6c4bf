//! Tests weight updates of a server.

use crate::kit::{GREEDY, PLAIN, finish, open, options, refusal, request, turn};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::{Chance, ErrorKind};
use trainyard_lm::adapter::{Adapter, AdapterOptions};
use trainyard_lm::backend::conformance::model;
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::endpoint::{Endpoint, InferenceServerKind, WeightTransferOptions};
use trainyard_lm::backend::{
    Backend as _, LearnerOptions, OutputGradients, Parameters, SamplerOptions, TokenPosition, TrainableParameters,
};
use trainyard_lm::folder::ModelFolder;
use trainyard_testkit_lm::{MockModelServer, MockServerFault, MockServerOptions};

fn with_transfer(server: InferenceServerKind, url: &str, folder: &Path) -> Endpoint {
    let weights = WeightTransferOptions { folder: folder.display().to_string(), seen_as: None };
    Endpoint { weights: Some(weights), ..options(server, url) }
}

/// Returns weights after some steps.
fn learned(model: &ModelFolder, learns: TrainableParameters) -> Parameters {
    let mut learner = Cpu.learner(model, &LearnerOptions { trainable: learns, ..LearnerOptions::default() }).unwrap();
    let tokens: &[u32] = &[10, 11, 12, 13, 14, 15];
    let positions = TokenPosition::from_masks(&[vec![true; 6]]);
    for _ in 0..5 {
        learner.forward(&[tokens], &positions, 1.0).unwrap();
        learner.backward(&OutputGradients { logprobs: &[-1.0; 5], ..OutputGradients::default() }).unwrap();
        learner.step(3e-2).unwrap();
    }
    learner.weights().unwrap()
}

fn adapted() -> ModelFolder {
    let model = model();
    let options: AdapterOptions = serde_json::from_value(json!({"kind": "lora", "rank": 2})).unwrap();
    let adapter = Adapter::new(&model.config, &options, &Chance::new(5)).unwrap();
    model.adapted(adapter).unwrap()
}

/// Returns the greedy turn of a model on the reference.
fn expected(model: &ModelFolder) -> Vec<u32> {
    let mut sampler = Cpu.sampler(model, &SamplerOptions { threads: 1 }).unwrap();
    turn(&mut *sampler, request(GREEDY, 8)).unwrap().token_ids
}

fn folders(at: &TempDir) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(at.path()).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn new_weights_are_those_of_the_learner() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang] {
        let shared = tempfile::tempdir().unwrap();
        let other = ModelFolder::with_parameters(&model(), &learned(&model(), TrainableParameters::All)).unwrap();
        // The server was started with other weights than the stage has.
        let served = MockModelServer::start(server, &other, MockServerOptions::default()).unwrap();
        let mut sampler = open(with_transfer(server, &served.url(), shared.path()), &model()).unwrap();
        let first = turn(&mut *sampler, request(GREEDY, 8)).unwrap();
        assert_eq!(first.token_ids, expected(&model()), "the stage's own come first");
        sampler.set_weights(&learned(&model(), TrainableParameters::All), 3).unwrap();
        let second = turn(&mut *sampler, request(GREEDY, 8)).unwrap();
        assert_eq!(second.token_ids, expected(&other));
        assert_ne!(first.token_ids, second.token_ids);
        assert_eq!((first.weights_version[5], second.weights_version[5], sampler.version()), (0, 3, 3));
        assert_eq!(folders(&shared), ["trainyard-weights-3"], "earlier versions are taken away");
        let reloads =
            || served.seen().iter().filter(|(path, _)| path.contains("weights") || path.contains("rpc")).count();
        let before = reloads();
        sampler.set_weights(&learned(&model(), TrainableParameters::All), 3).unwrap();
        assert_eq!(reloads(), before, "the server has them");
    }
}

#[test]
fn adapters_are_transferred_without_the_base() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang] {
        let shared = tempfile::tempdir().unwrap();
        let model = adapted();
        let served = MockModelServer::start(server, &model, MockServerOptions::default()).unwrap();
        let options = with_transfer(server, &served.url(), shared.path());
        let mut sampler = open(options.clone(), &model).unwrap();
        assert_eq!(turn(&mut *sampler, request(GREEDY, 8)).unwrap().token_ids, expected(&model));
        let weights = learned(&model, TrainableParameters::Adapter);
        sampler.set_weights(&weights, 1).unwrap();
        let after = model.with_parameters(&weights).unwrap();
        let state = turn(&mut *sampler, request(GREEDY, 8)).unwrap();
        assert_eq!(state.token_ids, expected(&after));
        assert_ne!(expected(&after), expected(&model));
        let plain = sampler.logprobs_of(&[&state.token_ids], &PLAIN).unwrap().remove(0).logprobs;
        assert!((plain[4] - state.logprobs[4]).abs() < 1e-5, "given tokens are scored by the adapter");
        // A stage that is run again finds the adapter names of the first run taken.
        let mut again = open(options, &model).unwrap();
        assert_eq!(turn(&mut *again, request(GREEDY, 8)).unwrap().token_ids, expected(&model));
    }
}

#[test]
fn turn_in_flight_ends_under_its_initial_weights() {
    let shared = tempfile::tempdir().unwrap();
    let served = MockModelServer::start(InferenceServerKind::Vllm, &model(), MockServerOptions::default()).unwrap();
    let mut sampler = open(with_transfer(InferenceServerKind::Vllm, &served.url(), shared.path()), &model()).unwrap();
    served.inject_fault("/v1/completions", MockServerFault::Late(Duration::from_millis(400)));
    let id = sampler.start(request(GREEDY, 4)).unwrap();
    sampler.step().unwrap();
    assert_eq!(sampler.running(), 1, "the server takes its time");
    sampler.set_weights(&learned(&model(), TrainableParameters::All), 1).unwrap();
    finish(&mut *sampler).unwrap();
    sampler.append(id, &[13], 4).unwrap();
    finish(&mut *sampler).unwrap();
    let state = sampler.remove(id);
    assert_eq!(state.weights_version[3..], [0, 0, 0, 0, 1, 1, 1, 1, 1]);
    let before = expected(&model());
    assert_eq!(state.token_ids[..7], before[..7]);
}

#[test]
fn failed_weight_updates_are_reported() {
    let shared = tempfile::tempdir().unwrap();
    let served = MockModelServer::start(InferenceServerKind::Vllm, &model(), MockServerOptions::default()).unwrap();
    let mut fixed = open(options(InferenceServerKind::Vllm, &served.url()), &model()).unwrap();
    let error = fixed.set_weights(&learned(&model(), TrainableParameters::All), 1).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.help.unwrap().contains("weights: {folder"));

    let mut sampler = open(with_transfer(InferenceServerKind::Vllm, &served.url(), shared.path()), &model()).unwrap();
    served.inject_fault("/collective_rpc", MockServerFault::Status(404, vec![], r#"{"detail": "Not Found"}"#.into()));
    let error = sampler.set_weights(&learned(&model(), TrainableParameters::All), 1).unwrap_err();
    assert!(error.help.as_ref().unwrap().contains("VLLM_SERVER_DEV_MODE=1"), "{error}");

    let served = MockModelServer::start(InferenceServerKind::Sglang, &model(), MockServerOptions::default()).unwrap();
    let mut sampler = open(with_transfer(InferenceServerKind::Sglang, &served.url(), shared.path()), &model()).unwrap();
    let failed = |a: &mut serde_json::Value| *a = json!({"success": false, "message": "no such folder"});
    served.inject_fault("/update_weights_from_disk", MockServerFault::Edit(Box::new(failed)));
    let error = sampler.set_weights(&learned(&model(), TrainableParameters::All), 1).unwrap_err();
    assert!(error.message.contains("did not load the weights: no such folder"), "{error}");
}

#[test]
fn server_may_have_another_path_of_the_folder() {
    let shared = tempfile::tempdir().unwrap();
    let link = shared.path().join("mounted");
    let real = shared.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let served = MockModelServer::start(InferenceServerKind::Vllm, &model(), MockServerOptions::default()).unwrap();
    let weights =
        WeightTransferOptions { folder: real.display().to_string(), seen_as: Some(link.display().to_string()) };
    let options = Endpoint { weights: Some(weights), ..options(InferenceServerKind::Vllm, &served.url()) };
    open(options, &model()).unwrap();
    let body = served.seen().into_iter().find(|(path, _)| path == "/collective_rpc").unwrap().1;
    assert_eq!(body["kwargs"]["weights_path"], json!(link.join("trainyard-weights-0")));
}

#[test]
fn server_without_the_adapter_is_rejected() {
    let model = adapted();
    let server = MockModelServer::start(InferenceServerKind::LlamaCpp, &model, MockServerOptions::default()).unwrap();
    let refused = refusal(options(InferenceServerKind::LlamaCpp, &server.url()), &model);
    assert!(refused.message.contains("has an adapter") && refused.help.unwrap().contains("model/merge"));
}
