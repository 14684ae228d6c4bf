//! Stores log and metrics of a running attempt: numbered chunks, and pages of [`PAGE`] chunks.
//!
//! An attempt that puts a chunk every two seconds would leave 300,000 objects a week. The writer therefore joins the
//! chunks from one multiple of [`PAGE`] to the next into one object once they are complete, and removes them. When the
//! stream ends, it joins the remaining ones too. Pages keep the numbers of their chunks: a reader requests a chunk and,
//! if the chunk is missing, the page that would contain it.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use trainyard_core::{AttemptNumber, Error, Result, RunId, StageKey};

/// Number of chunks of a full page. A chunk has at most 256 KiB, and writers and readers hold a page in memory.
pub const PAGE: u32 = 64;
/// Version of the page format.
const FORMAT: u32 = 1;
/// Chunks after the first that are read, or removed, concurrently.
const READ_AHEAD: usize = 16;

/// The streams of an attempt that are stored in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptStream {
    /// `LogRecord`s as JSON Lines; plain text in chunks of earlier versions.
    Log,
    /// `AttemptMessage::Metric` as JSON Lines.
    Metrics,
}

/// The first line of a page. The concatenated chunks follow it.
#[derive(Serialize, Deserialize)]
struct PageHeader {
    format: u32,
    /// Number of the first chunk.
    first: u32,
    /// Bytes of each chunk.
    sizes: Vec<usize>,
}

/// Location of a stream of an attempt.
#[derive(Clone)]
struct StreamLocation {
    attempt: String,
    name: &'static str,
}

/// The chunks of a stream, in order, up to the first missing one.
pub struct ChunkReader<'a> {
    store: &'a Store,
    place: StreamLocation,
    /// Number of the next chunk.
    next: u32,
    /// Chunks of a page.
    buffered: VecDeque<Bytes>,
    /// Whether the next chunk is first searched in a page.
    in_pages: bool,
    /// Chunks in flight.
    in_flight: Option<BoxStream<'a, Result<Option<Bytes>>>>,
}

impl StreamLocation {
    fn new(run: &RunId, stage: &StageKey, attempt: AttemptNumber, stream: AttemptStream) -> Self {
        let name = match stream {
            AttemptStream::Log => "log",
            AttemptStream::Metrics => "metrics",
        };
        Self { attempt: layout::attempt(run, stage, attempt), name }
    }
    fn chunks(&self) -> String {
        format!("{}/{}", self.attempt, self.name)
    }
    fn chunk(&self, number: u32) -> String {
        format!("{}/{number:06}", self.chunks())
    }
    fn pages(&self) -> String {
        format!("{}/{}-pages", self.attempt, self.name)
    }
    fn page(&self, first: u32) -> String {
        format!("{}/{first:06}", self.pages())
    }
}

impl ChunkReader<'_> {
    /// Returns the next chunk; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(chunk) = self.buffered.pop_front() {
                self.next += 1;
                return Ok(Some(chunk));
            }
            if self.in_pages {
                self.in_pages = self.open_next_page().await?;
                continue;
            }
            let chunks = self.in_flight.get_or_insert_with(|| chunks_from(self.store, &self.place, self.next));
            if let Some(chunk) = chunks.next().await.transpose()?.flatten() {
                self.next += 1;
                return Ok(Some(chunk));
            }
            self.in_flight = None;
            // The chunk may have been moved into a page, perhaps a moment ago.
            self.in_pages = self.open_next_page().await?;
            if self.buffered.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Opens the page that would contain the next chunk; returns whether another full page may follow it.
    async fn open_next_page(&mut self) -> Result<bool> {
        let first = self.next - self.next % PAGE;
        let Some(chunks) = self.store.page(&self.place, first).await? else { return Ok(false) };
        let is_full = chunks.len() >= PAGE as usize;
        self.buffered.extend(chunks.into_iter().skip((self.next - first) as usize));
        Ok(is_full)
    }
}

