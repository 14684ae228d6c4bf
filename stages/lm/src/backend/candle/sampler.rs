//! Implements decoding on a candle device.

use super::cache::KvSlotHandle;
use super::decoder::{CandleDecoder, UncachedSequence};
use super::draw::{Distributions, DrawnToken};
use super::head::{LOW, penalized};
use super::layer::scaled;
use super::options::Candle;
use crate::backend::{Decode, DecodeSampler, Parameters, Sampler};
use crate::batch::SequenceBatch;
use crate::folder::ModelFolder;
use crate::generate::{Cache, ForbiddenTokens, SequenceEntry, SequenceFinish, SequenceLogprobs, SequenceTable, groups};
use crate::tensor::candle;
use candle_core::{DType, Result, Tensor};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_core::Result as Checked;
use trainyard_tables::SamplingParams;

/// Maximum number of logits in memory at once.
const LOGITS: usize = 1 << 27;
/// Tokens of given sequences that are computed together.
const TOKENS: usize = 8192;

/// Creates the sampler of the backend `candle`.
pub fn sampler(backend: &Candle, model: &ModelFolder) -> Checked<Box<dyn Sampler>> {
    let decoder = CandleDecoder::new(model, backend.device.open()?, backend.dtype)?;
    Ok(Box::new(DecodeSampler::new(CandleDecode(decoder), &model.config)))
}

struct CandleDecode(CandleDecoder);

impl Decode for CandleDecode {
    type Cache = KvSlotHandle;
    const CONSTRAINS: bool = true;

    fn step(&mut self, table: &mut SequenceTable<KvSlotHandle>) -> Checked<()> {
        let (version, positions) = (table.version, table.positions());
        let mut groups = groups(table.running().map(|(_, entry)| entry));
        if groups.is_empty() {
            return Ok(());
        }
        for entry in groups.iter_mut().flatten() {
            entry.state.computed_by(version, entry.cached);
        }
        let mut works: Vec<UncachedSequence<'_>> = groups.iter_mut().map(|group| work(&mut *group[0])).collect();
        let hidden = self.0.advance(&mut works).map_err(candle)?;
        drop(works);
        let mut waiting: Vec<PendingDraw<'_>> = Vec::new();
        for (row, group) in groups.into_iter().enumerate() {
            let cached = group[0].state.token_ids.len();
            let shared = group[0].cache.prefix(cached);
            for (i, entry) in group.into_iter().enumerate() {
                if i > 0 {
                    entry.cache = shared.prefix(cached);
                }
                entry.cached = cached;
                if !entry.is_full() {
                    waiting.push((row, entry));
                }
            }
        }
        self.draw(&hidden, waiting, version, positions).map_err(candle)
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        let CandleDecoder { config, precision, .. } = &self.0;
        let row = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim;
        (tokens * row * precision.dtype().size_in_bytes()) as u64
    }
    fn expect_language_head(&self) -> Checked<()> {
        if self.0.model.head.is_some() { Ok(()) } else { Err(crate::generate::no_language_head()) }
    }
    fn set_weights(&mut self, weights: &Parameters, _version: u32) -> Checked<()> {
        self.0.set_weights(weights)
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Checked<Vec<SequenceLogprobs>> {
        let positions: Vec<Vec<u32>> =
            sequences.iter().map(|s| (0..s.len().saturating_sub(1) as u32).collect()).collect();
        let mut scored: Vec<SequenceLogprobs> = sequences
            .iter()
            .map(|s| SequenceLogprobs { logprobs: vec![0.0; s.len()], entropies: vec![0.0; s.len()] })
            .collect();
        self.read_hidden(sequences, &positions, |decode, hidden, rows| {
            let tokens: Vec<u32> = rows.iter().map(|(s, position)| sequences[*s][*position as usize + 1]).collect();
            for at in decode.pieces(rows.len()) {
                let logits = decode.logits(hidden, &at)?;
                let numbers = Distributions::new(&logits, sampling)?.of(&tokens[at.clone()])?;
                for ((sequence, position), (logprob, entropy)) in rows[at].iter().zip(numbers) {
                    let next = *position as usize + 1;
                    (scored[*sequence].logprobs[next], scored[*sequence].entropies[next]) = (logprob, entropy);
                }
            }
            Ok(())
        })?;
        Ok(scored)
    }
    fn score_labels(&self) -> usize {
        self.0.config.num_labels.unwrap_or(0)
    }
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Checked<Vec<Vec<f32>>> {
        let Some(head) = self.0.model.scores.clone() else { return Err(crate::generate::no_scoring_head()) };
        let requested: Vec<Vec<u32>> = positions.iter().map(|p| p.to_vec()).collect();
        let mut scores = vec![Vec::new(); sequences.len()];
        self.read_hidden(sequences, &requested, |_, hidden, rows| {
            let values = hidden.matmul(&head.t()?)?.to_vec2::<f32>()?;
            for ((sequence, _), values) in rows.iter().zip(values) {
                scores[*sequence].extend(values);
            }
            Ok(())
        })?;
        Ok(scores)
    }
}

/// An entry that draws next, with the row of its hidden state.
type PendingDraw<'a> = (usize, &'a mut SequenceEntry<KvSlotHandle>);

