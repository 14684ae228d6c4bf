//! Runs one decoding step: groups sequences by equal tokens, computes each group once, and draws one token per
//! sequence.
//!
//! The sequences of a small model are distributed over threads, which share no state within a step. A large model's
//! weights exceed a core's cache, so its threads compute all sequences together, each with a part of every matrix, and
//! a step reads the weights once. A row's numbers depend neither on this choice nor on the other rows.

use super::cache::KvBlocks;
use super::forward::{ForwardScratch, SequenceWork, forward};
use super::kernels::{Isa, matmul};
use super::pack::PackedModel;
use super::sampling::{self, Distribution};
use super::sequence::SequenceFinish;
use super::sequence_table;
use rayon::prelude::*;
use trainyard_tables::SamplingParams;

/// Rows whose logits are in memory at once.
pub(super) const LOGIT_ROWS: usize = 64;

pub(super) type BlockSequenceEntry = sequence_table::SequenceEntry<KvBlocks>;

/// Divides groups into at most `threads` shares of about equal numbers of rows.
pub(super) fn share(
    groups: Vec<Vec<&mut BlockSequenceEntry>>,
    threads: usize,
) -> Vec<Vec<Vec<&mut BlockSequenceEntry>>> {
    let rows = |g: &[&mut BlockSequenceEntry]| g[0].state.token_ids.len() - g[0].cached;
    let total: usize = groups.iter().map(|g| rows(g)).sum();
    let mut shares: Vec<Vec<_>> = (0..threads).map(|_| Vec::new()).collect();
    let mut before = 0;
    for group in groups {
        let middle = 2 * before + rows(&group);
        before += rows(&group);
        shares[(middle * threads / (2 * total)).min(threads - 1)].push(group);
    }
    shares
}

/// Runs one decoding step of the sequences in `share`. One thread per entry of `scratches` computes, in rayon's current
/// pool.
pub(super) fn decode(
    model: &PackedModel,
    isa: Isa,
    version: u32,
    mut share: Vec<Vec<&mut BlockSequenceEntry>>,
    scratches: &mut [ForwardScratch],
) {
    let threads = scratches.len();
    let Some((scratch, others)) = scratches.split_first_mut() else { return };
    for entry in share.iter_mut().flatten() {
        entry.state.computed_by(version, entry.cached);
    }
    let requested: Vec<[u32; 1]> = share.iter().map(|g| [(g[0].state.token_ids.len() - 1) as u32]).collect();
    let mut works: Vec<SequenceWork<'_>> = share
        .iter_mut()
        .zip(&requested)
        .map(|(group, requested)| {
            let BlockSequenceEntry { state, cached, cache: blocks, .. } = &mut *group[0];
            SequenceWork { tokens: &state.token_ids, cached: *cached, blocks, requested }
        })
        .collect();
    scratch.hidden.clear();
    forward(model, (isa, threads), &mut works, scratch);
    drop(works);
    let Some(head) = &model.head else { return };
    let columns = head.columns();
    let ForwardScratch { hidden, logits, probabilities, .. } = scratch;
    let mut buffers: Vec<_> =
        std::iter::once(probabilities).chain(others.iter_mut().map(|s| &mut s.probabilities)).collect();
    for (chunk, groups) in share.chunks_mut(LOGIT_ROWS).enumerate() {
        let rows = groups.len();
        logits.resize(rows * columns, 0.0);
        let hidden = &hidden[chunk * LOGIT_ROWS * model.hidden..];
        matmul((isa, threads), head, (hidden, model.hidden), rows, false, logits);
        let draw = |(groups, logits, buffer): (&mut [Vec<&mut BlockSequenceEntry>], &[f32], &mut sampling::Buffer)| {
            let rows = groups.iter_mut().zip(logits.chunks_exact(columns));
            rows.for_each(|(group, logits)| draw_group(model, isa, version, group, logits, buffer));
        };
        if threads == 1 {
            draw((groups, logits, &mut *buffers[0]));
        } else {
            let part = rows.div_ceil(threads);
            let parts = groups.par_chunks_mut(part).zip(logits.par_chunks(part * columns)).zip(&mut buffers);
            parts.for_each(|((groups, logits), buffer)| draw((groups, logits, &mut **buffer)));
        }
    }
}

/// Draws the next token of each sequence of a group, whose tokens are equal so far.
fn draw_group(
    model: &PackedModel,
    isa: Isa,
    version: u32,
    group: &mut [&mut BlockSequenceEntry],
    logits: &[f32],
    buffer: &mut sampling::Buffer,
) {
    let cached = group[0].state.token_ids.len();
    let blocks = group[0].cache.clone();
    for entry in group {
        if entry.cached < cached {
            entry.cache = blocks.clone();
        }
        entry.cached = cached;
        draw(model, isa, version, entry, &logits[..model.vocabulary], buffer);
    }
}

/// Draws the next token of one sequence and decides whether it continues.
fn draw(
    model: &PackedModel,
    isa: Isa,
    version: u32,
    entry: &mut BlockSequenceEntry,
    logits: &[f32],
    buffer: &mut sampling::Buffer,
) {
    if entry.is_full() {
        return;
    }
    let forbidden = match entry.forbidden(model.vocabulary as u32) {
        Ok(forbidden) => forbidden,
        Err(finish) => {
            entry.state.finish = Some(finish);
            return;
        }
    };
    let unused = forbidden.as_ref().map_or(&model.unused, |forbidden| &**forbidden);
    let Some(distribution) = Distribution::new(isa, logits, unused, &entry.sampling, buffer) else {
        entry.state.finish = Some(SequenceFinish::Nan);
        return;
    };
    let token = distribution.draw(entry.uniform());
    if entry.top > 0 {
        entry.listed.push(distribution.most_probable(entry.top));
    }
    let (logprob, entropy) = (distribution.logprob(token), distribution.entropy());
    if let Some(forbidden) = &forbidden {
        let untruncated = SamplingParams { top_p: 1.0, top_k: 0, ..entry.sampling };
        let free = Distribution::new(isa, logits, &model.unused, &untruncated, buffer);
        let free_logprob = free.map_or(f32::NAN, |free| free.logprob(token));
        entry.record_constrained(forbidden, model.vocabulary as u32, free_logprob);
    }
    entry.record_token(token, logprob, entropy, version, model.positions);
}
