//! Writes and reads the table `requests`: every response that a stage used, in the order of the requests' digests.
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `request` | string | digest of the request |
//! | `service`, `path` | string | address |
//! | `draw` | i64 | distinguishes equal requests |
//! | `model` | string, null | name of the model that the server reports |
//! | `body`, `answer` | string | JSON as it was sent and received |
//! | `prompt_tokens`, `completion_tokens` | i64, null | as the server counts them |
//!
//! The stage buffers responses in a file of its scratch folder, since they may exceed memory.

use crate::record::{ChatRecord, ChatRequestKey};
use crate::response::ChatResponse;
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::{BatchWriter, TableBuilder, read_batches};

/// Rows per batch when the buffered responses are read back.
const ROWS: usize = 512;

#[derive(Serialize, Deserialize)]
struct ChatRequestRow {
    request: String,
    service: String,
    path: String,
    draw: i64,
    model: Option<String>,
    body: String,
    answer: String,
    prompt_tokens: Option<i64>,
    completion_tokens: Option<i64>,
}

pub(crate) struct UsedResponses {
    path: PathBuf,
    file: File,
    end: u64,
    /// Offset of each response in the file, and its length.
    offsets: BTreeMap<Digest, (u64, usize)>,
}

impl UsedResponses {
    /// Creates an empty table, buffered in `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        let path = folder.join("requests.jsonl");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        Ok(Self { file: file.map_err(|e| io_error(&path, &e))?, path, end: 0, offsets: BTreeMap::new() })
    }
    /// Returns whether the table has no row.
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
    /// Adds a response, unless the table already has one of this request.
    pub fn add(&mut self, request: &Digest, record: &ChatRecord, response: &ChatResponse) -> Result<()> {
        if self.offsets.contains_key(request) {
            return Ok(());
        }
        let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
        let ChatRequestKey { service, path, body, draw } = &record.request;
        let row = ChatRequestRow {
            request: request.to_string(),
            service: service.clone(),
            path: path.clone(),
            draw: i64::try_from(*draw).unwrap_or(i64::MAX),
            model: response.model.clone(),
            body: body.to_string(),
            answer: record.answer.to_string(),
            prompt_tokens: response.tokens.map(|(prompt, _)| count(prompt)),
            completion_tokens: response.tokens.map(|(_, completion)| count(completion)),
        };
        let line = serde_json::to_vec(&row).map_err(|e| Error::bug(format!("a request has no JSON form: {e}")))?;
        self.file.write_all(&line).map_err(|e| io_error(&self.path, &e))?;
        self.offsets.insert(request.clone(), (self.end, line.len()));
        self.end += line.len() as u64;
        Ok(())
    }
    /// Writes the table to the Parquet file `to`.
    pub fn write(mut self, to: &Path) -> Result<()> {
        let offsets: Vec<(u64, usize)> = std::mem::take(&mut self.offsets).into_values().collect();
        let mut table: Option<BatchWriter> = None;
        for chunk in offsets.chunks(ROWS) {
            let rows = chunk.iter().map(|offset| self.row(*offset)).collect::<Result<Vec<_>>>()?;
            let batch = batch(&rows)?;
            let writer = match table.take() {
                Some(writer) => table.insert(writer),
                None => table.insert(BatchWriter::create(to, batch.schema())?),
            };
            writer.write(&batch)?;
        }
        table.map_or(Ok(()), |writer| writer.finish().map(drop))
    }
    fn row(&mut self, (start, length): (u64, usize)) -> Result<ChatRequestRow> {
        let mut line = vec![0; length];
        let read = self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut line));
        read.map_err(|e| io_error(&self.path, &e))?;
        serde_json::from_slice(&line).map_err(|e| Error::bug(format!("{} was changed: {e}", self.path.display())))
    }
}

fn batch(rows: &[ChatRequestRow]) -> Result<RecordBatch> {
    TableBuilder::new()
        .string("request", rows.iter().map(|r| &r.request))
        .string("service", rows.iter().map(|r| &r.service))
        .string("path", rows.iter().map(|r| &r.path))
        .i64("draw", rows.iter().map(|r| r.draw))
        .optional_string("model", rows.iter().map(|r| r.model.as_ref()))
        .string("body", rows.iter().map(|r| &r.body))
        .string("answer", rows.iter().map(|r| &r.answer))
        .i64("prompt_tokens", rows.iter().map(|r| r.prompt_tokens))
        .i64("completion_tokens", rows.iter().map(|r| r.completion_tokens))
        .build()
}

/// Returns the records of a table `requests` by the digest of their request. Errors: data, if the file has other
/// columns, or a row differs from its digest.
pub(crate) fn read(path: &Path) -> Result<BTreeMap<Digest, Vec<u8>>> {
    let mut records = BTreeMap::new();
    for batch in &read_batches(path)?.1 {
        let (service, path_column) = (texts(batch, "service")?, texts(batch, "path")?);
        let (body, answer) = (texts(batch, "body")?, texts(batch, "answer")?);
        let (request, draw) = (texts(batch, "request")?, column::<Int64Array>(batch, "draw")?);
        for row in 0..batch.num_rows() {
            let invalid = |reason: String| {
                Error::data(format!("row {row}: {reason}")).help("wire an output `requests` of an earlier stage")
            };
            let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|e| invalid(e.to_string()));
            let key = ChatRequestKey {
                service: service.value(row).to_string(),
                path: path_column.value(row).to_string(),
                body: json(body.value(row))?,
                draw: u64::try_from(draw.value(row)).map_err(|e| invalid(e.to_string()))?,
            };
            let digest = key.digest()?;
            if digest.as_str() != request.value(row) {
                return Err(invalid(format!("`{}` is not the digest of its request", request.value(row))));
            }
            records.insert(digest, ChatRecord::new(key, json(answer.value(row))?).write()?);
        }
    }
    Ok(records)
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a StringArray> {
    column(batch, name)
}

fn column<'a, A: Array + 'static>(batch: &'a RecordBatch, name: &str) -> Result<&'a A> {
    let found = batch.column_by_name(name).and_then(|column| column.as_any().downcast_ref::<A>());
    let found = found.filter(|column| column.null_count() == 0);
    found.ok_or_else(|| {
        Error::data(format!("the table has no column `{name}` without nulls"))
            .help("wire an output `requests` of an earlier stage")
    })
}
