//! One decoding step: sequences are grouped by equal tokens, dealt to threads, computed, and each draws one token.
//!
//! Threads share nothing within a step, and a row's numbers do not depend on the rows beside it.

use super::cache::Blocks;
use super::forward::{Scratch, Work, forward};
use super::kernels::{Isa, matmul};
use super::pack::Model;
use super::roster;
use super::sampling::{self, Distribution};
use super::sequence::Finish;

/// Rows whose logits are in memory at once.
pub(super) const LOGIT_ROWS: usize = 64;

pub(super) type Entry = roster::Entry<Blocks>;

/// At most `threads` shares of about equal numbers of rows.
pub(super) fn share(groups: Vec<Vec<&mut Entry>>, threads: usize) -> Vec<Vec<Vec<&mut Entry>>> {
    let rows = |g: &[&mut Entry]| g[0].state.token_ids.len() - g[0].cached;
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

/// One step of one thread's sequences.
pub(super) fn decode(model: &Model, isa: Isa, version: u32, mut share: Vec<Vec<&mut Entry>>, scratch: &mut Scratch) {
    for entry in share.iter_mut().flatten() {
        entry.state.computed_by(version, entry.cached);
    }
    let wanted: Vec<[u32; 1]> = share.iter().map(|g| [(g[0].state.token_ids.len() - 1) as u32]).collect();
    let mut works: Vec<Work<'_>> = share
        .iter_mut()
        .zip(&wanted)
        .map(|(group, wanted)| {
            let Entry { state, cached, cache: blocks, .. } = &mut *group[0];
            Work { tokens: &state.token_ids, cached: *cached, blocks, wanted }
        })
        .collect();
    scratch.hidden.clear();
    forward(model, isa, &mut works, scratch);
    drop(works);
    let Some(head) = &model.head else { return };
    let columns = head.columns();
    for (chunk, groups) in share.chunks_mut(LOGIT_ROWS).enumerate() {
        scratch.logits.resize(groups.len() * columns, 0.0);
        let hidden = &scratch.hidden[chunk * LOGIT_ROWS * model.hidden..];
        matmul(isa, head, hidden, model.hidden, groups.len(), false, &mut scratch.logits);
        for (group, logits) in groups.iter_mut().zip(scratch.logits.chunks_exact(columns)) {
            let cached = group[0].state.token_ids.len();
            let blocks = group[0].cache.clone();
            for entry in group.iter_mut() {
                if entry.cached < cached {
                    entry.cache = blocks.clone();
                }
                entry.cached = cached;
                draw(model, isa, version, entry, &logits[..model.vocabulary], &mut scratch.probabilities);
            }
        }
    }
}

/// Draws the next token of one sequence and decides whether it goes on.
fn draw(model: &Model, isa: Isa, version: u32, entry: &mut Entry, logits: &[f32], buffer: &mut sampling::Buffer) {
    if entry.is_full() {
        return;
    }
    let Some(distribution) = Distribution::new(isa, logits, &model.unused, &entry.sampling, buffer) else {
        entry.state.finish = Some(Finish::Nan);
        return;
    };
    let token = distribution.draw(entry.uniform());
    entry.take(token, distribution.logprob(token), distribution.entropy(), version, model.positions);
}
