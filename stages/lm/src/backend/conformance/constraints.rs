//! Checks that constrained tokens are drawn from the permitted ones, and how they are recorded.

use super::kit::{FULL, finish, request, sampler};
use crate::backend::{Backend, Sampler};
use crate::generate::{ForbiddenTokens, SequenceRequest, TokenConstraint};
use std::sync::Arc;
use trainyard_tables::SamplingParams;

pub(super) fn suite(backend: &dyn Backend) {
    if sampler(backend).supports_constraints() {
        constrained_tokens_have_both_logprobs(backend);
    }
}

/// Permitted tokens of the first, second, … token of a turn, again from the first after the last.
#[derive(Debug, Clone)]
struct PermittedTokens {
    cycle: &'static [&'static [u32]],
    sampled: usize,
}

impl PermittedTokens {
    fn now(&self) -> &'static [u32] {
        self.cycle[self.sampled % self.cycle.len()]
    }
}

impl TokenConstraint for PermittedTokens {
    fn forbidden(&mut self, vocabulary: u32) -> Option<ForbiddenTokens> {
        let forbidden = (0..vocabulary).filter(|id| !self.now().contains(id));
        Some(Arc::new(forbidden.map(|id| id..id + 1).collect()))
    }
    fn advance(&mut self, _token: u32) {
        self.sampled += 1;
    }
    fn fork(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

/// Checks that log-probabilities are those among the permitted tokens, and that those among all tokens are recorded,
/// with the tokens that had no alternative.
fn constrained_tokens_have_both_logprobs(backend: &dyn Backend) {
    const CYCLE: &[&[u32]] = &[&[40, 41, 42], &[50]];
    for sampling in [FULL, SamplingParams { temperature: 0.6, ..FULL }] {
        let mut sampler = sampler(backend);
        let id = sampler.start(SequenceRequest { sampling, ..request(10, 3, 6) }).expect("a sequence");
        let free = sampler.start(SequenceRequest { sampling, ..request(10, 4, 6) }).expect("a sequence");
        sampler.constrain(id, Box::new(PermittedTokens { cycle: CYCLE, sampled: 0 })).expect("a constraint");
        finish(&mut *sampler);
        assert!(sampler.remove(free).constrained.is_empty(), "a sequence without a constraint");
        let state = sampler.remove(id);
        assert_eq!(state.constrained.len(), 6);
        for (n, token) in state.constrained.iter().enumerate() {
            let permitted = CYCLE[n % 2];
            assert_eq!((token.at, token.only), (3 + n, n % 2 == 1));
            assert!(permitted.contains(&state.token_ids[token.at]), "token {n}");
            let among_all = |id: u32| logprob(&mut *sampler, &state.token_ids[..token.at], id, &sampling);
            let forced: Vec<f64> = permitted.iter().copied().map(among_all).collect();
            let place = permitted.iter().position(|id| *id == state.token_ids[token.at]).expect("a permitted token");
            let mass: f64 = forced.iter().map(|logprob| logprob.exp()).sum();
            let off = (f64::from(token.free_logprob) - forced[place]).abs();
            assert!(off < 1e-4, "the free log-probability of token {n} differs by {off}");
            let off = (f64::from(state.logprobs[token.at]) - (forced[place] - mass.ln())).abs();
            assert!(off < 1e-4, "the log-probability of token {n} differs by {off}");
        }
    }
}

/// Returns the log-probability of a token after given ones.
fn logprob(sampler: &mut dyn Sampler, before: &[u32], token: u32, sampling: &SamplingParams) -> f64 {
    let sequence: Vec<u32> = before.iter().copied().chain([token]).collect();
    let scored = sampler.logprobs_of(&[&sequence], sampling).expect("log-probabilities");
    f64::from(scored[0].logprobs[before.len()])
}
