//! Draws tokens on the device: the logits stay there, and the host receives each token with its log-probability and
//! entropy.
//!
//! The distribution is that of `generate/sampling.rs`: temperature, then top-k, then top-p. The drawn token is the
//! first whose cumulative probability in id order exceeds the caller's uniform number. Tokens with equal logits at the
//! edge of a truncation are all kept. Cumulative sums are computed in blocks, because candle's own implementation
//! multiplies by a matrix of the size of the vocabulary squared.

use super::device::widest;
use candle_core::{D, DType, Device, Result, Tensor};
use trainyard_tables::SamplingParams;

/// Tokens per block of cumulative sums.
const BLOCK: usize = 256;
/// Bisections that find the edge of a truncation: enough to exceed the resolution of float32.
const HALVINGS: usize = 48;

/// Distributions over the vocabulary, one per row.
pub struct Distributions {
    /// `[rows, vocabulary]`: logits over temperature minus the maximum.
    scaled: Tensor,
    /// `[rows, vocabulary]`: exp of `scaled`, 0 where truncated.
    masses: Tensor,
    /// `[rows, 1]`.
    total: Tensor,
    /// `[rows, 1]`: 0 where all logits are finite, else NaN.
    fault: Tensor,
    greedy: bool,
    truncated: bool,
}

/// A drawn token; `None` if the logits of the row are not finite.
pub type DrawnToken = Option<(u32, f32, f32)>;

impl Distributions {
    /// Creates the distributions of float32 logits `[rows, vocabulary]`, all under the same options.
    pub fn new(logits: &Tensor, sampling: &SamplingParams) -> Result<Self> {
        let greedy = sampling.temperature == 0.0;
        let fault = (logits * 0.0)?.sum_keepdim(D::Minus1)?;
        let scaled = if greedy { logits.clone() } else { (logits * (1.0 / sampling.temperature))? };
        let scaled = scaled.broadcast_sub(&scaled.max_keepdim(D::Minus1)?)?;
        let mut masses = scaled.exp()?;
        let vocabulary = logits.dim(1)?;
        let by_count = !greedy && sampling.top_k > 0 && (sampling.top_k as usize) < vocabulary;
        let by_mass = !greedy && sampling.top_p < 1.0;
        if by_count {
            let top_k = Tensor::full(sampling.top_k as f32, (1, 1), logits.device())?;
            masses = keep_down_to(&scaled, &masses, &masses.ones_like()?, &top_k)?;
        }
        if by_mass {
            let needed = (sum(&masses)? * sampling.top_p)?;
            masses = keep_down_to(&scaled, &masses, &masses, &needed)?;
        }
        let total = sum(&masses)?;
        Ok(Self { scaled, masses, total, fault, greedy, truncated: by_count || by_mass })
    }
    /// Draws a token per row. `uniforms` are numbers in [0, 1), which greedy decoding ignores.
    pub fn draw(&self, uniforms: &[f64]) -> Result<Vec<DrawnToken>> {
        let tokens = if self.greedy { self.highest()? } else { self.inverse(uniforms)? };
        let numbers = Tensor::cat(&[&self.logprobs(&tokens)?, &self.entropies()?, &self.fault], 1)?.to_vec2::<f32>()?;
        let tokens = tokens.flatten_all()?.to_vec1::<u32>()?;
        let drawn = |(token, row): (u32, Vec<f32>)| (row[2] == 0.0).then_some((token, row[0], row[1]));
        Ok(tokens.into_iter().zip(numbers).map(drawn).collect())
    }
    /// Returns the log-probability of one given token per row and the entropy of the row's distribution; NaN where
    /// logits are not finite.
    pub fn of(&self, tokens: &[u32]) -> Result<Vec<(f32, f32)>> {
        let tokens = Tensor::new(tokens, self.scaled.device())?.unsqueeze(1)?;
        let numbers = Tensor::cat(&[(self.logprobs(&tokens)? + &self.fault)?, (self.entropies()? + &self.fault)?], 1)?;
        Ok(numbers.to_vec2::<f32>()?.into_iter().map(|row| (row[0], row[1])).collect())
    }

