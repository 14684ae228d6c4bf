//! Training steps: tokens per second, and the share of this machine's measured matrix-product peak.
//!
//! One step = forward, log-probabilities of all next tokens, backward, clipping, AdamW, as in a stage. Run with `cargo
//! run --release -p trainyard-benches --bin train_step [seconds per shape] [shape]`; `peers/train_step.py` runs PyTorch
//! on the same shapes. Threads: RAYON_NUM_THREADS. A stage's process runs under the environment that
//! `trainyard_lm::threads` lists; set it here too.

use trainyard_benches::{peak, random_model, smollm2_135m};
use trainyard_core::{Chance, Clock, Result, SystemClock};
use trainyard_lm::ModelConfig;
use trainyard_lm::adapter::{Adapter, AdapterOptions};
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::{Backend, Learner, LearnerOptions, OutputGradients, TokenPosition, TrainableParameters};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A decoder and a batch of equal sequences.
struct Shape {
    name: &'static str,
    config: ModelConfig,
    /// Whether a LoRA adapter of rank 16 on all linear layers learns instead of the model.
    adapter: bool,
    sequences: usize,
    length: usize,
}

fn shapes() -> [Shape; 4] {
    [
        Shape {
            name: "quickstart (96 wide, 3 layers, 32 x 64)",
            config: ModelConfig::llama(493, 96, 256, 3, 4, 4),
            adapter: false,
            sequences: 32,
            length: 64,
        },
        Shape {
            name: "small (128 wide, 4 layers, 64 x 96)",
            config: ModelConfig::llama(256, 128, 344, 4, 4, 4),
            adapter: false,
            sequences: 64,
            length: 96,
        },
        Shape {
            name: "135m (SmolLM2-135M, 4 x 512)",
            config: smollm2_135m(),
            adapter: false,
            sequences: 4,
            length: 512,
        },
        Shape {
            name: "lora-135m (SmolLM2-135M, LoRA of rank 16, 4 x 512)",
            config: smollm2_135m(),
            adapter: true,
            sequences: 4,
            length: 512,
        },
    ]
}

impl Shape {
    fn tokens(&self) -> usize {
        self.sequences * self.length
    }
    /// Returns the floating-point operations of one step: 6 per weight of a matrix and token, or 4 if it does not
    /// learn, and the causal half of the attention products. Those of an adapter are left out.
    fn operations(&self) -> f64 {
        let c = &self.config;
        let weights =
            c.parameters().iter().filter(|(_, s)| s.len() == 2).map(|(_, s)| s[0] * s[1]).sum::<usize>() as f64;
        let attention = (self.length * c.query_width() * c.num_hidden_layers) as f64 * 6.0;
        let each = if self.adapter { 4.0 } else { 6.0 };
        (each * weights + attention) * self.tokens() as f64
    }
}

fn step(clock: &dyn Clock, learner: &mut dyn Learner, sequences: &[&[u32]]) -> Result<[f64; 3]> {
    let positions = TokenPosition::from_masks(&sequences.iter().map(|s| vec![true; s.len()]).collect::<Vec<_>>());
    let slopes = vec![-1.0 / positions.len() as f64; positions.len()];
    let start = clock.monotonic();
    learner.forward(sequences, &positions, 1.0)?;
    let forward = clock.monotonic();
    learner.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })?;
    let backward = clock.monotonic();
    learner.step(1e-3)?;
    let end = clock.monotonic();
    Ok([forward - start, backward - forward, end - backward].map(|d| d.as_secs_f64()))
}

fn measure(clock: &dyn Clock, shape: &Shape, seconds: f64, peak: f64) -> Result<()> {
    let chance = Chance::new(1);
    let mut model = random_model(shape.config.clone(), &chance)?;
    let mut options = LearnerOptions::default();
    if shape.adapter {
        let adapter = Adapter::new(&model.config, &AdapterOptions::default(), &chance)?;
        (model, options.trainable) = (model.adapted(adapter)?, TrainableParameters::Adapter);
    }
    let mut learner = Cpu.learner(&model, &options)?;
    drop(model);
    let sequence = |i: usize| -> Vec<u32> {
        let mut draws = chance.at("tokens", &[i as u64]);
        (0..shape.length).map(|_| draws.below(shape.config.vocab_size as u64) as u32).collect()
    };
    let sequences: Vec<Vec<u32>> = (0..shape.sequences).map(sequence).collect();
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    for _ in 0..2 {
        step(clock, &mut *learner, &sequences)?;
    }
    let (end, mut steps) = (clock.monotonic().as_secs_f64() + seconds, Vec::new());
    while clock.monotonic().as_secs_f64() < end || steps.len() < 3 {
        steps.push(step(clock, &mut *learner, &sequences)?);
    }
    steps.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
    let median = steps[steps.len() / 2];
    let total: f64 = median.iter().sum();
    let [forward, backward, update] = median.map(|s| s * 1e3);
    let rate = shape.operations() / total;
    println!(
        "{}: {:.0} tokens/s, {:.1} ms a step (median of {})",
        shape.name,
        shape.tokens() as f64 / total,
        total * 1e3,
        steps.len()
    );
    println!("  forward {forward:.1}, backward {backward:.1}, AdamW {update:.1} ms");
    println!("  {:.1} GFLOP/s, {:.0}% of the peak", rate / 1e9, 100.0 * rate / peak);
    Ok(())
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let prefix = std::env::args().nth(2).unwrap_or_default();
    let clock = SystemClock::new();
    let peak = peak(&clock);
    println!("{} threads, matrix products {:.1} GFLOP/s", rayon::current_num_threads(), peak / 1e9);
    let shapes = shapes();
    let mut chosen = shapes.iter().filter(|shape| shape.name.starts_with(&prefix));
    chosen.try_for_each(|shape| measure(&clock, shape, seconds, peak))
}
