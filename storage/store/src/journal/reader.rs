//! Reads a journal in order and checks the chain at every batch.

use super::format::{JournalBatch, corrupt, decode};
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use futures::future::join_all;
use trainyard_core::digest::Hasher;
use trainyard_core::{Epoch, Result, RunId};

/// Number of batches requested at once. A request beyond the end returns an empty response, and reveals whether an
/// earlier batch is missing.
const READ_AHEAD: u64 = 16;

/// A position in a run's journal. All batches before it have been read and checked.
#[derive(Clone)]
pub struct JournalReader {
    pub(super) store: Store,
    pub(super) run: RunId,
    pub(super) next: u64,
    pub(super) before: Hasher,
    pub(super) epoch: Epoch,
}

impl JournalReader {
    /// Starts at the beginning of a run's journal.
    pub fn new(store: &Store, run: &RunId) -> Self {
        Self { store: store.clone(), run: run.clone(), next: 0, before: Hasher::new(), epoch: 0 }
    }
    /// Reads all batches of a run in order; empty if there is no such run. Errors: data (damaged), naming the batch.
    pub async fn read_all(store: &Store, run: &RunId) -> Result<Vec<JournalBatch>> {
        Self::new(store, run).read_to_end().await
    }
    /// Returns the number of the next batch.
    pub fn position(&self) -> u64 {
        self.next
    }
    /// Returns the epoch of the newest writer seen; 0 before any.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Reads the next batch; `None` if it does not exist yet. Call it again later to follow a run.
    pub async fn next(&mut self) -> Result<Option<JournalBatch>> {
        let path = layout::journal(&self.run, self.next);
        match self.store.get(&path).await? {
            Some(bytes) => self.accept(&path, &bytes).map(Some),
            None => Ok(None),
        }
    }
    /// Reads all remaining batches. Errors: data (one is damaged, or missing before others).
    pub async fn read_to_end(&mut self) -> Result<Vec<JournalBatch>> {
        let mut batches = Vec::new();
        loop {
            let (some, is_end) = self.read_some().await?;
            batches.extend(some);
            if is_end {
                return Ok(batches);
            }
        }
    }
    /// Reads a few more batches in order, for readers that do not need all at once. Also returns whether they were the
    /// last ones. Errors: those of [`JournalReader::read_to_end`].
    pub async fn read_some(&mut self) -> Result<(Vec<JournalBatch>, bool)> {
        let paths: Vec<_> = (self.next..self.next + READ_AHEAD).map(|seq| layout::journal(&self.run, seq)).collect();
        let results = join_all(paths.iter().map(|path| self.store.get(path))).await;
        let mut results = paths.iter().zip(results);
        let (mut batches, mut is_end) = (Vec::new(), false);
        for (path, result) in results.by_ref() {
            match result? {
                Some(bytes) => batches.push(self.accept(path, &bytes)?),
                None => {
                    is_end = true;
                    break;
                }
            }
        }
        if let Some((later, _)) = results.find(|(_, result)| matches!(result, Ok(Some(_)))) {
            self.refuse_gap(later).await?;
            is_end = false;
        }
        Ok((batches, is_end))
    }

    /// Handles a missing batch before an existing one. Either a writer has put both meanwhile, or the batch is lost:
    /// writers put no batch before the previous one is acknowledged.
    async fn refuse_gap(&self, later: &str) -> Result<()> {
        let path = layout::journal(&self.run, self.next);
        match self.store.get(&path).await? {
            Some(_) => Ok(()),
            None => Err(corrupt(&path, format!("it is missing, although {later} exists"))),
        }
    }

    /// Checks a batch against those before it and moves past it.
    fn accept(&mut self, path: &str, bytes: &Bytes) -> Result<JournalBatch> {
        let batch = decode(path, bytes)?;
        let header = &batch.header;
        if header.run != self.run || header.seq != self.next {
            return Err(corrupt(path, format!("its header names run {} batch {}", header.run, header.seq)));
        }
        if header.epoch < self.epoch {
            return Err(corrupt(path, format!("its epoch {} comes after epoch {}", header.epoch, self.epoch)));
        }
        if header.sha256_before != self.before.clone().finish() {
            return Err(corrupt(
                path,
                "its SHA-256 of all earlier batches does not match: one of them was changed".into(),
            ));
        }
        self.step(header.epoch, bytes);
        Ok(batch)
    }
    pub(super) fn step(&mut self, epoch: Epoch, bytes: &[u8]) {
        self.before.update(bytes);
        self.epoch = epoch;
        self.next += 1;
    }
}
