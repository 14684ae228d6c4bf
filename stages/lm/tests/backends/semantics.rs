//! Tests the requests to each server and the interpretation of its numbers.

use crate::kit::{GREEDY, PLAIN, open, options, refusal, request, turn};
use serde_json::{Value, json};
use trainyard_core::{ErrorKind, Secrets};
use trainyard_lm::backend::conformance::model;
use trainyard_lm::backend::endpoint::{EndpointBackend, InferenceServerKind};
use trainyard_lm::backend::{Backend as _, Sampler};
use trainyard_lm::generate::{SequenceFinish, SequenceRequest, SequenceState};
use trainyard_tables::SamplingParams;
use trainyard_testkit_lm::{MockModelServer, MockServerFault, MockServerOptions};

const WARM: SamplingParams = SamplingParams { temperature: 0.7, ..PLAIN };
const TRUNCATED: SamplingParams = SamplingParams { temperature: 0.9, top_p: 0.8, top_k: 7 };

fn served(server: InferenceServerKind, processed: bool) -> (MockModelServer, Box<dyn Sampler>) {
    let served =
        MockModelServer::start(server, &model(), MockServerOptions { processed, ..MockServerOptions::default() })
            .unwrap();
    let sampler = open(options(server, &served.url()), &model()).unwrap();
    (served, sampler)
}

/// Panics unless the recorded numbers are those of the sampled distribution.
fn expect_own_numbers(state: &SequenceState, sampling: &SamplingParams) {
    let mut generator = model().generator(1).unwrap();
    let expected = generator.logprobs_of(&[&state.token_ids], sampling).unwrap().remove(0).logprobs;
    for (t, sampled) in state.loss_mask.iter().enumerate().filter(|(_, sampled)| **sampled) {
        let off = (state.logprobs[t] - expected[t]).abs();
        assert!(*sampled && off < 1e-5, "{sampling:?}: token {t} has {} instead of {}", state.logprobs[t], expected[t]);
    }
    assert!(state.entropies.is_empty(), "no entropies are made up");
}

#[test]
fn logprobs_are_of_the_sampled_distribution_or_sampling_fails() {
    for (server, processed, answered) in [
        (InferenceServerKind::Vllm, true, vec![PLAIN, GREEDY, WARM, TRUNCATED]),
        (InferenceServerKind::Vllm, false, vec![PLAIN, GREEDY]),
        (InferenceServerKind::Sglang, true, vec![PLAIN, GREEDY, WARM]),
        (InferenceServerKind::Sglang, false, vec![PLAIN, GREEDY]),
        (InferenceServerKind::LlamaCpp, false, vec![PLAIN, GREEDY, WARM, TRUNCATED]),
    ] {
        let (_server, mut sampler) = served(server, processed);
        for sampling in [PLAIN, GREEDY, WARM, TRUNCATED] {
            let turn = turn(&mut *sampler, request(sampling, 6));
            if answered.contains(&sampling) {
                expect_own_numbers(&turn.unwrap(), &sampling);
            } else {
                let error = turn.expect_err("a refusal");
                assert_eq!(error.kind, ErrorKind::Invalid, "{server:?} {sampling:?}");
                assert!(error.message.contains("does not return"), "{error}");
                sampler = open(options(server, &_server.url()), &model()).unwrap();
            }
        }
    }
}

#[test]
fn unsupported_sampling_is_rejected_before_the_run() {
    let of = |server: InferenceServerKind, sampling: SamplingParams| {
        EndpointBackend::new(options(server, "http://h:1"), &Secrets::default()).refuses(&sampling)
    };
    assert!(of(InferenceServerKind::Sglang, TRUNCATED).unwrap().0.contains("top-k and top-p"));
    for (server, sampling) in [
        (InferenceServerKind::Sglang, WARM),
        (InferenceServerKind::Vllm, TRUNCATED),
        (InferenceServerKind::LlamaCpp, TRUNCATED),
    ] {
        assert_eq!(of(server, sampling), None);
    }
}

/// Returns the last request to a path.
fn last(served: &MockModelServer, path: &str) -> Value {
    served.seen().into_iter().rfind(|(of, _)| of == path).unwrap().1
}

