//! Builds a [`Sampler`] from a [`TurnSource`], an external source that draws whole turns.
//!
//! The sampler requests all open turns together. The source returns tokens only, so records of such sequences have no
//! log-probabilities.

use super::{Decode, DecodeSampler, Parameters, Sampler};
use crate::config::ModelConfig;
use crate::generate::{Cache, SequenceEntry, SequenceFinish, SequenceLogprobs, SequenceTable};
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OpenTurnRequest<'a> {
    /// Tokens that the turn continues, including its tokens so far.
    pub tokens: &'a [u32],
    /// Stop tokens.
    pub stop: &'a [u32],
    /// Maximum number of further tokens; at least 1.
    pub max_tokens: usize,
}

/// A source of turns: for each one its new tokens, up to a stop token or the maximum.
pub trait TurnSource: Send {
    /// Draws the new tokens of each open turn, in order. Errors: those of the source.
    fn draw(&mut self, open: &[OpenTurnRequest<'_>]) -> Result<Vec<Vec<u32>>>;
}

/// Creates a sampler over `turns` for a model of this config. The sampler computes nothing itself: it supports neither
/// forced scores nor new weights.
pub fn sampler<T: TurnSource + 'static>(turns: T, config: &ModelConfig) -> Box<dyn Sampler> {
    Box::new(DecodeSampler::without_entropies(TurnSourceDecode(turns), config))
}

struct TurnSourceDecode<T>(T);

/// The empty cache: the source keeps the state.
#[derive(Default)]
struct NoSequenceCache;

impl Cache for NoSequenceCache {
    fn prefix(&self, _length: usize) -> Self {
        Self
    }
}

/// Records the tokens of a turn. Errors: a turn that is incomplete or exceeds the limit.
fn record_turn(entry: &mut SequenceEntry<NoSequenceCache>, turn: &[u32], positions: usize) -> Result<()> {
    for (at, token) in turn.iter().enumerate() {
        entry.record_token(*token, f32::NAN, f32::NAN, 0, positions);
        if entry.state.finish.is_some() && at + 1 < turn.len() {
            let message = format!("a turn of {} tokens continues after its end at token {at}", turn.len());
            return Err(Error::data(message).help("end the turn with a stop token or at its limit"));
        }
    }
    match entry.state.finish {
        Some(_) => Ok(()),
        None => Err(Error::data(format!("a turn of {} tokens ends before a stop token and its limit", turn.len()))
            .help("sample the turn up to a stop token or its limit")),
    }
}

impl<T: TurnSource> Decode for TurnSourceDecode<T> {
    type Cache = NoSequenceCache;

