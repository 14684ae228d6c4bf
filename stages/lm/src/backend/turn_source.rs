//! A sampler whose tokens an external source draws, whole turns at a time: all open turns are requested together.
//!
//! Only the tokens are known, so records of such sequences have no log-probabilities.

use super::{Decode, DecodeSampler, Parameters, Sampler};
use crate::config::ModelConfig;
use crate::generate::{SequenceCache, SequenceEntry, SequenceFinish, SequenceLogprobs, SequenceTable};
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
    /// Draws the new tokens of each turn. Errors: those of the source.
    fn draw(&mut self, open: &[OpenTurnRequest<'_>]) -> Result<Vec<Vec<u32>>>;
}

/// Creates a sampler over `turns` for a model of this config. It computes nothing itself: no forced scores, no weights.
pub fn sampler<T: TurnSource + 'static>(turns: T, config: &ModelConfig) -> Box<dyn Sampler> {
    Box::new(DecodeSampler::without_entropies(TurnSourceDecode(turns), config))
}

struct TurnSourceDecode<T>(T);

/// The empty cache: the source keeps the state.
#[derive(Default)]
struct NoSequenceCache;

impl SequenceCache for NoSequenceCache {
    fn prefix(&self, _length: usize) -> Self {
        Self
    }
}

/// Records the tokens of a turn, which must be complete and within the limit.
fn record_turn(entry: &mut SequenceEntry<NoSequenceCache>, turn: &[u32], positions: usize) -> Result<()> {
    for (at, token) in turn.iter().enumerate() {
        entry.record_token(*token, f32::NAN, f32::NAN, 0, positions);
        if entry.state.finish.is_some() && at + 1 < turn.len() {
            let message = format!("a turn of {} tokens goes on after its end, which is token {at}", turn.len());
            return Err(Error::data(message).help("end a turn with its stop token, or at the most that it may have"));
        }
    }
    match entry.state.finish {
        Some(_) => Ok(()),
        None => Err(Error::data(format!("a turn of {} tokens has not come to its end", turn.len()))
            .help("sample a turn up to a stop token, or to the most that it may have")),
    }
}

impl<T: TurnSource> Decode for TurnSourceDecode<T> {
    type Cache = NoSequenceCache;

    fn step(&mut self, roster: &mut SequenceTable<NoSequenceCache>) -> Result<()> {
        let positions = roster.positions();
        let (mut ids, mut open) = (Vec::new(), Vec::new());
        for (id, entry) in roster.running() {
            if entry.is_full() {
                continue;
            }
            let left = entry.max_new_tokens.saturating_sub(entry.state.sampled_in_turn().len());
            let most = left.min(positions.saturating_sub(entry.state.token_ids.len()));
            if most == 0 {
                entry.state.finish = Some(SequenceFinish::Length);
                continue;
            }
            ids.push(id);
            open.push((entry.state.token_ids.clone(), entry.stop_tokens.clone(), most));
        }
        if open.is_empty() {
            return Ok(());
        }
        let asked: Vec<OpenTurnRequest<'_>> =
            open.iter().map(|(tokens, stop, most)| OpenTurnRequest { tokens, stop, max_tokens: *most }).collect();
        let turns = self.0.draw(&asked)?;
        if turns.len() != ids.len() {
            let message = format!("{} turns were asked for, and {} were sampled", ids.len(), turns.len());
            return Err(Error::data(message).help("answer with one list of tokens per turn, in their order"));
        }
        for (id, turn) in ids.into_iter().zip(turns) {
            roster.check_tokens(&turn).map_err(|e| e.at("a sampled turn"))?;
            record_turn(roster.entry_mut(id), &turn, positions)?;
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
        Err(Error::bug("whoever draws the turns has its own weights"))
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], _sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        match sequences {
            [] => Ok(Vec::new()),
            _ => Err(Error::bug("whoever draws the turns scores no given tokens")),
        }
    }
    fn score_labels(&self) -> usize {
        0
    }
    fn score(&mut self, _sequences: &[&[u32]], _positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        Err(Error::bug("whoever draws the turns has no scoring head"))
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
            self.0.pop_front().ok_or_else(|| Error::bug("nothing is left to say"))
        }
    }

    fn script(answers: &[&[&[u32]]]) -> Box<dyn Sampler> {
        let config = ModelConfig { max_position_embeddings: 12, ..ModelConfig::llama(16, 16, 32, 2, 2, 2) };
        let lists = answers.iter().map(|turns| turns.iter().map(|turn| turn.to_vec()).collect()).collect();
        sampler(Script(lists), &config)
    }

    fn begin(sampler: &mut dyn Sampler, tokens: &[u32], most: usize) -> SequenceId {
        let request = SequenceRequest {
            tokens: tokens.to_vec(),
            draw: DrawKey { chance: Chance::new(0), problem: 0, sample: 0 },
            sampling: SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 },
            stop_tokens: vec![9],
            max_new_tokens: most,
        };
        sampler.start(request).unwrap()
    }

    #[test]
    fn turns_come_together_and_go_on_after_observations() {
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
    fn a_turn_ends_with_the_positions_of_the_model() {
        let mut sampler = script(&[&[&[2, 2]]]);
        let id = begin(&mut *sampler, &[1; 10], 5);
        assert_eq!(sampler.step().unwrap(), [(id, SequenceFinish::Length)]);
    }

    #[test]
    fn what_is_no_turn_is_refused() {
        for (turns, said) in [
            (&[&[2_u32, 3][..]][..], "has not come to its end"),
            (&[&[]], "has not come to its end"),
            (&[&[2, 9, 2]], "goes on after its end"),
            (&[&[2; 6]], "goes on after its end"),
            (&[&[16, 9]], "16"),
            (&[], "1 turns were asked for, and 0 were sampled"),
            (&[&[9], &[9]], "2 were sampled"),
        ] {
            let mut sampler = script(&[turns]);
            begin(&mut *sampler, &[1], 5);
            let error = sampler.step().unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
