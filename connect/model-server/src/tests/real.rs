//! Tests that a small random model responds like the engine, regardless of concurrent requests.

use super::scripted::{options, send, wait};
use crate::{ModelServer, ModelServerOptions};
use trainyard_core::Chance;
use trainyard_lm::backend::conformance::model;
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::{Backend as _, SamplerOptions};
use trainyard_lm::generate::{DrawKey, SequenceRequest, SequenceState};
use trainyard_model_api::{ApiKind, ModelPrompt, ModelRequest, ResponseChoice};
use trainyard_tables::SamplingParams;

fn server(max_batch: usize) -> ModelServer {
    let model = model();
    let sampler = Cpu.sampler(&model, &SamplerOptions { threads: 2 }).unwrap();
    ModelServer::start(&model.chat, &model.generation, sampler, ModelServerOptions { max_batch, ..options() }).unwrap()
}

fn chat_request(seed: u64, first: u32) -> ModelRequest {
    let prompt = ModelPrompt::Tokens(vec![first, first + 1, 12]);
    ModelRequest {
        seed: Some(seed),
        max_tokens: Some(20),
        temperature: Some(0.8),
        top_k: Some(9),
        logprobs: Some(3),
        prompt_logprobs: true,
        ignore_end: true,
        ..ModelRequest::new(ApiKind::Completions, "m", prompt)
    }
}

fn expected(seed: u64, first: u32, sample: u64) -> SequenceState {
    let mut generator = model().generator(1).unwrap();
    let request = SequenceRequest {
        tokens: vec![first, first + 1, 12],
        draw: DrawKey { chance: Chance::new(seed), problem: 0, sample },
        sampling: SamplingParams { temperature: 0.8, top_p: 1.0, top_k: 9 },
        stop_tokens: Vec::new(),
        max_new_tokens: 20,
    };
    generator.generate(vec![request]).unwrap().remove(0)
}

fn assert_same(choice: &ResponseChoice, state: &SequenceState) {
    let ids: Vec<u32> = choice.tokens.iter().map(|token| token.id).collect();
    assert_eq!(ids, state.token_ids[3..]);
    let logprobs: Vec<f32> = choice.tokens.iter().filter_map(|token| token.logprob).collect();
    assert_eq!(logprobs, state.logprobs[3..], "to the bit");
}

#[test]
fn response_equals_engine_output_in_any_batch() {
    for max_batch in [1, 3, 16] {
        let host = server(max_batch);
        let events: Vec<_> = (0..8).map(|seed| send(&host, chat_request(seed, 10 + seed as u32 % 3))).collect();
        for (seed, events) in (0..8).zip(events) {
            let (_, response) = wait(events).unwrap();
            assert_same(&response.choices[0], &expected(seed, 10 + seed as u32 % 3, 0));
        }
    }
}

#[test]
fn choices_are_samples_with_top_logprobs() {
    let host = server(4);
    let (_, response) = wait(send(&host, ModelRequest { n: 3, ..chat_request(7, 10) })).unwrap();
    for (sample, choice) in (0..).zip(&response.choices) {
        assert_same(choice, &expected(7, 10, sample));
        for token in &choice.tokens {
            let [first, second, third] = token.top.as_slice() else { panic!("{:?}", token.top) };
            assert!(first.logprob >= second.logprob && second.logprob >= third.logprob);
            let lowest = token.top.iter().find(|top| top.id == token.id).map_or(third.logprob, |top| top.logprob);
            assert!(token.logprob.unwrap() <= lowest, "{token:?}");
        }
    }
    assert_ne!(response.choices[0].tokens, response.choices[1].tokens);
    let given = response.prompt_logprobs.unwrap();
    let plain = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };
    let scored = model().generator(1).unwrap().logprobs_of(&[&[10, 11, 12]], &plain).unwrap();
    assert_eq!((given, response.prompt_ids), (scored[0].logprobs.clone(), vec![10, 11, 12]));
}

#[test]
fn unseeded_requests_differ_and_invalid_request_fails_alone() {
    let host = server(4);
    let free = || ModelRequest { seed: None, ..chat_request(0, 10) };
    let tokens = |request: ModelRequest| wait(send(&host, request)).unwrap().1.choices.remove(0).tokens;
    assert_ne!(tokens(free()), tokens(free()));
    let good = send(&host, chat_request(1, 10));
    let unknown = wait(send(&host, chat_request(1, 5_000))).unwrap_err();
    assert_eq!(unknown.status, 400, "{}", unknown.message);
    assert_same(&wait(good).unwrap().1.choices[0], &expected(1, 10, 0));
}