/// Sequence and position of each row of hidden states.
type RowPositions = [(usize, u32)];

impl CandleDecode {
    /// Draws and records a token for every entry of `waiting`.
    fn draw(&self, hidden: &Tensor, waiting: Vec<PendingDraw<'_>>, version: u32, positions: usize) -> Result<()> {
        let mut alike: BTreeMap<(u64, u64, u32), Vec<PendingDraw<'_>>> = BTreeMap::new();
        for (row, entry) in waiting {
            if let Err(finish) = entry.forbidden(self.0.config.vocab_size as u32) {
                entry.state.finish = Some(finish);
                continue;
            }
            let SamplingParams { temperature, top_p, top_k } = entry.sampling;
            alike.entry((temperature.to_bits(), top_p.to_bits(), top_k)).or_default().push((row, entry));
        }
        for mut entries in alike.into_values() {
            let sampling = entries[0].1.sampling;
            let rows: Vec<u32> = entries.iter().map(|(row, _)| *row as u32).collect();
            let hidden = hidden.index_select(&Tensor::new(rows, &self.0.device)?, 0)?;
            for at in self.pieces(entries.len()) {
                let logits = self.logits(&hidden, &at)?;
                let entries = &mut entries[at];
                let permitted = self.constrained(&logits, entries)?;
                let uniforms: Vec<f64> = entries.iter().map(|(_, entry)| entry.uniform()).collect();
                let drawn = Distributions::new(&permitted, &sampling)?.draw(&uniforms)?;
                self.record_constrained(&logits, entries, &drawn)?;
                for ((_, entry), drawn) in entries.iter_mut().zip(drawn) {
                    match drawn {
                        Some((token, logprob, entropy)) => {
                            entry.record_token(token, logprob, entropy, version, positions)
                        }
                        None => entry.state.finish = Some(SequenceFinish::Nan),
                    }
                }
            }
        }
        Ok(())
    }
    /// Gives the tokens that constraints forbid the probability 0.
    fn constrained(&self, logits: &Tensor, entries: &mut [PendingDraw<'_>]) -> Result<Tensor> {
        if entries.iter().all(|(_, entry)| entry.constraint.is_none()) {
            return Ok(logits.clone());
        }
        let vocabulary = self.0.config.vocab_size;
        let mut addend = vec![0.0f32; entries.len() * vocabulary];
        for ((_, entry), row) in entries.iter_mut().zip(addend.chunks_exact_mut(vocabulary)) {
            for ids in forbid(entry, vocabulary).iter().flat_map(|ids| ids.iter()) {
                row[ids.start as usize..ids.end as usize].fill(LOW);
            }
        }
        logits + Tensor::from_vec(addend, (entries.len(), vocabulary), &self.0.device)?
    }
    /// Records the log-probabilities that drawn tokens of constrained sequences have among all tokens.
    fn record_constrained(&self, logits: &Tensor, entries: &mut [PendingDraw<'_>], drawn: &[DrawnToken]) -> Result<()> {
        if entries.iter().all(|(_, entry)| entry.constraint.is_none()) {
            return Ok(());
        }
        let untruncated = SamplingParams { top_p: 1.0, top_k: 0, ..entries[0].1.sampling };
        let tokens: Vec<u32> = drawn.iter().map(|drawn| drawn.map_or(0, |(token, ..)| token)).collect();
        let free = Distributions::new(logits, &untruncated)?.of(&tokens)?;
        let vocabulary = self.0.config.vocab_size;
        for (((_, entry), drawn), (free_logprob, _)) in entries.iter_mut().zip(drawn).zip(free) {
            if let Some(forbidden) = forbid(entry, vocabulary).filter(|_| drawn.is_some()) {
                entry.record_constrained(&forbidden, vocabulary as u32, free_logprob);
            }
        }
        Ok(())
    }
    /// Divides `rows` rows into ranges whose logits fit in memory together.
    fn pieces(&self, rows: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let size = (LOGITS / self.0.config.vocab_size).max(1);
        (0..rows).step_by(size).map(move |first| first..(first + size).min(rows))
    }
    /// Returns float32 logits of some rows of hidden states.
    fn logits(&self, hidden: &Tensor, rows: &Range<usize>) -> Result<Tensor> {
        let Some(head) = &self.0.model.head else { candle_core::bail!("the model has no language head") };
        let hidden = hidden.narrow(0, rows.start, rows.len())?.to_dtype(head.dtype())?;
        let logits = hidden.matmul(&head.t()?)?.to_dtype(DType::F32)?;
        penalized(scaled(logits, 1.0 / self.0.config.architecture.logits_scaling)?, self.0.penalty.as_ref())
    }
    /// Passes the hidden states at positions of given sequences to `read`, a few sequences at a time.
    fn read_hidden(
        &mut self,
        sequences: &[&[u32]],
        positions: &[Vec<u32>],
        mut read: impl FnMut(&Self, &Tensor, &RowPositions) -> Result<()>,
    ) -> Checked<()> {
        crate::generate::check_positions(sequences, positions, self.0.config.positions())?;
        // Tokens after the last requested position are not computed.
        let used = |i: usize| positions[i].last().map_or(0, |p| *p as usize + 1);
        let requested: Vec<usize> = (0..sequences.len()).filter(|&i| used(i) > 0).collect();
        let mut rest = requested.as_slice();
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = |i: &&usize| {
                tokens += used(**i);
                tokens <= TOKENS
            };
            let (part, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let batch = SequenceBatch::new(part.iter().map(|&i| sequences[i][..used(i)].to_vec()).collect())?;
            let rows: Vec<(usize, u32)> =
                part.iter().flat_map(|&i| positions[i].iter().map(move |p| (i, *p))).collect();
            let index = part.iter().enumerate().flat_map(|(n, &i)| {
                let batch = &batch;
                positions[i].iter().map(move |p| batch.row(n, *p as usize))
            });
            let index: Vec<u32> = index.collect();
            let hidden = self.0.hidden(&batch).and_then(|h| h.index_select(&Tensor::new(index, &self.0.device)?, 0));
            read(self, &hidden.map_err(candle)?, &rows).map_err(candle)?;
            rest = after;
        }
        Ok(())
    }
}

/// Returns the tokens that the constraint of a sequence forbids; `None` without a constraint.
fn forbid(entry: &mut SequenceEntry<KvSlotHandle>, vocabulary: usize) -> Option<ForbiddenTokens> {
    entry.forbidden(vocabulary as u32).ok().flatten()
}

fn work(entry: &mut SequenceEntry<KvSlotHandle>) -> UncachedSequence<'_> {
    UncachedSequence { tokens: &entry.state.token_ids, cached: entry.cached, slot: &mut entry.cache }
}