/// Reads chunks from a number on; `None` for a missing one.
fn chunks_from<'a>(store: &'a Store, location: &StreamLocation, first: u32) -> BoxStream<'a, Result<Option<Bytes>>> {
    let location = location.clone();
    let read = move |number| {
        let path = location.chunk(number);
        async move { store.get(&path).await }
    };
    // The first chunk is requested alone, since a reader that follows a stream usually finds no new one.
    stream::once(read(first)).chain(stream::iter(first + 1..).map(read).buffered(READ_AHEAD)).boxed()
}

impl Store {
    /// Puts one chunk of a stream; chunks are numbered from 0.
    pub async fn put_chunk(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
        number: u32,
        bytes: Bytes,
    ) -> Result<CreateOutcome> {
        self.create(&StreamLocation::new(run, stage, attempt, stream).chunk(number), bytes).await
    }
    /// Puts stored, consecutive chunks from `first` on, a multiple of [`PAGE`], into one object, and removes them. A
    /// chunk that cannot be removed is harmless.
    pub async fn put_page(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
        first: u32,
        chunks: &[Bytes],
    ) -> Result<()> {
        let location = StreamLocation::new(run, stage, attempt, stream);
        let path = location.page(first);
        let header = PageHeader { format: FORMAT, first, sizes: chunks.iter().map(Bytes::len).collect() };
        let mut bytes = serde_json::to_vec(&header).map_err(|e| Error::bug(format!("{path}: no JSON form: {e}")))?;
        bytes.push(b'\n');
        chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
        if self.create(&path, bytes.into()).await? != CreateOutcome::Ours {
            return Ok(());
        }
        let paths: Vec<String> = (first..).zip(chunks).map(|(number, _)| location.chunk(number)).collect();
        let removals: Vec<_> = paths.iter().map(|path| self.delete(path)).collect();
        let removed: Vec<Result<()>> = stream::iter(removals).buffer_unordered(READ_AHEAD).collect().await;
        if let Some(error) = removed.into_iter().find_map(Result::err) {
            tracing::info!(%error, "chunks were not removed after their page was written");
        }
        Ok(())
    }
    /// Returns a stream of an attempt from chunk `first` on, joined, and the number of the next chunk to request.
    pub async fn read_chunks(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
        first: u32,
    ) -> Result<(Vec<u8>, u32)> {
        let (mut text, mut number) = (Vec::new(), first);
        let mut chunks = self.chunks(run, stage, attempt, stream, first);
        while let Some(bytes) = chunks.next().await? {
            text.extend_from_slice(&bytes);
            number += 1;
        }
        Ok((text, number))
    }
    /// Returns a stream of an attempt from chunk `first` on, chunk by chunk. A few are read concurrently.
    pub fn chunks(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
        first: u32,
    ) -> ChunkReader<'_> {
        let place = StreamLocation::new(run, stage, attempt, stream);
        ChunkReader { store: self, place, next: first, buffered: VecDeque::new(), in_pages: false, in_flight: None }
    }
    /// Whether some chunks of a stream are in pages.
    pub async fn has_pages(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
    ) -> Result<bool> {
        let first = StreamLocation::new(run, stage, attempt, stream).page(0);
        Ok(self.connection().size(&first).await?.is_some())
    }
    /// Returns the number after the last chunk of a stream, as a listing shows it, for a writer that continues the
    /// stream. An incomplete listing only leads to more requests, since existing chunks are never overwritten.
    pub async fn next_chunk(
        &self,
        run: &RunId,
        stage: &StageKey,
        attempt: AttemptNumber,
        stream: AttemptStream,
    ) -> Result<u32> {
        let location = StreamLocation::new(run, stage, attempt, stream);
        let number = |path: &String| path.rsplit('/').next()?.parse::<u32>().ok();
        let next_after = |number: Option<u32>| number.map_or(0, |last| last + 1);
        let chunks = next_after(self.list(&location.chunks()).await?.iter().filter_map(number).max());
        let Some(last) = self.list(&location.pages()).await?.iter().filter_map(number).max() else { return Ok(chunks) };
        let count = self.page(&location, last).await?.map_or(0, |chunks| chunks.len() as u32);
        Ok(chunks.max(last + count))
    }

    /// Returns the chunks of a page; `None` if there is no such page.
    async fn page(&self, location: &StreamLocation, first: u32) -> Result<Option<Vec<Bytes>>> {
        let path = location.page(first);
        let Some(bytes) = self.get(&path).await? else { return Ok(None) };
        let damaged = || Error::data(format!("{}/{path} is damaged", self.url()));
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
        let header: PageHeader = serde_json::from_slice(&bytes[..end]).map_err(|_| damaged())?;
        let (mut chunks, mut at) = (Vec::with_capacity(header.sizes.len()), end + 1);
        for size in header.sizes {
            let chunk = at.checked_add(size).filter(|end| *end <= bytes.len()).map(|end| bytes.slice(at..end));
            chunks.push(chunk.ok_or_else(damaged)?);
            at += size;
        }
        Ok(Some(chunks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;

    /// Returns a stream whose first `all` chunks were put, and the first `paged` of them moved into pages.
    async fn stored(all: u32, paged: u32) -> (Store, RunId, StageKey) {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, stage) = (RunId("20261121-000000-000000".into()), StageKey("s".into()));
        for number in 0..all {
            put(&store, &run, &stage, number).await;
        }
        for first in (0..paged).step_by(PAGE as usize) {
            let chunks: Vec<Bytes> = (first..paged.min(first + PAGE)).map(chunk).collect();
            store.put_page(&run, &stage, 1, AttemptStream::Log, first, &chunks).await.unwrap();
        }
        (store, run, stage)
    }
    async fn put(store: &Store, run: &RunId, stage: &StageKey, number: u32) {
        store.put_chunk(run, stage, 1, AttemptStream::Log, number, chunk(number)).await.unwrap();
    }
    fn chunk(number: u32) -> Bytes {
        format!("{number}\n").into()
    }

    #[tokio::test]
    async fn stream_reads_from_any_chunk_across_pages() {
        for (all, paged) in [(0, 0), (5, 0), (5, 5), (200, 0), (200, 128), (200, 192), (200, 200), (128, 128)] {
            let (store, run, stage) = stored(all, paged).await;
            let left = store.list("runs").await.unwrap().iter().filter(|path| path.contains("/log/")).count();
            assert_eq!(left as u32, all - paged, "chunks in a page are removed");
            for first in [0, 1, 63, 64, 65, 127, 128, 199, 200, 300].into_iter().filter(|first| *first <= all + 1) {
                let (text, next) = store.read_chunks(&run, &stage, 1, AttemptStream::Log, first).await.unwrap();
                let expected: String = (first..all).map(|n| format!("{n}\n")).collect();
                assert_eq!(String::from_utf8(text).unwrap(), expected, "{all} chunks, {paged} in pages, from {first}");
                assert_eq!(next, all.max(first));
            }
            assert_eq!(store.next_chunk(&run, &stage, 1, AttemptStream::Log).await.unwrap(), all);
        }
    }

    #[tokio::test]
    async fn chunk_moved_into_a_page_is_read_once() {
        let (store, run, stage) = stored(130, 0).await;
        let mut reading = store.chunks(&run, &stage, 1, AttemptStream::Log, 0);
        let mut read = vec![reading.next().await.unwrap().unwrap()];
        for first in [0, 64] {
            let chunks: Vec<Bytes> = (first..first + PAGE).map(chunk).collect();
            store.put_page(&run, &stage, 1, AttemptStream::Log, first, &chunks).await.unwrap();
        }
        while let Some(chunk) = reading.next().await.unwrap() {
            read.push(chunk);
        }
        assert_eq!(read, (0..130).map(chunk).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn chunks_after_a_partial_page_are_read() {
        let (store, run, stage) = stored(10, 10).await;
        put(&store, &run, &stage, 10).await;
        let (text, next) = store.read_chunks(&run, &stage, 1, AttemptStream::Log, 0).await.unwrap();
        assert_eq!((text.iter().filter(|byte| **byte == b'\n').count(), next), (11, 11));
    }
}
