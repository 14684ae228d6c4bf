//! Batched decoding with a KV cache: tokens per second, and the shares of this machine's measured matrix-product peak
//! and memory rate.
//!
//! Every sequence has a separate prompt of 24 tokens, including prefill, and samples 48 tokens at temperature 1, like a
//! rollout. Run with `cargo run --release -p trainyard-benches --bin decode [seconds per shape] [threads] [shape]
//! [bf16]`; with the last word the weights are rounded to bfloat16, as most models on a hub are saved.
//! `peers/decode.py` runs Hugging Face `generate` on the same shapes.

use trainyard_benches::{read_rate, smollm2_135m};
use trainyard_core::{Chance, Clock, Result, SystemClock};
use trainyard_lm::generate::kernels::{Isa, PackedMatrix, matmul};
use trainyard_lm::generate::{DrawKey, SequenceRequest, WeightSource};
use trainyard_lm::{Decoder, Generator, ModelConfig, Weights};
use trainyard_tables::SamplingParams;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Shape {
    name: &'static str,
    config: ModelConfig,
    batch: usize,
    prompt: usize,
    new: usize,
}

fn shapes() -> [Shape; 6] {
    let mut middle = ModelConfig::llama(1_024, 512, 1_376, 8, 8, 8);
    middle.max_position_embeddings = 1_024;
    let real = |name, batch| Shape { name, config: smollm2_135m(), batch, prompt: 24, new: 48 };
    [
        Shape {
            name: "quickstart (96 wide, 3 layers)",
            config: ModelConfig::llama(493, 96, 256, 3, 4, 4),
            batch: 64,
            prompt: 24,
            new: 48,
        },
        Shape {
            name: "small (128 wide, 4 layers)",
            config: ModelConfig::llama(256, 128, 344, 4, 4, 4),
            batch: 64,
            prompt: 24,
            new: 48,
        },
        Shape { name: "middle (512 wide, 8 layers)", config: middle, batch: 16, prompt: 256, new: 48 },
        real("135m-1 (SmolLM2-135M)", 1),
        real("135m-8 (SmolLM2-135M)", 8),
        real("135m-32 (SmolLM2-135M)", 32),
    ]
}

impl Shape {
    /// Returns the floating-point operations of one run: 2 per matrix weight and token, and the attention products.
    fn operations(&self) -> f64 {
        let c = &self.config;
        let head = c.vocab_size * c.hidden_size;
        let body: usize =
            c.parameters().iter().filter(|(_, s)| s.len() == 2).map(|(_, s)| s[0] * s[1]).sum::<usize>() - head;
        let length = self.prompt + self.new - 1;
        let attention = 2 * c.num_hidden_layers * c.query_width() * length * length;
        (self.batch * (2 * body * length + 2 * head * self.new + attention)) as f64
    }
    /// Returns the bytes of weights that one run reads if every step reads each matrix once.
    fn weight_bytes(&self, half: bool) -> f64 {
        let numbers: usize = self.config.parameters().iter().map(|(_, s)| s.iter().product::<usize>()).sum();
        (self.new * numbers * if half { 2 } else { 4 }) as f64
    }
}

/// Weights rounded to bfloat16, towards zero.
struct Rounded(Weights);

impl WeightSource for Rounded {
    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.0.shape(name)
    }
    fn values(&self, name: &str) -> Result<Vec<f32>> {
        Ok(WeightSource::values(&self.0, name)?
            .into_iter()
            .map(|x| f32::from_bits(x.to_bits() & 0xffff_0000))
            .collect())
    }
}

