//! Checks that all problem ids of an import are unique, because results refer to problems by id.

use crate::import::rows::files::ImportFile;
use std::collections::HashMap;
use trainyard_core::{Digest, Error, Result};

/// First position (file, line) of each id. The keys are digests of the ids, so that a million ids take little memory.
#[derive(Default)]
pub struct ProblemIds(HashMap<u128, (u32, u32)>);

impl ProblemIds {
    /// Records an id and its position. Errors: data with the earlier position, if the id was recorded before.
    pub fn note(&mut self, id: &str, file: usize, line: usize, files: &[ImportFile]) -> Result<()> {
        let key = Digest::of(id.as_bytes());
        let key = u128::from_str_radix(&key.as_str()[..32], 16).map_err(|e| Error::bug(format!("{key}: {e}")))?;
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        match self.0.insert(key, (number(file), number(line))) {
            None => Ok(()),
            Some(first) => {
                self.0.insert(key, first);
                let place = match first.0 as usize {
                    same if same == file => format!("line {}", first.1),
                    other => format!("line {} of {}", first.1, files[other].name),
                };
                Err(Error::data(format!("the id `{id}` is already used in {place}")).help(
                    "remove the repeated question, or give every row its own `id` where the format has that column",
                ))
            }
        }
    }
}
