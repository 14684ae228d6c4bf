//! Compares a real llama.cpp server with the reference on a real model, if both are available.

use crate::kit::{open, options, turn};
use std::path::PathBuf;
use trainyard_core::Chance;
use trainyard_lm::backend::endpoint::InferenceServerKind;
use trainyard_lm::generate::{DrawKey, SequenceRequest};
use trainyard_lm::gguf;
use trainyard_tables::SamplingParams;

/// Set TRAINYARD_TEST_GGUF to SmolLM2-135M-Instruct-Q4_1, and TRAINYARD_TEST_LLAMA_CPP to the URL of a llama.cpp server
/// that has this file.
#[test]
fn real_server_agrees_with_the_reference() {
    let file = std::env::var_os("TRAINYARD_TEST_GGUF").map(PathBuf::from);
    let (Some(file), Ok(url)) = (file, std::env::var("TRAINYARD_TEST_LLAMA_CPP")) else {
        eprintln!("SKIPPED: TRAINYARD_TEST_GGUF and TRAINYARD_TEST_LLAMA_CPP name no model and no server of it");
        return;
    };
    let model = gguf::load(&file, None).unwrap();
    let mut sampler = open(options(InferenceServerKind::LlamaCpp, &url), &model).unwrap();
    let mut reference = model.generator(2).unwrap();
    let text =
        "<|im_start|>user\nTom has 3 apples and buys 5 more. How many has he?<|im_end|>\n<|im_start|>assistant\n";
    let prompt = model.chat.tokenizer().encode(text).unwrap();
    let greedy = SamplingParams { temperature: 0.0, top_p: 1.0, top_k: 0 };
    let plain = SamplingParams { temperature: 1.0, ..greedy };
    for sampling in [greedy, plain, SamplingParams { temperature: 0.7, top_p: 0.95, top_k: 40 }] {
        let mut off: Vec<f64> = Vec::new();
        for sample in 0..4 {
            let draw = DrawKey { chance: Chance::new(1), problem: 0, sample };
            let state = turn(
                &mut *sampler,
                SequenceRequest {
                    tokens: prompt.clone(),
                    draw,
                    sampling,
                    stop_tokens: model.stop_tokens().to_vec(),
                    max_new_tokens: 48,
                },
            );
            let state = state.unwrap();
            let forced = reference.logprobs_of(&[&state.token_ids], &sampling).unwrap().remove(0).logprobs;
            let own = prompt.len()..state.token_ids.len();
            assert!(own.len() > 4, "{:?}", model.chat.tokenizer().decode(&state.token_ids[own]));
            // At the edge of a truncation the two may keep different tokens.
            let both = own.map(|t| f64::from((forced[t] - state.logprobs[t]).abs())).filter(|off| off.is_finite());
            off.extend(both);
        }
        let (mean, max) = (off.iter().sum::<f64>() / off.len() as f64, off.iter().copied().fold(0.0, f64::max));
        eprintln!("{sampling:?}: {} tokens, {mean:.4} nats apart in the mean, {max:.4} at most", off.len());
        // llama.cpp multiplies quantized weights with quantized activations.
        assert!(mean < 0.1, "{sampling:?}: {mean} nats apart");
    }
}
