//! Implements [`TokenConstraint`] for a grammar and a tokenizer.

use super::grammar::Grammar;
use super::recognizer::{DEAD, Recognizer, StateId};
use super::vocabulary::TokenBytes;
use crate::generate::{ForbiddenTokens, TokenConstraint};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Punctuation, digits and letters that JSON needs.
const JSON: &[u8] = b"{}[],:\"\\0123456789-abcdeflnrstu";
/// Stacks that one mask may compute; beyond it only tokens of one byte are considered, which suffice for every text.
const MAX_WORK: u64 = 4_000_000;
/// Maximum masks in memory.
const MAX_MASKS: usize = 64;

/// Restricts a turn to the texts of a grammar.
#[derive(Debug, Clone)]
pub struct GrammarConstraint {
    tokens: Arc<TokenBytes>,
    recognizer: Recognizer,
    state: StateId,
    /// Tokens that end the turn.
    stop: Arc<BTreeSet<u32>>,
    /// Forbidden tokens by state, for one size of the vocabulary.
    masks: HashMap<(StateId, u32), Option<ForbiddenTokens>>,
}

impl GrammarConstraint {
    /// Creates the constraint of a turn that one of `stop` ends. Errors: invalid, if the tokenizer cannot write a text
    /// that the grammar requires.
    pub fn new(tokens: Arc<TokenBytes>, grammar: Arc<Grammar>, stop: &[u32]) -> Result<Self> {
        tokens.expect_writable(grammar.literals().chain([JSON]))?;
        let (recognizer, state) = Recognizer::new(grammar);
        if state == DEAD {
            return Err(Error::invalid("no value fits the schema").help("check its references to itself"));
        }
        let stop = Arc::new(stop.iter().copied().collect());
        Ok(Self { tokens, recognizer, state, stop, masks: HashMap::new() })
    }
    /// Returns the tokens that can come next, sorted.
    pub(super) fn allowed(&mut self) -> Vec<u32> {
        let mut allowed: Vec<u32> = Vec::new();
        if self.recognizer.may_end(self.state) {
            allowed.extend(self.stop.iter());
        }
        let tokens = self.tokens.clone();
        for (id, text) in &tokens.added {
            if !self.stop.contains(id) && self.recognizer.step_literal(self.state, text) != DEAD {
                allowed.push(*id);
            }
        }
        self.walk(&tokens, &mut allowed);
        allowed.sort_unstable();
        allowed.dedup();
        allowed
    }
    /// Adds the ordinary tokens that can come next. States of the bytes that two neighbors share are computed once.
    fn walk(&mut self, tokens: &TokenBytes, allowed: &mut Vec<u32>) {
        let limit = self.recognizer.work() + MAX_WORK;
        let mut reached = vec![self.state];
        for token in &tokens.sorted {
            reached.truncate(token.shared + 1);
            // The bytes that the token shares with the one before it already led nowhere.
            let exceeds = self.recognizer.work() > limit || self.recognizer.is_full();
            if reached.len() <= token.shared || token.bytes.len() > 1 && exceeds {
                continue;
            }
            for byte in &token.bytes[token.shared..] {
                let last = reached.last().copied().unwrap_or(DEAD);
                match self.recognizer.step(last, *byte) {
                    DEAD => break,
                    next => reached.push(next),
                }
            }
            if reached.len() == token.bytes.len() + 1 && !self.stop.contains(&token.id) {
                allowed.push(token.id);
            }
        }
    }
}

impl TokenConstraint for GrammarConstraint {
    fn forbidden(&mut self, vocabulary: u32) -> Option<ForbiddenTokens> {
        if let Some(state) = self.recognizer.trim(self.state) {
            self.state = state;
            self.masks.clear();
        }
        if let Some(known) = self.masks.get(&(self.state, vocabulary)) {
            return known.clone();
        }
        if self.masks.len() >= MAX_MASKS {
            self.masks.clear();
        }
        let allowed = self.allowed();
        let forbidden = complement(&allowed, vocabulary).map(Arc::new);
        self.masks.insert((self.state, vocabulary), forbidden.clone());
        forbidden
    }
    fn advance(&mut self, token: u32) {
        if self.stop.contains(&token) {
            return;
        }
        let tokens = self.tokens.clone();
        let bytes = tokens.of(token).unwrap_or_default();
        let next = bytes.iter().fold(self.state, |state, byte| self.recognizer.step(state, *byte));
        self.state = if bytes.is_empty() { DEAD } else { next };
    }
    fn fork(&self) -> Box<dyn TokenConstraint> {
        Box::new(self.clone())
    }
}

/// Returns the ids below `vocabulary` that are not in a sorted list, as ascending ranges, or `None` if all are missing.
fn complement(allowed: &[u32], vocabulary: u32) -> Option<Vec<Range<u32>>> {
    let allowed = &allowed[..allowed.partition_point(|id| *id < vocabulary)];
    if allowed.is_empty() {
        return None;
    }
    let (mut ranges, mut from) = (Vec::new(), 0);
    for id in allowed {
        if *id > from {
            ranges.push(from..*id);
        }
        from = *id + 1;
    }
    if from < vocabulary {
        ranges.push(from..vocabulary);
    }
    Some(ranges)
}