    /// Returns the log-probabilities of `tokens`, `[rows, 1]`; -∞ where truncated.
    fn logprobs(&self, tokens: &Tensor) -> Result<Tensor> {
        let own = self.scaled.gather(tokens, 1)?.sub(&self.total.log()?)?;
        if !self.truncated {
            return Ok(own);
        }
        let kept = self.masses.gather(tokens, 1)?.gt(0.0)?;
        kept.where_cond(&own, &(own.zeros_like()? + f64::NEG_INFINITY)?)
    }
    /// Returns the entropies in nats, `[rows, 1]`.
    fn entropies(&self) -> Result<Tensor> {
        let mean = (&self.masses * &self.scaled)?.sum_keepdim(D::Minus1)?.div(&self.total)?;
        self.total.log()?.sub(&mean)?.relu()
    }
    /// Returns the lowest id among the highest logits, `[rows, 1]`.
    fn highest(&self) -> Result<Tensor> {
        let (rows, vocabulary) = self.scaled.dims2()?;
        let ids = Tensor::arange(0, vocabulary as u32, self.scaled.device())?.to_dtype(DType::F32)?;
        let ids = ids.unsqueeze(0)?.broadcast_as((rows, vocabulary))?;
        let other = (ids.zeros_like()? + (vocabulary - 1) as f64)?;
        self.scaled.ge(0.0)?.where_cond(&ids, &other)?.min_keepdim(D::Minus1)?.to_dtype(DType::U32)
    }
    /// Returns the first token whose cumulative mass passes uniform · total, `[rows, 1]`.
    fn inverse(&self, uniforms: &[f64]) -> Result<Tensor> {
        let (rows, vocabulary) = self.masses.dims2()?;
        let device = self.masses.device();
        let blocks = vocabulary.div_ceil(BLOCK);
        let padded = self.masses.pad_with_zeros(1, 0, blocks * BLOCK - vocabulary)?;
        let padded = padded.reshape((rows, blocks, BLOCK))?;
        let ends = cumulative(&padded.to_dtype(widest(device))?.sum(2)?)?;
        let uniforms = Tensor::from_slice(uniforms, (rows, 1), device_of_f64(device))?;
        let uniforms = uniforms.to_dtype(ends.dtype())?.to_device(device)?;
        let target = (ends.narrow(1, blocks - 1, 1)? * uniforms)?;
        let block = first_above(&ends, &target)?;
        let number = block.to_dtype(DType::U32)?;
        let before = ends.sub(&padded.to_dtype(ends.dtype())?.sum(2)?)?.gather(&number, 1)?;
        let index = number.unsqueeze(2)?.broadcast_as((rows, 1, BLOCK))?.contiguous()?;
        let own = padded.gather(&index, 1)?.squeeze(1)?.to_dtype(ends.dtype())?;
        let within = first_above(&cumulative(&own)?, &(target - before)?)?;
        (block * BLOCK as f64)?.add(&within)?.to_dtype(DType::U32)
    }
}

/// Returns a device that computes in float64: the CPU instead of Metal, which lacks float64.
fn device_of_f64(device: &Device) -> &Device {
    if device.is_metal() { &Device::Cpu } else { device }
}

/// Sets to 0 the masses of logits below an edge, `[rows, 1]`: the highest one at which the sum of `weights` reaches
/// `needed`.
fn keep_down_to(scaled: &Tensor, masses: &Tensor, weights: &Tensor, needed: &Tensor) -> Result<Tensor> {
    let zeros = masses.zeros_like()?;
    let mut low = scaled.min_keepdim(D::Minus1)?;
    let mut high = (low.zeros_like()? + 1.0)?;
    // Truncated tokens have no weight.
    let weights = masses.gt(0.0)?.where_cond(weights, &zeros)?;
    for _ in 0..HALVINGS {
        let middle = ((&low + &high)? * 0.5)?;
        let reached = sum(&scaled.broadcast_ge(&middle)?.where_cond(&weights, &zeros)?)?.broadcast_ge(needed)?;
        low = reached.where_cond(&middle, &low)?;
        high = reached.where_cond(&high, &middle)?;
    }
    scaled.broadcast_ge(&low)?.where_cond(masses, &zeros)
}

/// Returns sums of rows, `[rows, 1]`, computed in the widest type of the device and returned in float32.
fn sum(x: &Tensor) -> Result<Tensor> {
    x.to_dtype(widest(x.device()))?.sum_keepdim(D::Minus1)?.to_dtype(DType::F32)
}

/// Returns running sums along rows.
fn cumulative(x: &Tensor) -> Result<Tensor> {
    let ids = Tensor::arange(0, x.dim(1)? as u32, x.device())?;
    let triangle = ids.unsqueeze(1)?.broadcast_le(&ids.unsqueeze(0)?)?;
    x.matmul(&triangle.to_dtype(x.dtype())?)
}

