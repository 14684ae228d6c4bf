//! Writes a journal. A run has one writer at a time; the next process that opens the run fences it.

use super::format::{BatchHeader, corrupt, decode_header, encode};
use super::reader::JournalReader;
use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use trainyard_core::{Epoch, Error, Result, RunId};

/// Another writer owns the run now. The caller must not dispatch or publish anything more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriterFenced {
    /// Run id.
    pub run: RunId,
    /// Writer that took the run over.
    pub owner: String,
    /// Epoch of that writer.
    pub epoch: Epoch,
    /// Number of the batch that both wanted to write.
    pub seq: u64,
}

/// Reason why a batch was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendError {
    /// Another writer took the run over.
    Fenced(WriterFenced),
    /// The store failed. The batch is kept; [`JournalWriter::flush`] or the next append puts it again.
    Failed(Error),
}

impl JournalReader {
    /// Opens the journal for writing at this position: puts the event that `opened(epoch)` returns, with epoch = last +
    /// 1, as the next batch. `writer` must be unique to this process. Errors: [`AppendError::Fenced`] if another
    /// process wrote meanwhile.
    pub async fn open_writer(
        self,
        writer: &str,
        opened: impl FnOnce(Epoch) -> Value,
    ) -> Result<JournalWriter, AppendError> {
        JournalWriter::begin(self, writer, opened).await
    }
}

/// The right to append to a run's journal, until another writer takes the run over.
pub struct JournalWriter {
    /// Position after the last acknowledged batch.
    at: JournalReader,
    writer: String,
    epoch: Epoch,
    /// Batch whose put failed. It may still be stored, so no other batch may take its number.
    pending: Option<Bytes>,
    fenced: Option<WriterFenced>,
}

impl JournalWriter {
    /// Reads a run's journal, then opens it with `opened(epoch)` as the first event of the new epoch. Returns all
    /// events before that one. `writer` must be unique to this process (host, process id and random digits).
    ///
    /// To decide about a takeover first, read with [`JournalReader`] and then call [`JournalReader::open_writer`].
    pub async fn open(
        store: &Store,
        run: &RunId,
        writer: &str,
        opened: impl FnOnce(Epoch) -> Value,
    ) -> Result<(Self, Vec<Value>), AppendError> {
        let mut reader = JournalReader::new(store, run);
        let batches = reader.read_to_end().await.map_err(AppendError::Failed)?;
        let opened = reader.open_writer(writer, opened).await?;
        Ok((opened, batches.into_iter().flat_map(|batch| batch.events).collect()))
    }
    pub(super) async fn begin(
        at: JournalReader,
        writer: &str,
        opened: impl FnOnce(Epoch) -> Value,
    ) -> Result<Self, AppendError> {
        let epoch = at.epoch + 1;
        let mut this = Self { at, writer: writer.to_string(), epoch, pending: None, fenced: None };
        this.append(&[opened(epoch)]).await?;
        Ok(this)
    }
    /// Returns the run id.
    pub fn run(&self) -> &RunId {
        &self.at.run
    }
    /// Returns the number of this writer.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
    /// Returns the name of this writer.
    pub fn writer(&self) -> &str {
        &self.writer
    }
    /// Returns the number of the next batch.
    pub fn position(&self) -> u64 {
        self.at.next
    }
    /// Puts events as one batch and returns its number once it is acknowledged.
    ///
    /// After [`AppendError::Failed`] do not append the same events again: they are kept, and the next call puts them.
    /// After [`AppendError::Fenced`] every call fails in the same way.
    pub async fn append<E: Serialize + Sync>(&mut self, events: &[E]) -> Result<u64, AppendError> {
        self.flush().await?;
        let header = BatchHeader {
            format: 1,
            run: self.at.run.clone(),
            seq: self.at.next,
            epoch: self.epoch,
            writer: self.writer.clone(),
            sha256_before: self.at.before.clone().finish(),
        };
        self.pending = Some(encode(&header, events).map_err(AppendError::Failed)?);
        self.flush().await?;
        Ok(header.seq)
    }
    /// Puts a batch again whose put has failed. Does nothing without such a batch.
    pub async fn flush(&mut self) -> Result<(), AppendError> {
        if let Some(fenced) = &self.fenced {
            return Err(AppendError::Fenced(fenced.clone()));
        }
        let Some(bytes) = self.pending.clone() else { return Ok(()) };
        let path = layout::journal(&self.at.run, self.at.next);
        match self.at.store.create(&path, bytes.clone()).await.map_err(AppendError::Failed)? {
            CreateOutcome::Ours => {
                self.at.step(self.epoch, &bytes);
                self.pending = None;
                Ok(())
            }
            CreateOutcome::Theirs(theirs) => Err(self.fence(&path, &theirs)),
        }
    }

    /// Returns the error of a number that another process has used. A later writer fences this one, and so does an
    /// earlier one that wrote while this one opened the journal. If the batch does not continue the chain, one is
    /// missing.
    fn fence(&mut self, path: &str, theirs: &[u8]) -> AppendError {
        let (owner, epoch) = match decode_header(path, theirs) {
            Ok(header) if header.epoch < self.epoch && header.sha256_before != self.at.before.clone().finish() => {
                let problem = format!(
                    "writer {} (epoch {}) wrote it after batches that are missing",
                    header.writer, header.epoch
                );
                return AppendError::Failed(corrupt(path, problem));
            }
            Ok(header) => (header.writer, header.epoch),
            Err(_) => ("an unreadable batch".to_string(), self.epoch + 1),
        };
        let fenced = WriterFenced { run: self.at.run.clone(), owner, epoch, seq: self.at.next };
        self.fenced = Some(fenced.clone());
        AppendError::Fenced(fenced)
    }
}

impl fmt::Display for WriterFenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "run {} was taken over by {} (epoch {}, journal batch {})",
            self.run, self.owner, self.epoch, self.seq
        )
    }
}

impl std::error::Error for WriterFenced {}

impl From<WriterFenced> for Error {
    fn from(fenced: WriterFenced) -> Self {
        let help =
            format!("the run continues under {}; follow it with `trainyard runs show {}`", fenced.owner, fenced.run);
        Self::lost(fenced).help(help)
    }
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fenced(fenced) => fenced.fmt(f),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AppendError {}

impl From<AppendError> for Error {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Fenced(fenced) => fenced.into(),
            AppendError::Failed(error) => error,
        }
    }
}