/// Measures the largest rate of the engine's own products on all threads, in operations per second.
fn peak(clock: &dyn Clock, threads: usize) -> f64 {
    let (rows, k, n, rounds) = (96, 128, 352, 2_000);
    let weights = vec![0.1f32; n * k];
    let packed = PackedMatrix::new(k, &[(&weights, None)]);
    let run = || {
        let (x, mut out) = (vec![0.5f32; rows * k], vec![0.0f32; rows * packed.columns()]);
        for _ in 0..rounds {
            matmul((Isa::detect(), 1), &packed, (&x, k), rows, false, &mut out);
        }
        out[0]
    };
    let mut best = 0.0f64;
    for _ in 0..5 {
        let start = clock.monotonic();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            std::hint::black_box(run());
            others.into_iter().for_each(|t| assert!(t.join().is_ok()));
        });
        let seconds = (clock.monotonic() - start).as_secs_f64();
        best = best.max(2.0 * (threads * rounds * rows * k * n) as f64 / seconds);
    }
    best
}

fn requests(shape: &Shape) -> Vec<SequenceRequest> {
    let chance = Chance::new(1);
    let request = |i: usize| {
        let mut draws = chance.at("prompt", &[i as u64]);
        SequenceRequest {
            tokens: (0..shape.prompt).map(|_| draws.below(shape.config.vocab_size as u64) as u32).collect(),
            draw: DrawKey { chance, problem: i as u64, sample: 0 },
            sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
            stop_tokens: Vec::new(),
            max_new_tokens: shape.new,
        }
    };
    (0..shape.batch).map(request).collect()
}

struct Machine<'a> {
    clock: &'a dyn Clock,
    threads: usize,
    peak: f64,
    read: f64,
}

fn measure(machine: &Machine<'_>, shape: &Shape, seconds: f64, half: bool) -> Result<()> {
    let Machine { clock, threads, peak, read } = *machine;
    let weights = Decoder::initialize(&shape.config, &Chance::new(1))?.weights()?;
    let mut generator = if half {
        Generator::new(&shape.config, &Rounded(weights), threads)?
    } else {
        Generator::new(&shape.config, &weights, threads)?
    };
    generator.generate(requests(shape))?;
    let (end, mut times) = (clock.monotonic().as_secs_f64() + seconds, Vec::new());
    while clock.monotonic().as_secs_f64() < end || times.len() < 3 {
        let start = clock.monotonic();
        let states = generator.generate(requests(shape))?;
        times.push((clock.monotonic() - start).as_secs_f64());
        assert!(states.iter().all(|s| s.token_ids.len() == shape.prompt + shape.new));
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let sampled = (shape.batch * shape.new) as f64;
    println!(
        "{}, batch {}, {} + {} tokens: {:.0} tokens/s [{:.0} to {:.0}], {:.1} ms a run (median of {})",
        shape.name,
        shape.batch,
        shape.prompt,
        shape.new,
        sampled / median,
        sampled / times[times.len() - 1],
        sampled / times[0],
        median * 1e3,
        times.len()
    );
    let rate = shape.operations() / median;
    let bytes = shape.weight_bytes(half) / median;
    println!(
        "  {:.1} GFLOP/s, {:.0}% of the peak; weights at {:.1} GB/s, {:.0}% of the memory rate",
        rate / 1e9,
        100.0 * rate / peak,
        bytes / 1e9,
        100.0 * bytes / read
    );
    Ok(())
}

fn main() -> Result<()> {
    let argument = |i: usize| std::env::args().nth(i);
    let seconds = argument(1).and_then(|s| s.parse().ok()).unwrap_or(5.0);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let threads = argument(2).and_then(|s| s.parse().ok()).unwrap_or(cores);
    let clock = SystemClock::new();
    let (peak, read) = (peak(&clock, threads), read_rate(&clock));
    println!(
        "{threads} threads, {}, products {:.1} GFLOP/s, reading {:.1} GB/s",
        Isa::detect().name(),
        peak / 1e9,
        read / 1e9
    );
    let (prefix, half) = (argument(3).unwrap_or_default(), argument(4).is_some_and(|word| word == "bf16"));
    let machine = Machine { clock: &clock, threads, peak, read };
    shapes()
        .iter()
        .filter(|s| s.name.starts_with(&prefix))
        .try_for_each(|shape| measure(&machine, shape, seconds, half))
}
