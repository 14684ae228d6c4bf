//! Keeps examples in a temporary file; in memory are their positions and lengths, 12 bytes each.

use super::Example;
use std::path::Path;
use trainyard_api::ScratchFile;
use trainyard_core::{Error, Result};

/// Examples by number.
#[derive(Debug)]
pub struct ExampleFile {
    file: ScratchFile,
    starts: Vec<u64>,
    lengths: Vec<u32>,
    loss_tokens: u64,
    /// The bytes of the example that was added last.
    record: Vec<u8>,
}

impl ExampleFile {
    /// Creates a file without examples. Errors: retryable (a full disk), invalid (no such folder).
    pub fn create(path: &Path) -> Result<Self> {
        let file = ScratchFile::create(path)?;
        Ok(Self { file, starts: Vec::new(), lengths: Vec::new(), loss_tokens: 0, record: Vec::new() })
    }
    /// Adds an example. Errors: retryable (a full disk), data (more examples than have numbers), bug (a mask of another
    /// length than the tokens).
    pub fn push(&mut self, example: &Example) -> Result<()> {
        let (Ok(_), Ok(length)) = (u32::try_from(self.len() + 1), u32::try_from(example.tokens.len())) else {
            return Err(Error::data("there are more than 4,294,967,295 sequences, or one has as many tokens")
                .help("train on a part of the rows"));
        };
        self.record.clear();
        example.append_to(&mut self.record)?;
        self.starts.push(self.file.append(&self.record)?);
        self.lengths.push(length);
        self.loss_tokens += example.loss_tokens() as u64;
        Ok(())
    }
    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }
    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
    /// Returns the number of tokens of each example.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }
    /// Returns the number of tokens in the loss of all examples.
    pub fn loss_tokens(&self) -> u64 {
        self.loss_tokens
    }
    /// Reads an example. Errors: bug (an unknown number), those of reading.
    pub fn get(&self, number: usize) -> Result<Example> {
        let (Some(start), Some(length)) = (self.starts.get(number), self.lengths.get(number)) else {
            return Err(Error::bug(format!("there is no example {number}")));
        };
        let length = *length as usize;
        let mut bytes = vec![0; Example::stored_bytes(length)];
        self.file.read_at(*start, &mut bytes)?;
        Ok(Example::from_bytes(length, &bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn examples_come_back_as_they_were(
            lists in prop::collection::vec(prop::collection::vec((any::<u32>(), any::<bool>()), 0..70), 0..40)
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut file = ExampleFile::create(&folder.path().join("examples")).unwrap();
            let examples: Vec<Example> = lists
                .into_iter()
                .map(|list| {
                    let (tokens, mask) = list.into_iter().unzip();
                    Example { tokens, mask }
                })
                .collect();
            examples.iter().for_each(|example| file.push(example).unwrap());
            prop_assert_eq!(file.len(), examples.len());
            for (i, example) in examples.iter().enumerate().rev() {
                prop_assert_eq!(&file.get(i).unwrap(), example);
                prop_assert_eq!(file.lengths()[i] as usize, example.tokens.len());
            }
            let learned: usize = examples.iter().map(Example::loss_tokens).sum();
            prop_assert_eq!(file.loss_tokens() as usize, learned);
            prop_assert!(file.get(examples.len()).is_err());
        }
    }

    #[test]
    fn a_mask_of_another_length_is_a_bug() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ExampleFile::create(&folder.path().join("examples")).unwrap();
        let error = file.push(&Example { tokens: vec![1, 2], mask: vec![true] }).unwrap_err();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Bug);
        assert!(file.is_empty());
    }
}
