//! Measures the peak resident memory and the seconds of training steps of a model of a given size, with random weights,
//! next to the lower bound that `check` computes.
//!
//! `cargo run --release -p trainyard-lm --example memory_step -- SHAPE full|lora ROWS TOKENS [STEPS]`, where SHAPE is
//! `22m`, `60m`, `135m` (SmolLM2-135M), `0.5b` or `1.5b` (Qwen2.5). The program writes the weights to a folder and
//! reads them back, as a stage reads its input, so the peak is that of loading and training. RAYON_NUM_THREADS sets the
//! number of threads. The program runs on Linux only: the peak is `VmHWM` of /proc/self/status.

use candle_core::{Device, Tensor};
use std::path::Path;
use std::process::Command;
use trainyard_core::{Chance, Clock, Error, Result, SystemClock};
use trainyard_lm::adapter::{Adapter, AdapterOptions};
use trainyard_lm::backend::cpu::Cpu;
use trainyard_lm::backend::{
    Backend, LearnerOptions, OutputGradients, TokenPosition, TrainableParameters, conformance,
};
use trainyard_lm::families::{Rope, find};
use trainyard_lm::memory::TrainingMemory;
use trainyard_lm::{GenerationConfig, ModelConfig, ModelFolder};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn shape(name: &str) -> Result<ModelConfig> {
    let qwen = |hidden, inner, layers, heads| {
        let mut config = ModelConfig::llama(151_936, hidden, inner, layers, heads, 2);
        (config.family, config.architecture.attention_bias) = (find("qwen2")?, true);
        (config.architecture.ropes, config.max_position_embeddings) = (vec![Rope::plain(1e6)], 32_768);
        Ok(config)
    };
    match name {
        "22m" => Ok(ModelConfig { max_position_embeddings: 4_096, ..ModelConfig::llama(8_192, 384, 1_024, 11, 6, 6) }),
        "60m" => Ok(ModelConfig { max_position_embeddings: 4_096, ..ModelConfig::llama(32_000, 512, 1_408, 14, 8, 4) }),
        "135m" => {
            let mut config = ModelConfig::llama(49_152, 576, 1_536, 30, 9, 3);
            (config.architecture.ropes, config.max_position_embeddings) = (vec![Rope::plain(1e5)], 8_192);
            Ok(config)
        }
        "0.5b" => qwen(896, 4_864, 24, 14),
        "1.5b" => qwen(1_536, 8_960, 28, 12),
        _ => Err(Error::invalid(format!("unknown shape `{name}`")).help("use 22m, 60m, 135m, 0.5b or 1.5b")),
    }
}

/// Returns random weights read from a folder that another process has written, so that creating them uses no memory of
/// this process.
fn model(name: &str) -> Result<ModelFolder> {
    let folder = tempfile::tempdir().map_err(Error::bug)?;
    let program = std::env::current_exe().map_err(Error::bug)?;
    let written = Command::new(program).args(["write", name]).arg(folder.path()).status().map_err(Error::bug)?;
    if !written.success() {
        return Err(Error::bug("the model could not be written"));
    }
    ModelFolder::load(folder.path())
}

fn write(config: ModelConfig, folder: &Path) -> Result<()> {
    let weights = config.parameters().into_iter().map(numbers).collect::<Result<_>>()?;
    ModelFolder::new(config, weights, conformance::model().chat, GenerationConfig::default())?.save(folder)
}

/// Returns small uniform numbers for weights, and 1 for norms.
fn numbers((name, shape): (String, Vec<usize>)) -> Result<(String, Tensor)> {
    let (count, scale) = (shape.iter().product::<usize>(), 0.06 / f64::from(u32::MAX));
    let mut draws = Chance::new(1).at(&name, &[]);
    let mut draw = || (f64::from(draws.next_u32()) * scale - 0.03) as f32;
    let norm = name.ends_with("norm.weight");
    let values: Vec<f32> = (0..count).map(|_| if norm { 1.0 } else { draw() }).collect();
    Ok((name, Tensor::from_vec(values, shape, &Device::Cpu).map_err(Error::bug)?))
}

/// Returns the peak resident memory of the process, in GB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or(f64::NAN) * 1024.0 / 1e9
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, folder] = args.as_slice()
        && first == "write"
    {
        return write(shape(name)?, Path::new(folder));
    }
    let usage = || Error::invalid("usage: memory_step SHAPE full|lora ROWS TOKENS [STEPS]");
    let number = |i: usize| args.get(i).and_then(|text| text.parse::<usize>().ok());
    let (Some(name), Some(how), Some(rows), Some(tokens)) = (args.first(), args.get(1), number(2), number(3)) else {
        return Err(usage());
    };
    let mut model = model(name)?;
    println!("loaded: {:.2} GB at most", peak());
    let options = AdapterOptions::default();
    let adapter = (how == "lora").then_some(&options);
    let estimate =
        TrainingMemory { adapter, tokens: rows * tokens, samples: false }.lower_bound(&model.config) as f64 / 1e9;
    let learns = match how.as_str() {
        "full" => TrainableParameters::All,
        "lora" => {
            let adapter = Adapter::new(&model.config, &options, &Chance::new(2))?;
            model = model.adapted(adapter)?;
            TrainableParameters::Adapter
        }
        _ => return Err(usage()),
    };
    println!(
        "{name}: {:.1} M parameters, {how}, {rows} rows of {tokens} tokens",
        model.config.parameter_count() as f64 / 1e6
    );
    let mut learner = Cpu.learner(&model, &LearnerOptions { trainable: learns, ..LearnerOptions::default() })?;
    if learns == TrainableParameters::All {
        model.weights.clear();
    }
    let sequence = |i: usize| (0..tokens).map(|t| 10 + ((t * t + 7 * i) % 40) as u32).collect::<Vec<u32>>();
    let sequences: Vec<Vec<u32>> = (0..rows).map(sequence).collect();
    let sequences: Vec<&[u32]> = sequences.iter().map(Vec::as_slice).collect();
    let positions = TokenPosition::from_masks(&sequences.iter().map(|s| vec![true; s.len()]).collect::<Vec<_>>());
    let slopes = vec![-1.0 / positions.len() as f64; positions.len()];
    let clock = SystemClock::new();
    for step in 0..number(4).unwrap_or(2) {
        let start = clock.monotonic();
        learner.forward(&sequences, &positions, 1.0)?;
        let forward = clock.monotonic();
        learner.backward(&OutputGradients { logprobs: &slopes, ..OutputGradients::default() })?;
        learner.step(1e-5)?;
        let end = clock.monotonic();
        println!(
            "step {step}: {:.1} s ({:.1} forward), {:.0} tokens/s, peak {:.2} GB",
            (end - start).as_secs_f64(),
            (forward - start).as_secs_f64(),
            (rows * tokens) as f64 / (end - start).as_secs_f64(),
            peak()
        );
    }
    println!("estimate {estimate:.2} GB, peak / estimate {:.2}", peak() / estimate);
    Ok(())
}