/// Returns the index of the first running sum of a row that exceeds its target, `[rows, 1]` in float32; if all stay
/// below, the last index with a positive mass.
fn first_above(ends: &Tensor, target: &Tensor) -> Result<Tensor> {
    let (rows, n) = ends.dims2()?;
    let below = |bound: &Tensor| ends.broadcast_lt(bound)?.to_dtype(DType::F32)?.sum_keepdim(D::Minus1);
    let not_above = ends.broadcast_le(target)?.to_dtype(DType::F32)?.sum_keepdim(D::Minus1)?;
    let last = below(&ends.narrow(1, n - 1, 1)?.broadcast_as((rows, 1))?)?;
    not_above.minimum(&last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::kernels::Isa;
    use crate::generate::{Distribution, DistributionBuffer};
    use trainyard_core::Chance;

    const ROWS: usize = 40;

    /// Returns random logits, some rows flat and some steep.
    fn logits(vocabulary: usize) -> Vec<Vec<f32>> {
        let row = |i: usize| {
            let mut draws = Chance::new(1).at("logits", &[i as u64]);
            (0..vocabulary).map(|_| (draws.normal() * (0.3 + i as f64 / 8.0)) as f32).collect()
        };
        (0..ROWS).map(row).collect()
    }

    #[test]
    fn tokens_and_numbers_are_those_of_the_reference() {
        for vocabulary in [5, 256, 257, 3000] {
            let logits = logits(vocabulary);
            let tensor = Tensor::new(logits.clone(), &Device::Cpu).unwrap();
            let uniforms: Vec<f64> = (0..ROWS as u64).map(|i| Chance::new(2).at("u", &[i]).uniform()).collect();
            let options = [(1.0, 1.0, 0), (0.7, 0.9, 0), (1.3, 1.0, 4), (1.0, 0.8, 50), (0.0, 1.0, 0)];
            for (temperature, top_p, top_k) in options {
                let sampling = SamplingParams { temperature, top_p, top_k };
                let drawn = Distributions::new(&tensor, &sampling).unwrap().draw(&uniforms).unwrap();
                for ((row, uniform), drawn) in logits.iter().zip(&uniforms).zip(drawn) {
                    let mut buffer = DistributionBuffer::default();
                    let reference = Distribution::new(Isa::detect(), row, &[], &sampling, &mut buffer).unwrap();
                    let (token, logprob, entropy) = drawn.unwrap();
                    assert_eq!(token, reference.draw(*uniform), "{vocabulary} {sampling:?}");
                    let off = [logprob - reference.logprob(token), entropy - reference.entropy()];
                    assert!(off.iter().all(|off| off.abs() < 1e-4), "{vocabulary} {sampling:?}: {off:?}");
                }
            }
        }
    }
    #[test]
    fn non_finite_rows_draw_no_token_and_do_not_affect_others() {
        let bad = [[0.0, f32::NAN, 1.0], [f32::INFINITY, 0.0, 0.0], [0.0, 50.0, 0.0], [0.0, f32::NEG_INFINITY, 0.0]];
        for sampling in [1.0, 0.0].map(|temperature| SamplingParams { temperature, top_p: 0.9, top_k: 2 }) {
            let rows = Distributions::new(&Tensor::new(&bad, &Device::Cpu).unwrap(), &sampling).unwrap();
            let drawn = rows.draw(&[0.5; 4]).unwrap();
            assert_eq!(drawn.iter().map(|d| d.map(|d| d.0)).collect::<Vec<_>>(), [None, None, Some(1), None]);
            assert!(rows.of(&[0; 4]).unwrap()[0].0.is_nan());
        }
    }

    #[test]
    fn truncated_tokens_are_impossible_and_equal_logits_at_the_edge_stay_together() {
        let rows = Tensor::new(&[[0.0_f32, 2.0, 2.0, 1.0]], &Device::Cpu).unwrap();
        let of = |top_k: u32, token: u32| {
            let sampling = SamplingParams { temperature: 1.0, top_p: 1.0, top_k };
            Distributions::new(&rows, &sampling).unwrap().of(&[token]).unwrap()[0].0
        };
        assert_eq!((of(1, 0), of(1, 3)), (f32::NEG_INFINITY, f32::NEG_INFINITY));
        assert!((of(1, 1) - 0.5_f32.ln()).abs() < 1e-6 && (of(1, 2) - 0.5_f32.ln()).abs() < 1e-6);
    }
}