#[test]
fn every_option_of_sampling_is_sent() {
    let base = SequenceRequest { stop_tokens: vec![5, 6], ..request(TRUNCATED, 9) };
    let (vllm, mut sampler) = served(InferenceServerKind::Vllm, true);
    turn(&mut *sampler, base.clone()).unwrap();
    let mut body = last(&vllm, "/v1/completions");
    assert!(body["seed"].take().as_u64().is_some_and(|seed| seed < 1 << 63));
    let expected = json!({
        "model": "served", "prompt": [10, 11, 12], "max_tokens": 9, "temperature": 0.9, "top_p": 0.8, "top_k": 7,
        "min_p": 0.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0, "seed": null,
        "stop_token_ids": [5, 6], "ignore_eos": true, "include_stop_str_in_output": true, "skip_special_tokens": false,
        "add_special_tokens": false, "logprobs": 1, "return_token_ids": true, "return_tokens_as_token_ids": true,
    });
    assert_eq!(body, expected);

    let (sglang, mut sampler) = served(InferenceServerKind::Sglang, true);
    turn(&mut *sampler, SequenceRequest { sampling: WARM, ..base.clone() }).unwrap();
    let mut body = last(&sglang, "/generate");
    assert!(body["sampling_params"]["sampling_seed"].take().as_u64().is_some_and(|seed| seed < 1 << 31));
    let expected = json!({
        "input_ids": [10, 11, 12],
        "sampling_params": {
            "max_new_tokens": 9, "temperature": 0.7, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "presence_penalty": 0.0,
            "frequency_penalty": 0.0, "repetition_penalty": 1.0, "sampling_seed": null, "stop_token_ids": [5, 6],
            "ignore_eos": true, "no_stop_trim": true, "skip_special_tokens": false,
        },
        "return_logprob": true, "logprob_start_len": -1, "top_logprobs_num": 0,
    });
    assert_eq!(body, expected);

    let (llama, mut sampler) = served(InferenceServerKind::LlamaCpp, true);
    turn(&mut *sampler, base).unwrap();
    let mut body = last(&llama, "/completion");
    assert!(body["seed"].take().as_u64().is_some_and(|seed| seed < u64::from(u32::MAX)));
    let expected = json!({
        "prompt": [10, 11, 12], "n_predict": 9, "temperature": 0.9, "top_k": 7, "top_p": 0.8,
        "samplers": ["temperature", "top_k", "top_p"], "seed": null, "n_probs": 1, "post_sampling_probs": true,
        "return_tokens": true, "cache_prompt": true, "stream": false,
    });
    assert_eq!(body, expected);
}

#[test]
fn turn_ends_at_the_stages_stop_tokens() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang, InferenceServerKind::LlamaCpp] {
        let (_server, mut sampler) = served(server, true);
        let free = turn(&mut *sampler, request(GREEDY, 8)).unwrap();
        let stop = free.token_ids[6];
        let first = free.token_ids[3..].iter().position(|t| *t == stop).unwrap() + 4;
        // llama.cpp does not know this token as an end token and continues sampling.
        let state = turn(&mut *sampler, SequenceRequest { stop_tokens: vec![stop], ..request(GREEDY, 8) }).unwrap();
        assert_eq!(state.finish, Some(SequenceFinish::Stop(stop)), "{server:?}");
        assert_eq!(state.token_ids, free.token_ids[..first], "{server:?}");
    }
}

#[test]
fn missing_probability_is_recorded_as_nan() {
    let (server, mut sampler) = served(InferenceServerKind::LlamaCpp, true);
    let without = Box::new(|answer: &mut Value| {
        answer["completion_probabilities"].as_array_mut().unwrap().remove(1);
    });
    server.inject_fault("/completion", MockServerFault::Edit(without));
    let state = turn(&mut *sampler, request(GREEDY, 4)).unwrap();
    let unknown = state.logprobs.iter().filter(|number| number.is_nan()).count();
    assert_eq!((state.token_ids.len(), unknown), (7, 1));
}

#[test]
fn shorter_context_is_the_limit() {
    for server in [InferenceServerKind::Vllm, InferenceServerKind::Sglang, InferenceServerKind::LlamaCpp] {
        let server_options = MockServerOptions { context: Some(20), ..MockServerOptions::default() };
        let served = MockModelServer::start(server, &model(), server_options).unwrap();
        let mut sampler = open(options(server, &served.url()), &model()).unwrap();
        assert_eq!(sampler.positions(), 20);
        let error = sampler.start(SequenceRequest { tokens: vec![10; 20], ..request(PLAIN, 4) }).unwrap_err();
        assert!(error.message.contains("leave no position"), "{error}");
        let state = turn(&mut *sampler, request(PLAIN, 40)).unwrap();
        assert_eq!((state.token_ids.len(), state.finish), (20, Some(SequenceFinish::Length)));
    }
}

#[test]
fn server_of_another_kind_is_rejected() {
    for (there, here) in [
        (InferenceServerKind::Vllm, InferenceServerKind::LlamaCpp),
        (InferenceServerKind::LlamaCpp, InferenceServerKind::Vllm),
        (InferenceServerKind::Vllm, InferenceServerKind::Sglang),
    ] {
        let served = MockModelServer::start(there, &model(), MockServerOptions::default()).unwrap();
        let error = refusal(options(here, &served.url()), &model());
        assert!(error.to_string().contains(&served.url()) && error.help.is_some(), "{there:?} {here:?}: {error}");
    }
}