    fn step(&mut self, table: &mut SequenceTable<NoSequenceCache>) -> Result<()> {
        let positions = table.positions();
        let (mut ids, mut open) = (Vec::new(), Vec::new());
        for (id, entry) in table.running() {
            if entry.is_full() {
                continue;
            }
            let remaining = entry.max_new_tokens.saturating_sub(entry.state.sampled_in_turn().len());
            let max_tokens = remaining.min(positions.saturating_sub(entry.state.token_ids.len()));
            if max_tokens == 0 {
                entry.state.finish = Some(SequenceFinish::Length);
                continue;
            }
            ids.push(id);
            open.push((entry.state.token_ids.clone(), entry.stop_tokens.clone(), max_tokens));
        }
        if open.is_empty() {
            return Ok(());
        }
        let requests: Vec<OpenTurnRequest<'_>> = open
            .iter()
            .map(|(tokens, stop, max_tokens)| OpenTurnRequest { tokens, stop, max_tokens: *max_tokens })
            .collect();
        let turns = self.0.draw(&requests)?;
        if turns.len() != ids.len() {
            let message = format!("{} turns were requested, but {} were sampled", ids.len(), turns.len());
            return Err(Error::data(message).help("return one list of tokens per turn, in order"));
        }
        for (id, turn) in ids.into_iter().zip(turns) {
            table.check_tokens(&turn).map_err(|e| e.at("a sampled turn"))?;
            record_turn(table.entry_mut(id), &turn, positions)?;
        }
        Ok(())
    }
    fn cache_bytes(&self, _tokens: usize) -> u64 {
        0
    }
    fn expect_language_head(&self) -> Result<()> {
        Ok(())
    }
    fn set_weights(&mut self, _weights: &Parameters, _version: u32) -> Result<()> {
        Err(Error::bug("the source of turns has its own weights"))
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], _sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        match sequences {
            [] => Ok(Vec::new()),
            _ => Err(Error::bug("the source of turns does not score given tokens")),
        }
    }
    fn score_labels(&self) -> usize {
        0
    }
    fn score(&mut self, _sequences: &[&[u32]], _positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        Err(Error::bug("the source of turns has no scoring head"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{DrawKey, SequenceId, SequenceRequest};
    use std::collections::VecDeque;
    use trainyard_core::Chance;

    /// Prepared turns.
    struct Script(VecDeque<Vec<Vec<u32>>>);

    impl TurnSource for Script {
        fn draw(&mut self, open: &[OpenTurnRequest<'_>]) -> Result<Vec<Vec<u32>>> {
            assert!(open.iter().all(|one| one.max_tokens > 0 && one.stop == [9] && one.tokens.starts_with(&[1])));
            self.0.pop_front().ok_or_else(|| Error::bug("the script has ended"))
        }
    }

    fn script(turns_per_step: &[&[&[u32]]]) -> Box<dyn Sampler> {
        let config = ModelConfig { max_position_embeddings: 12, ..ModelConfig::llama(16, 16, 32, 2, 2, 2) };
        let lists = turns_per_step.iter().map(|turns| turns.iter().map(|turn| turn.to_vec()).collect()).collect();
        sampler(Script(lists), &config)
    }

    fn begin(sampler: &mut dyn Sampler, tokens: &[u32], max_new_tokens: usize) -> SequenceId {
        let request = SequenceRequest {
            tokens: tokens.to_vec(),
            draw: DrawKey { chance: Chance::new(0), problem: 0, sample: 0 },
            sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
            stop_tokens: vec![9],
            max_new_tokens,
        };
        sampler.start(request).unwrap()
    }

    #[test]
    fn turns_are_drawn_together_and_continue_after_observations() {
        let mut sampler = script(&[&[&[2, 9], &[3, 4, 5]], &[&[6, 9]]]);
        let (a, b) = (begin(&mut *sampler, &[1], 5), begin(&mut *sampler, &[1, 1], 3));
        assert_eq!(sampler.step().unwrap(), [(a, SequenceFinish::Stop(9)), (b, SequenceFinish::Length)]);
        assert_eq!(sampler.running(), 0);
        sampler.append(a, &[7, 7], 4).unwrap();
        assert_eq!(sampler.step().unwrap(), [(a, SequenceFinish::Stop(9))]);
        let state = sampler.remove(a);
        assert_eq!(state.token_ids, [1, 2, 9, 7, 7, 6, 9]);
        assert_eq!(state.loss_mask, [false, true, true, false, false, true, true]);
        assert!(state.entropies.is_empty() && state.logprobs[1].is_nan() && !state.logprobs[0].is_nan());
    }

    #[test]
    fn turn_ends_at_the_models_last_position() {
        let mut sampler = script(&[&[&[2, 2]]]);
        let id = begin(&mut *sampler, &[1; 10], 5);
        assert_eq!(sampler.step().unwrap(), [(id, SequenceFinish::Length)]);
    }

    #[test]
    fn invalid_turns_are_rejected() {
        for (turns, expected) in [
            (&[&[2_u32, 3][..]][..], "ends before a stop token"),
            (&[&[]], "ends before a stop token"),
            (&[&[2, 9, 2]], "continues after its end"),
            (&[&[2; 6]], "continues after its end"),
            (&[&[16, 9]], "16"),
            (&[], "1 turns were requested, but 0 were sampled"),
            (&[&[9], &[9]], "2 were sampled"),
        ] {
            let mut sampler = script(&[turns]);
            begin(&mut *sampler, &[1], 5);
            let error = sampler.step().unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
