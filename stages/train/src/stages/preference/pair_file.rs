//! Keeps pairs of answers in a temporary file, and selects some of them by number.

use super::answer_pair::AnswerPair;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_lm::examples::{Example, ExampleFile};

/// Pairs by number. In memory are 8 bytes a pair, and those of its contexts in [`ExampleFile`].
#[derive(Debug)]
pub struct PairFile {
    contexts: ExampleFile,
    /// First context of the chosen and of the rejected answer of each pair.
    firsts: Vec<[u32; 2]>,
}

impl PairFile {
    /// Creates a file without pairs. Errors: those of [`ExampleFile::create`].
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { contexts: ExampleFile::create(path)?, firsts: Vec::new() })
    }
    /// Adds a pair. Errors: those of [`ExampleFile::push`].
    pub fn push(&mut self, pair: &AnswerPair) -> Result<()> {
        let mut firsts = [0; 2];
        for (first, side) in firsts.iter_mut().zip(&pair.sides) {
            // The file has fewer contexts than numbers.
            *first = self.contexts.len() as u32;
            side.iter().try_for_each(|context| self.contexts.push(context))?;
        }
        self.firsts.push(firsts);
        Ok(())
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.firsts.len()
    }
    /// Returns the tokens of each context.
    fn lengths(&self, number: usize) -> Option<&[u32]> {
        let first = self.firsts.get(number)?[0] as usize;
        self.contexts.lengths().get(first..self.end(number))
    }
    /// Returns the number after the last context of a pair.
    fn end(&self, number: usize) -> usize {
        self.firsts.get(number + 1).map_or(self.contexts.len(), |next| next[0] as usize)
    }
    /// Reads a pair. Errors: bug (an unknown number), those of reading.
    fn get(&self, number: usize) -> Result<AnswerPair> {
        let Some([chosen, rejected]) = self.firsts.get(number) else {
            return Err(Error::bug(format!("there is no pair {number}")));
        };
        let (chosen, rejected) = (*chosen as usize, *rejected as usize);
        let side = |contexts: std::ops::Range<usize>| -> Result<Vec<Example>> {
            contexts.map(|context| self.contexts.get(context)).collect()
        };
        Ok(AnswerPair { sides: [side(chosen..rejected)?, side(rejected..self.end(number))?] })
    }
}

/// Some pairs of a file, in order.
#[derive(Debug, Clone)]
pub struct PairSet {
    file: Arc<PairFile>,
    numbers: Vec<u32>,
}

impl PairSet {
    /// Selects all pairs.
    pub fn all(file: Arc<PairFile>) -> Self {
        let numbers = (0..file.len() as u32).collect();
        Self { file, numbers }
    }
    /// Selects the pairs that are not held out, and those that are.
    pub fn split(file: Arc<PairFile>, is_held: &[bool]) -> (Self, Self) {
        let held = |number: &u32| is_held.get(*number as usize).copied().unwrap_or(false);
        let (held, train) = (0..file.len() as u32).partition(held);
        (Self { file: file.clone(), numbers: train }, Self { file, numbers: held })
    }
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
    /// Whether no pair is selected.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
    /// Returns the tokens of each pair, prompts included.
    pub fn lengths(&self) -> Vec<u32> {
        self.contexts()
            .map(|contexts| contexts.iter().fold(0, |sum: u32, tokens| sum.saturating_add(*tokens)))
            .collect()
    }
    /// Returns the tokens of the longest context; `None` without a pair.
    pub fn longest(&self) -> Option<u32> {
        self.contexts().flatten().max().copied()
    }
    /// Reads the pairs at these places of the selection. Errors: bug (an unknown place), those of reading.
    pub fn read(&self, places: &[u32]) -> Result<Vec<AnswerPair>> {
        let number = |place: &u32| {
            let number = self.numbers.get(*place as usize).map(|number| *number as usize);
            number.ok_or_else(|| Error::bug(format!("there is no pair at place {place}")))
        };
        places.iter().map(|place| self.file.get(number(place)?)).collect()
    }

    /// Returns the tokens of the contexts of each pair.
    fn contexts(&self) -> impl Iterator<Item = &[u32]> {
        self.numbers.iter().map(|number| self.file.lengths(*number as usize).unwrap_or_default())
    }
}

/// Returns a selection of pairs, for tests.
#[cfg(test)]
pub fn pair_set(pairs: &[AnswerPair]) -> PairSet {
    let folder = tempfile::tempdir().unwrap();
    let mut file = PairFile::create(&folder.path().join("pairs")).unwrap();
    pairs.iter().for_each(|pair| file.push(pair).unwrap());
    PairSet::all(Arc::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Chance;

    #[test]
    fn pairs_come_back_as_they_were() {
        let mut draws = Chance::new(1).at("pairs", &[]);
        let mut side = || -> Vec<Example> {
            let mut example = |_| {
                let length = 1 + draws.below(20);
                let tokens = (0..length).map(|_| draws.next_u32()).collect();
                Example { tokens, mask: (0..length).map(|_| draws.below(2) == 0).collect() }
            };
            (0..3).map(&mut example).collect()
        };
        let mut pairs: Vec<AnswerPair> = (0..60).map(|_| AnswerPair { sides: [side(), side()] }).collect();
        pairs.iter_mut().enumerate().for_each(|(i, pair)| pair.sides[i % 2].truncate(i % 3));
        let all = pair_set(&pairs);
        assert_eq!(all.read(&(0..60).collect::<Vec<_>>()).unwrap(), pairs);
        assert!(all.lengths().iter().zip(&pairs).all(|(tokens, pair)| *tokens as usize == pair.tokens()));
        assert_eq!(all.longest().map(|tokens| tokens as usize), pairs.iter().map(AnswerPair::longest).max());
        assert!(all.read(&[60]).is_err());
        let is_held: Vec<bool> = (0..60).map(|i| i % 5 == 2).collect();
        let (train, held) = PairSet::split(all.file.clone(), &is_held);
        assert_eq!((train.len(), held.len()), (48, 12));
        assert_eq!(held.read(&[1, 0]).unwrap(), [pairs[7].clone(), pairs[2].clone()]);
        assert_eq!(train.read(&[2]).unwrap(), [pairs[3].clone()]);
    }
}
