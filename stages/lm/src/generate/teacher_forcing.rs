//! Computes log-probabilities, hidden states and scores of a reward head for given sequences, with the kernels of the
//! engine.

use super::cache::KvBlocks;
use super::decode::LOGIT_ROWS;
use super::engine::Generator;
use super::forward::{ForwardScratch, SequenceWork, forward};
use super::kernels::{Isa, matmul};
use super::pack::PackedModel;
use super::sampling::{self, Distribution};
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

/// A model's scores of a given sequence; both lists have its length, entry 0 is 0.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceLogprobs {
    /// Log-probability of each token given those before it; NaN where the logits are not finite, negative infinity
    /// where truncated.
    pub logprobs: Vec<f32>,
    /// Entropy in nats of the distribution at each token; NaN where the logits are not finite. Empty if the sampler
    /// provides no entropies.
    pub entropies: Vec<f32>,
}

impl Generator {
    /// Returns teacher-forced log-probabilities and entropies under `sampling`, by the same kernels as decoding:
    /// bit-equal to those that sampling these tokens recorded.
    pub fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        sampling::check(sampling)?;
        self.check_head()?;
        let before = |s: &&[u32]| (0..s.len().saturating_sub(1) as u32).collect::<Vec<_>>();
        let positions: Vec<Vec<u32>> = sequences.iter().map(before).collect();
        let positions: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
        self.forward_given(sequences, &positions, |model, isa, tokens, hidden, scratch| {
            let mut scored = SequenceLogprobs { logprobs: vec![0.0; tokens.len()], entropies: vec![0.0; tokens.len()] };
            let Some(head) = &model.head else { return scored };
            let columns = head.columns();
            for (chunk, hidden) in hidden.chunks(LOGIT_ROWS * model.hidden).enumerate() {
                let rows = hidden.len() / model.hidden;
                scratch.logits.resize(rows * columns, 0.0);
                matmul((isa, 1), head, (hidden, model.hidden), rows, false, &mut scratch.logits);
                for (row, logits) in scratch.logits.chunks_exact(columns).take(rows).enumerate() {
                    let next = chunk * LOGIT_ROWS + row + 1;
                    let (logits, buffer) = (&logits[..model.vocabulary], &mut scratch.probabilities);
                    let distribution = Distribution::new(isa, logits, &model.unused, sampling, buffer);
                    (scored.logprobs[next], scored.entropies[next]) =
                        distribution.map_or((f32::NAN, f32::NAN), |d| (d.logprob(tokens[next]), d.entropy()));
                }
            }
            scored
        })
    }
    /// Returns hidden states after the last norm at the given positions (ascending): `positions.len() * hidden_size`
    /// values per sequence.
    pub fn hidden_of(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.forward_given(sequences, positions, |_, _, _, hidden, _| hidden.to_vec())
    }
    /// Returns the outputs of the scoring head; 0 without a scoring head.
    pub fn score_labels(&self) -> usize {
        self.model.score.as_ref().map_or(0, |s| s.1)
    }
    /// Computes the scoring head (`score.weight`, plus `score.bias` if there is one) at the given positions
    /// (ascending): `positions.len() * score_labels()` raw logits per sequence.
    pub fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        if self.model.score.is_none() {
            return Err(no_scoring_head());
        }
        self.forward_given(sequences, positions, |model, isa, _, hidden, scratch| {
            let Some((head, labels)) = &model.score else { return Vec::new() };
            let rows = hidden.len() / model.hidden;
            scratch.logits.resize(rows * head.columns(), 0.0);
            matmul((isa, 1), head, (hidden, model.hidden), rows, false, &mut scratch.logits);
            scratch.logits.chunks_exact(head.columns()).take(rows).flat_map(|r| &r[..*labels]).copied().collect()
        })
    }

    /// Computes each sequence from its beginning and passes the requested hidden states to `read`. Returns the results
    /// in order.
    fn forward_given<R: Send>(
        &mut self,
        sequences: &[&[u32]],
        positions: &[&[u32]],
        read: impl Fn(&PackedModel, Isa, &[u32], &[f32], &mut ForwardScratch) -> R + Sync,
    ) -> Result<Vec<R>> {
        check_positions(sequences, positions, self.model.positions)?;
        sequences.iter().try_for_each(|sequence| self.sequences.check_tokens(sequence))?;
        self.model.reserve(sequences.iter().map(|s| s.len()).max().unwrap_or(0));
        let shares = split(sequences, positions, self.scratches.len());
        let results = self.parallel(shares, |model, isa, share, scratch| {
            let one = |(tokens, requested): (&[u32], &[u32])| {
                scratch.hidden.clear();
                let mut blocks = KvBlocks::default();
                let used = requested.last().map_or(0, |&p| p as usize + 1);
                forward(
                    model,
                    (isa, 1),
                    &mut [SequenceWork { tokens: &tokens[..used], cached: 0, blocks: &mut blocks, requested }],
                    scratch,
                );
                let hidden = std::mem::take(&mut scratch.hidden);
                let result = read(model, isa, tokens, &hidden, scratch);
                scratch.hidden = hidden;
                result
            };
            share.into_iter().map(one).collect::<Vec<R>>()
        });
        Ok(results.into_iter().flatten().collect())
    }
}

/// Checks positions. Errors: bug, if they are not ascending or exceed their sequence; invalid, if the tokens up to the
/// last requested position (later tokens are not computed) exceed the model's positions.
pub(crate) fn check_positions<P: AsRef<[u32]>>(sequences: &[&[u32]], positions: &[P], max: usize) -> Result<()> {
    if sequences.len() != positions.len() {
        return Err(Error::bug(format!("{} sequences, but {} lists of positions", sequences.len(), positions.len())));
    }
    for (sequence, positions) in sequences.iter().zip(positions) {
        let positions = positions.as_ref();
        let used = positions.last().map_or(0, |&p| p as usize + 1);
        if used > max {
            return Err(Error::invalid(format!("a sequence of {used} tokens exceeds the model's {max} positions")));
        }
        if !positions.is_sorted() || used > sequence.len() {
            return Err(Error::bug("positions must ascend and lie inside the sequence"));
        }
    }
    Ok(())
}

pub(crate) fn no_scoring_head() -> Error {
    Error::invalid("the model has no scoring head (`score.weight`)").help("train one with a `prm` stage")
}

type PositionedSequences<'a> = Vec<(&'a [u32], &'a [u32])>;

/// Divides sequences into contiguous shares of about equal numbers of tokens.
fn split<'a>(sequences: &[&'a [u32]], positions: &[&'a [u32]], threads: usize) -> Vec<PositionedSequences<'a>> {
    let total: usize = sequences.iter().map(|s| s.len() + 1).sum();
    let mut shares: Vec<PositionedSequences<'a>> = (0..threads).map(|_| Vec::new()).collect();
    let mut before = 0;
    for (&sequence, &requested) in sequences.iter().zip(positions) {
        shares[((2 * before + sequence.len() + 1) * threads / (2 * total)).min(threads - 1)]
            .push((sequence, requested));
        before += sequence.len() + 1;
    }
    shares
}
