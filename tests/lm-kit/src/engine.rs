//! Computes the responses of a server in any dialect: turns, given sequences, token ids, and its weights.

use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Chance, Error, Result};
use trainyard_lm::adapter::peft;
use trainyard_lm::folder::ModelFolder;
use trainyard_lm::generate::{DrawKey, Generator, SequenceFinish, SequenceRequest};
use trainyard_tables::SamplingParams;

const PLAIN: SamplingParams = SamplingParams { temperature: 1.0, top_p: 1.0, top_k: 0 };

/// A turn to compute.
pub struct MockTurnRequest<'a> {
    pub adapter: Option<&'a str>,
    pub tokens: Vec<u32>,
    pub sampling: SamplingParams,
    pub stop: Vec<u32>,
    pub max_tokens: usize,
    /// Draw that produced the seed, if known, and the number of the turn.
    pub draw: Option<(DrawKey, usize)>,
    pub seed: u64,
    /// Number of most probable tokens to list.
    pub top: usize,
}

/// A computed turn.
pub struct MockTurnOutput {
    pub tokens: Vec<u32>,
    /// Log-probabilities under the sampled distribution.
    pub sampled: Vec<f32>,
    /// Log-probabilities before truncation.
    pub tempered: Vec<f32>,
    /// Log-probabilities under the model's distribution.
    pub plain: Vec<f32>,
    /// The most probable tokens at the first one, under the same three distributions.
    pub top: [Vec<(u32, f32)>; 3],
    pub stopped: Option<u32>,
}

/// A model with its adapters.
pub struct MockModelEngine {
    model: ModelFolder,
    base: Generator,
    adapters: BTreeMap<String, Generator>,
}

impl MockModelEngine {
    /// Loads a model without its adapter; a client loads the adapter like any other.
    pub fn new(model: &ModelFolder) -> Result<Self> {
        let base = ModelFolder { adapter: None, ..model.clone() };
        Ok(Self { base: base.generator(1)?, model: base, adapters: BTreeMap::new() })
    }
    /// Replaces the model's weights by those of a folder.
    pub fn reload(&mut self, folder: &Path) -> Result<()> {
        let model = ModelFolder::load(folder)?;
        (self.base, self.model) = (model.generator(1)?, model);
        Ok(())
    }
    /// Loads an adapter. Errors: invalid, if the name is taken.
    pub fn load_adapter(&mut self, name: &str, folder: &Path) -> Result<()> {
        if self.adapters.contains_key(name) {
            return Err(Error::invalid(format!("The lora adapter '{name}' has already been loaded.")));
        }
        let adapted = self.model.adapted(peft::load(folder, &self.model.config)?)?;
        self.adapters.insert(name.to_string(), adapted.generator(1)?);
        Ok(())
    }
    /// Unloads an adapter. Errors: invalid, if it is absent.
    pub fn unload_adapter(&mut self, name: &str) -> Result<()> {
        let removed = self.adapters.remove(name);
        removed.map(|_| ()).ok_or_else(|| Error::invalid(format!("The lora adapter '{name}' cannot be found.")))
    }
    /// Returns the names of the adapters.
    pub fn adapters(&self) -> Vec<String> {
        self.adapters.keys().cloned().collect()
    }
    pub fn positions(&self) -> usize {
        self.model.config.positions()
    }
    pub fn stop_tokens(&self) -> Vec<u32> {
        self.model.stop_tokens().to_vec()
    }
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>> {
        self.model.chat.tokenizer().encode(text)
    }
    fn generator(&mut self, adapter: Option<&str>) -> Result<&mut Generator> {
        match adapter {
            None => Ok(&mut self.base),
            Some(name) => {
                self.adapters.get_mut(name).ok_or_else(|| Error::invalid(format!("no adapter `{name}` is loaded")))
            }
        }
    }
    /// Returns the log-probabilities of a given sequence.
    pub fn forced(&mut self, adapter: Option<&str>, tokens: &[u32]) -> Result<Vec<f32>> {
        Ok(self.generator(adapter)?.logprobs_of(&[tokens], &PLAIN)?.remove(0).logprobs)
    }
    /// Samples a turn.
    pub fn turn(&mut self, request: MockTurnRequest<'_>) -> Result<MockTurnOutput> {
        let config = &self.model.config;
        let vocabulary: Vec<u32> =
            (0..config.vocab_size as u32).filter(|v| config.expect_tokens([v]).is_ok()).collect();
        let (max_tokens, first) = (request.max_tokens, request.tokens.len());
        let generator = self.generator(request.adapter)?;
        let fallback = DrawKey { chance: Chance::new(request.seed), problem: 0, sample: 0 };
        let (draw, turn) = request.draw.unwrap_or((fallback, 0));
        // Draws are keyed by the turn, so earlier turns are replayed first: each takes one token, and the last takes
        // the rest.
        let turn = turn.min(first - 1);
        let opening = if turn == 0 { request.tokens.clone() } else { request.tokens[..1].to_vec() };
        let id = generator.add(SequenceRequest {
            tokens: opening,
            draw,
            sampling: request.sampling,
            stop_tokens: request.stop.clone(),
            max_new_tokens: if turn == 0 { max_tokens } else { 0 },
        })?;
        for part in 1..=turn {
            generator.step()?;
            let end = if part == turn { first } else { part + 1 };
            generator.append(id, &request.tokens[part..end], if part == turn { max_tokens } else { 0 })?;
        }
        while generator.running() > 0 {
            generator.step()?;
        }
        let state = generator.remove(id);
        let stopped = match state.finish {
            Some(SequenceFinish::Stop(token)) => Some(token),
            Some(SequenceFinish::Nan) => return Err(Error::data("the logits are not finite")),
            _ => None,
        };
        let untruncated = SamplingParams { top_p: 1.0, top_k: 0, ..request.sampling };
        let mut of = |sampling: &SamplingParams| -> Result<Vec<f32>> {
            Ok(generator.logprobs_of(&[&state.token_ids], sampling)?.remove(0).logprobs.split_off(first))
        };
        let (tempered, plain) = (of(&untruncated)?, of(&PLAIN)?);
        let mut top: [Vec<(u32, f32)>; 3] = Default::default();
        if request.top > 1 {
            let endings: Vec<Vec<u32>> = vocabulary.iter().map(|v| [&request.tokens[..], &[*v]].concat()).collect();
            let endings: Vec<&[u32]> = endings.iter().map(Vec::as_slice).collect();
            for (list, sampling) in top.iter_mut().zip([request.sampling, untruncated, PLAIN]) {
                let scored = generator.logprobs_of(&endings, &sampling)?;
                let mut all: Vec<(u32, f32)> =
                    vocabulary.iter().copied().zip(scored.iter().map(|s| s.logprobs[first])).collect();
                all.sort_by(|a, b| b.1.total_cmp(&a.1));
                all.truncate(request.top);
                *list = all;
            }
        }
        let tokens = state.token_ids[first..].to_vec();
        Ok(MockTurnOutput { tokens, sampled: state.logprobs[first..].to_vec(), tempered, plain, top, stopped })
    }
}
