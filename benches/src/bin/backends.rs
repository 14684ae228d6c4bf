//! Training and decoding by every backend: tokens per second on the same shapes.
//!
//! Training is forward, log-probabilities of all next tokens, backward, clipping and AdamW; decoding is prompts of 24
//! tokens, including prefill, and samples at temperature 1. Run with `cargo run --release -p trainyard-benches --bin
//! backends [seconds per figure] [shape] [backend ...]`, where a backend is the value of a stage's `backend`, as JSON
//! (`'{"kind": "candle", "device": "cuda", "dtype": "bf16"}'`); the default is all backends of this build with their
//! defaults. Threads: RAYON_NUM_THREADS.

use serde_json::{Value, json};
use trainyard_benches::random_model;
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_lm::backend::{Backend, LearnerOptions, OutputGradients, SamplerOptions, TokenPosition, registry};
use trainyard_lm::generate::{DrawKey, SequenceRequest};
use trainyard_lm::{ModelConfig, ModelFolder};
use trainyard_tables::SamplingParams;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROMPT: usize = 24;

struct Shape {
    name: &'static str,
    config: ModelConfig,
    /// Number of sequences and their length.
    training: (usize, usize),
    /// Number of sequences and of new tokens per sequence.
    decoding: (usize, usize),
}

fn shapes() -> [Shape; 2] {
    let smollm2 = ModelConfig::llama(49_152, 576, 1_536, 30, 9, 3);
    [
        Shape {
            name: "quickstart",
            config: ModelConfig::llama(493, 96, 256, 3, 4, 4),
            training: (32, 64),
            decoding: (64, 48),
        },
        Shape { name: "smollm2-135m", config: smollm2, training: (2, 128), decoding: (8, 16) },
    ]
}

fn tokens(shape: &Shape, number: usize, length: usize) -> Vec<u32> {
    let mut draws = Chance::new(1).at("tokens", &[number as u64]);
    (0..length).map(|_| draws.below(shape.config.vocab_size as u64) as u32).collect()
}

/// Runs `work` once to warm up and then for `seconds`, at least three times; returns the median time.
fn median(clock: &dyn Clock, seconds: f64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let (end, mut times) = (clock.monotonic().as_secs_f64() + seconds, Vec::new());
    while clock.monotonic().as_secs_f64() < end || times.len() < 3 {
        let start = clock.monotonic();
        work()?;
        times.push((clock.monotonic() - start).as_secs_f64());
    }
    Ok(trainyard_benches::quantile(&mut times, 0.5))
}

fn training(clock: &dyn Clock, backend: &dyn Backend, model: &ModelFolder, shape: &Shape, seconds: f64) -> Result<f64> {
    let (count, length) = shape.training;
    let mut learner = backend.learner(model, &LearnerOptions::default())?;
    let sequences: Vec<Vec<u32>> = (0..count).map(|i| tokens(shape, i, length)).collect();
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let positions = TokenPosition::from_masks(&vec![vec![true; length]; count]);
    let slopes = vec![-1.0 / positions.len() as f64; positions.len()];
    let step = || {
        learner.forward(&sequences, &positions, 1.0)?;
        learner.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })?;
        learner.step(1e-3).map(|_| ())
    };
    Ok((count * length) as f64 / median(clock, seconds, step)?)
}

fn decoding(clock: &dyn Clock, backend: &dyn Backend, model: &ModelFolder, shape: &Shape, seconds: f64) -> Result<f64> {
    let (count, new) = shape.decoding;
    let mut sampler = backend.sampler(model, &SamplerOptions { threads: rayon::current_num_threads() })?;
    let request = |i: usize| SequenceRequest {
        tokens: tokens(shape, i, PROMPT),
        draw: DrawKey { chance: Chance::new(1), problem: i as u64, sample: 0 },
        sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
        stop_tokens: Vec::new(),
        max_new_tokens: new,
    };
    let run = || {
        let ids = (0..count).map(|i| sampler.start(request(i))).collect::<Result<Vec<_>>>()?;
        while sampler.running() > 0 {
            sampler.step()?;
        }
        ids.into_iter().for_each(|id| drop(sampler.remove(id)));
        Ok(())
    };
    Ok((count * new) as f64 / median(clock, seconds, run)?)
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let prefix = arguments.get(1).map_or("", String::as_str);
    let family = registry::family();
    let read = |text: &String| serde_json::from_str(text).map_err(|e| Error::invalid(format!("{text}: {e}")));
    let mut chosen: Vec<Value> = arguments.iter().skip(2).map(read).collect::<Result<_>>()?;
    if chosen.is_empty() {
        chosen = family.names().into_iter().map(|kind| json!({ "kind": kind })).collect();
    }
    let clock = SystemClock::new();
    println!("{} threads", rayon::current_num_threads());
    for shape in shapes().iter().filter(|shape| shape.name.starts_with(prefix)) {
        let model = random_model(shape.config.clone(), &Chance::new(1))?;
        for options in &chosen {
            let backend = family.build(options, &trainyard_core::Secrets::default())?;
            let training = training(&clock, &*backend, &model, shape, seconds)?;
            let decoding = decoding(&clock, &*backend, &model, shape, seconds)?;
            println!("{} {options}: training {training:.0}, decoding {decoding:.0} tokens/s", shape.name);
        }
    }
    Ok(())
}
