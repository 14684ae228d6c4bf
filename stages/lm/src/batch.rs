//! Holds token sequences of different lengths as one batch and divides the batch into chunks of work.
//!
//! The batch stores its sequences one after another without padding, so padding can neither cost time nor change a
//! result. Chunks are whole sequences. They depend on the batch alone and not on the number of threads, so every sum
//! has the same order on every machine.

use crate::config::ModelConfig;
use std::ops::Range;
use trainyard_core::{Error, Result};

/// Sequences of token ids. Row `batch.row(i, t)` of the hidden states belongs to token `t` of sequence `i`; rows are
/// consecutive within a sequence and there are exactly [`SequenceBatch::rows`] of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceBatch {
    sequences: Vec<Vec<u32>>,
    starts: Vec<usize>,
}

impl SequenceBatch {
    /// Creates a batch. Errors: no sequence, or a sequence without tokens.
    pub fn new(sequences: Vec<Vec<u32>>) -> Result<Self> {
        if sequences.is_empty() {
            return Err(Error::invalid("a batch without sequences").help("pass at least one sequence"));
        }
        let mut starts = Vec::with_capacity(sequences.len() + 1);
        let mut rows = 0;
        for (i, sequence) in sequences.iter().enumerate() {
            if sequence.is_empty() {
                return Err(Error::invalid(format!("sequence {i} of the batch has no tokens"))
                    .help("leave empty sequences out"));
            }
            starts.push(rows);
            rows += sequence.len();
        }
        starts.push(rows);
        Ok(Self { sequences, starts })
    }
    /// Returns the token ids of each sequence, in the order given to [`SequenceBatch::new`].
    pub fn sequences(&self) -> &[Vec<u32>] {
        &self.sequences
    }
    /// Returns the sum of the lengths: the number of rows of the hidden states.
    pub fn rows(&self) -> usize {
        self.starts[self.sequences.len()]
    }
    /// Returns the row of token `token` of sequence `sequence`; panics outside the batch.
    pub fn row(&self, sequence: usize, token: usize) -> u32 {
        assert!(token < self.sequences[sequence].len(), "sequence {sequence} has no token {token}");
        (self.starts[sequence] + token) as u32
    }
    /// Returns the rows of one sequence.
    pub fn range(&self, sequence: usize) -> Range<usize> {
        self.starts[sequence]..self.starts[sequence + 1]
    }
    /// Returns the length of the longest sequence.
    pub fn longest(&self) -> usize {
        self.sequences.iter().map(Vec::len).max().unwrap_or(0)
    }
    /// Checks that the batch fits the model. Errors: a sequence longer than the model's positions, or a token that the
    /// model or its tokenizer lacks.
    pub fn expect_fit(&self, config: &ModelConfig) -> Result<()> {
        let (longest, positions) = (self.longest(), config.positions());
        if longest > positions {
            let message = format!("a sequence of {longest} tokens exceeds the model's {positions} positions");
            return Err(Error::invalid(message).help("shorten the sequences or raise `max_position_embeddings`"));
        }
        config.expect_tokens(self.sequences.iter().flatten())
    }
    /// Divides the batch into chunks of whole sequences in order, of about `target` rows (one long sequence may exceed
    /// it).
    pub(crate) fn chunks(&self, target: usize) -> Vec<Range<usize>> {
        let mut chunks = Vec::new();
        let mut first = 0;
        for i in 0..self.sequences.len() {
            let rows = self.starts[i + 1] - self.starts[first];
            if rows >= target || i + 1 == self.sequences.len() {
                chunks.push(first..i + 1);
                first = i + 1;
            }
        }
        chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_consecutive_without_padding() {
        let batch = SequenceBatch::new(vec![vec![1, 2, 3], vec![4], vec![5, 6]]).unwrap();
        assert_eq!((batch.rows(), batch.longest()), (6, 3));
        assert_eq!((batch.row(0, 2), batch.row(1, 0), batch.row(2, 1)), (2, 3, 5));
        assert_eq!(batch.range(2), 4..6);
    }

    #[test]
    fn chunks_hold_whole_sequences_and_cover_the_batch_once() {
        let batch = SequenceBatch::new(vec![vec![0; 5], vec![0; 5], vec![0; 1], vec![0; 30], vec![0; 2]]).unwrap();
        assert_eq!(batch.chunks(8), [0..2, 2..4, 4..5]);
        assert_eq!(batch.chunks(1), [0..1, 1..2, 2..3, 3..4, 4..5]);
        assert_eq!(batch.chunks(1000), vec![0..5; 1]);
    }

    #[test]
    fn empty_input_is_rejected_by_name() {
        assert!(SequenceBatch::new(vec![]).unwrap_err().message.contains("without sequences"));
        assert!(SequenceBatch::new(vec![vec![1], vec![]]).unwrap_err().message.contains("sequence 1"));
    }
}
