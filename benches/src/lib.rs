//! Shared code of these programs: random models, the measured peak of float32 products, order statistics, and this
//! process's memory. A share of the peak is meaningful only if every program measures the same peak, on this machine,
//! at this time.

use rayon::prelude::*;
use trainyard_core::{Chance, Clock, Result};
use trainyard_lm::families::Rope;
use trainyard_lm::ops::{MatrixView, product};
use trainyard_lm::template::{BuiltinTemplate, ChatEncoder};
use trainyard_lm::tokenizer::character_tokenizer;
use trainyard_lm::{Decoder, GenerationConfig, ModelConfig, ModelFolder};

/// Creates random weights of a shape in which every token may occur. The tokenizer only completes the folder: no text
/// is read or written.
pub fn random_model(config: ModelConfig, chance: &Chance) -> Result<ModelFolder> {
    let template = BuiltinTemplate::Compact;
    let tokenizer = character_tokenizer(["0123456789"], template.special_tokens())?;
    let chat = ChatEncoder::new(tokenizer, template.template()?)?;
    let weights = Decoder::initialize(&config, chance)?.weights()?;
    let mut model = ModelFolder::new(config, weights, chat, GenerationConfig::default())?;
    model.config.unused_tokens.clear();
    Ok(model)
}

/// Returns the shape of SmolLM2-135M.
pub fn smollm2_135m() -> ModelConfig {
    let mut config = ModelConfig::llama(49_152, 576, 1_536, 30, 9, 3);
    (config.architecture.ropes, config.max_position_embeddings) = (vec![Rope::plain(1e5)], 8_192);
    config
}

/// Measures the largest rate of float32 products over all threads of the current pool, in operations per second: of
/// narrow factors, which stay in the cache, and of wide ones.
pub fn peak(clock: &dyn Clock) -> f64 {
    product_rate(clock, (6_144, 344, 128), 60).max(product_rate(clock, (2_048, 1_024, 1_024), 20))
}

fn product_rate(clock: &dyn Clock, (m, n, k): (usize, usize, usize), rounds: usize) -> f64 {
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut out = vec![0.0f32; m * n];
    let mut best = 0.0f64;
    for _ in 0..rounds {
        let start = clock.monotonic();
        out.par_chunks_mut(512 * n).zip(a.par_chunks(512 * k)).for_each(|(out, a)| {
            product((out.len() / n, n, k), MatrixView::rows(a, k), MatrixView::rows(&b, n), out, n, false);
        });
        best = best.max(2.0 * (m * n * k) as f64 / (clock.monotonic() - start).as_secs_f64());
    }
    best
}

/// Measures the most bytes per second that all threads of the current pool together read from memory.
pub fn read_rate(clock: &dyn Clock) -> f64 {
    let numbers = vec![1u64; 1 << 26];
    let piece = numbers.len() / rayon::current_num_threads();
    let mut best = 0.0f64;
    for _ in 0..8 {
        let start = clock.monotonic();
        let sums = numbers.par_chunks(piece).map(|piece| {
            let lanes = piece.as_chunks::<16>().0.iter().fold([0u64; 16], |mut lanes, line| {
                lanes.iter_mut().zip(line).for_each(|(lane, number)| *lane ^= number);
                lanes
            });
            lanes.into_iter().fold(0u64, |all, lane| all ^ lane)
        });
        std::hint::black_box(sums.sum::<u64>());
        best = best.max(size_of_val(&numbers[..]) as f64 / (clock.monotonic() - start).as_secs_f64());
    }
    best
}

/// Returns the quantile at `share` (0 to 1) and sorts the values; 0 for an empty list.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (share * values.len() as f64) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Returns the peak memory of this process so far, in MiB; `None` if the system does not report it.
pub fn peak_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}
