//! Computes log-probabilities and entropies of tokens, with the gradients of both, over slices of the logits.
//!
//! The whole logits are never in memory. The gradient is hand-written, so the forward pass keeps no state.

use crate::config::ModelConfig;
use candle_core::{D, DType, Device, Result, Tensor};

/// Maximum number of logits in memory at once.
const LOGITS: usize = 1 << 25;

/// Tokens to predict and the rows that predict them.
pub struct PredictionTargets {
    /// Rows of the hidden states.
    pub rows: Vec<u32>,
    /// The token that follows each row.
    pub tokens: Vec<u32>,
    /// Divides the logits.
    pub temperature: f64,
    /// See [`penalty`].
    pub penalty: Option<Tensor>,
}

/// A value so far below every logit that its exponential is 0, and finite, so that its product with 0 is 0.
pub const LOW: f32 = -1e4;

/// Returns the addend `[1, vocabulary]` of the logits that gives ids unknown to the tokenizer probability 0, or `None`
/// if the tokenizer has all ids.
pub fn penalty(config: &ModelConfig, device: &Device) -> Result<Option<Tensor>> {
    if config.unused_tokens.is_empty() {
        return Ok(None);
    }
    let mut row = vec![0.0f32; config.vocab_size];
    config.unused_tokens.iter().for_each(|ids| row[ids.start as usize..ids.end as usize].fill(LOW));
    Tensor::from_vec(row, (1, config.vocab_size), device).map(Some)
}

/// Adds the penalty to logits.
pub fn penalized(logits: Tensor, penalty: Option<&Tensor>) -> Result<Tensor> {
    match penalty {
        Some(penalty) => logits.broadcast_add(penalty),
        None => Ok(logits),
    }
}

/// A slice of the targets, on the device.
struct LogitsChunk {
    /// `[n, hidden]`, in the type of the head.
    hidden: Tensor,
    rows: Tensor,
    /// `[n, 1]`.
    tokens: Tensor,
    /// `[n, vocabulary]`: logits over temperature minus the maximum, float32.
    scaled: Tensor,
    /// `[n, vocabulary]`: exp of `scaled`.
    masses: Tensor,
    /// `[n, 1]`: log of the sum of `masses`.
    log_total: Tensor,
    /// `[n, 1]`.
    entropy: Tensor,
}

impl PredictionTargets {
    /// Returns log-probabilities and entropies, one number per target; `weight` is the head `[vocabulary, hidden]`.
    pub fn outputs(&self, hidden: &Tensor, weight: &Tensor) -> Result<(Vec<f64>, Vec<f64>)> {
        let (mut logprobs, mut entropies) = (Vec::new(), Vec::new());
        for at in self.chunks(weight)? {
            let piece = self.chunk(hidden, weight, at)?;
            let logprob = (piece.scaled.gather(&piece.tokens, 1)? - &piece.log_total)?;
            let both = Tensor::cat(&[logprob, piece.entropy], 1)?.to_vec2::<f32>()?;
            logprobs.extend(both.iter().map(|row| f64::from(row[0])));
            entropies.extend(both.iter().map(|row| f64::from(row[1])));
        }
        Ok((logprobs, entropies))
    }
    /// Returns the gradients of Σ slope·output with respect to the hidden states and, if it is trained, the head, in
    /// float32. An empty list of slopes means zeros.
    pub fn gradients(
        &self,
        hidden: &Tensor,
        (weight, learns): (&Tensor, bool),
        logprobs: &[f64],
        entropies: &[f64],
    ) -> Result<(Tensor, Option<Tensor>)> {
        let device = hidden.device();
        let mut d_hidden = hidden.zeros_like()?;
        let mut d_weight = if learns { Some(Tensor::zeros(weight.shape(), DType::F32, device)?) } else { None };
        for at in self.chunks(weight)? {
            let piece = self.chunk(hidden, weight, at.clone())?;
            let column = |slopes: &[f64]| {
                let slope = |i: usize| slopes.get(i).map_or(0.0, |s| (s / self.temperature) as f32);
                Tensor::from_vec(at.clone().map(slope).collect::<Vec<f32>>(), (at.len(), 1), device)
            };
            let (on_logprob, on_entropy) = (column(logprobs)?, column(entropies)?);
            let shares = piece.masses.broadcast_div(&piece.log_total.exp()?)?;
            // d H / d z = -p · (log p + H), d log p(target) / d z = [target] - p.
            let log_shares = piece.scaled.broadcast_sub(&piece.log_total)?;
            let entropy_term = log_shares.broadcast_add(&piece.entropy)?.broadcast_mul(&on_entropy)?;
            let d_logits = (shares * entropy_term.broadcast_add(&on_logprob)?)?.neg()?;
            d_logits.scatter_add_set(&piece.tokens, &on_logprob, 1)?;
            let d_logits = d_logits.to_dtype(weight.dtype())?;
            let d_rows = d_logits.matmul(weight)?.to_dtype(DType::F32)?;
            d_hidden = d_hidden.index_add(&piece.rows, &d_rows, 0)?;
            if let Some(sum) = &mut d_weight {
                *sum = (&*sum + d_logits.t()?.matmul(&piece.hidden)?.to_dtype(DType::F32)?)?;
            }
        }
        Ok((d_hidden, d_weight))
    }

    fn chunks(&self, weight: &Tensor) -> Result<Vec<std::ops::Range<usize>>> {
        let (count, size) = (self.rows.len(), (LOGITS / weight.dim(0)?).max(1));
        Ok((0..count).step_by(size).map(|first| first..(first + size).min(count)).collect())
    }
    fn chunk(&self, hidden: &Tensor, weight: &Tensor, at: std::ops::Range<usize>) -> Result<LogitsChunk> {
        let device = hidden.device();
        let rows = Tensor::new(&self.rows[at.clone()], device)?;
        let tokens = Tensor::new(&self.tokens[at], device)?.unsqueeze(1)?;
        let hidden = hidden.index_select(&rows, 0)?.to_dtype(weight.dtype())?;
        let logits = (hidden.matmul(&weight.t()?)?.to_dtype(DType::F32)? * (1.0 / self.temperature))?;
        let logits = penalized(logits, self.penalty.as_ref())?;
        let scaled = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
        let masses = scaled.exp()?;
        let total = masses.sum_keepdim(D::Minus1)?;
        let log_total = total.log()?;
        let entropy = (&log_total - (&masses * &scaled)?.sum_keepdim(D::Minus1)?.div(&total)?)?;
        Ok(LogitsChunk { hidden, rows, tokens, scaled, masses, log_total, entropy })
    }
}
