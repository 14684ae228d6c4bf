//! What the programs of this crate share: random models, the measured peak of float32 products, order statistics, and
//! this process's memory. A share of the peak means something only if every program measures the same peak, on this
//! machine, at this time.

use rayon::prelude::*;
use trainyard_core::{Chance, Clock, Result};
use trainyard_lm::ops::{Matrix, product};
use trainyard_lm::template::{Builtin, Chat};
use trainyard_lm::tokenizer::character_tokenizer;
use trainyard_lm::{Decoder, GenerationConfig, ModelConfig, ModelFolder};

/// Random weights of a shape, all of whose tokens may occur. The tokenizer only completes the folder: no text is read
/// or written.
pub fn random_model(config: ModelConfig, chance: &Chance) -> Result<ModelFolder> {
    let template = Builtin::Compact;
    let tokenizer = character_tokenizer(["0123456789"], template.special_tokens())?;
    let chat = Chat::new(tokenizer, template.template()?)?;
    let weights = Decoder::initialize(&config, chance)?.weights()?;
    let mut model = ModelFolder::new(config, weights, chat, GenerationConfig::default())?;
    model.config.unused_tokens.clear();
    Ok(model)
}

/// Largest rate of float32 products over all threads of the current pool, in operations per second.
pub fn peak(clock: &dyn Clock) -> f64 {
    let (m, n, k) = (6_144, 344, 128);
    let (a, b) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
    let mut out = vec![0.0f32; m * n];
    let mut best = 0.0f64;
    for _ in 0..60 {
        let start = clock.monotonic();
        out.par_chunks_mut(512 * n).zip(a.par_chunks(512 * k)).for_each(|(out, a)| {
            product((out.len() / n, n, k), Matrix::rows(a, k), Matrix::rows(&b, n), out, n, false);
        });
        best = best.max(2.0 * (m * n * k) as f64 / (clock.monotonic() - start).as_secs_f64());
    }
    best
}

/// The value that `share` (0 to 1) of the sorted values lie below; 0 for an empty list. Sorts.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let place = (share * values.len() as f64) as usize;
    values.get(place.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// Most memory that this process has held so far, in MiB; none if the system does not say.
pub fn peak_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}
