//! Opens an index, finds the blocks that may contain a text, and reads blocks.

use super::format::{Footer, Frame, HEADER, Input, MAGIC, Segment, TAIL, VERSION, damaged};
use super::needed::NeededTrigrams;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use tokio::runtime::Handle;
use trainyard_core::{Digest, Error, Result};
use trainyard_store::Store;

/// Bytes of an index, read by ranges.
pub(super) enum IndexBytes {
    File { file: File, size: u64 },
    Stored { store: Store, output: Digest, size: u64, runtime: Handle },
}

impl IndexBytes {
    /// Returns the bytes of an open file.
    pub fn of_file(file: File) -> Result<Self> {
        let size = file.metadata().map_err(|e| unreadable(&e))?.len();
        Ok(Self::File { file, size })
    }

    fn size(&self) -> u64 {
        match self {
            Self::File { size, .. } | Self::Stored { size, .. } => *size,
        }
    }
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.size() {
            return Err(damaged());
        }
        match self {
            _ if range.is_empty() => Ok(Bytes::new()),
            Self::File { file, .. } => {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                file.read_exact_at(&mut bytes, range.start).map_err(|e| unreadable(&e))?;
                Ok(bytes.into())
            }
            Self::Stored { store, output, runtime, .. } => {
                let bytes = runtime.block_on(store.read_message_index(output, range.clone()))?;
                if bytes.len() as u64 == range.end - range.start { Ok(bytes) } else { Err(damaged()) }
            }
        }
    }
}

/// An open index.
pub(super) struct MessageIndex {
    bytes: IndexBytes,
    pub footer: Footer,
}

impl MessageIndex {
    /// Reads the footer. Errors: data (damaged, incomplete, or of another format).
    pub fn open(bytes: IndexBytes) -> Result<Self> {
        let size = bytes.size();
        if size < (HEADER + TAIL) as u64 {
            return Err(damaged());
        }
        let header = bytes.read(0..HEADER as u64)?;
        let version = u32::from_le_bytes(header[MAGIC.len()..].try_into().map_err(|_| damaged())?);
        if header[..MAGIC.len()] != MAGIC {
            return Err(damaged());
        }
        if version != VERSION {
            return Err(Error::data(format!("it has format {version}, and this program reads format {VERSION}")));
        }
        let tail = bytes.read(size - TAIL as u64..size)?;
        let offset = u64::from_le_bytes(tail[..8].try_into().map_err(|_| damaged())?);
        let checksum = u32::from_le_bytes(tail[8..12].try_into().map_err(|_| damaged())?);
        if tail[12..] != MAGIC {
            return Err(damaged());
        }
        let footer = bytes.read(offset..size - TAIL as u64)?;
        if crc32fast::hash(&footer) != checksum {
            return Err(damaged());
        }
        Ok(Self { footer: Footer::decode(&footer)?, bytes })
    }
    /// Returns the blocks of a segment that may have a match, in order.
    pub fn candidates(&self, segment: &Segment, needed: &NeededTrigrams) -> Result<Vec<u32>> {
        let mut pages = BTreeMap::new();
        let found = needed.blocks(&mut |trigram| self.postings(segment, trigram, &mut pages))?;
        Ok(found.unwrap_or_else(|| (0..segment.blocks.len() as u32).collect()))
    }
    /// Reads blocks with these adjacent numbers.
    pub fn read_blocks(&self, segment: &Segment, numbers: Range<usize>) -> Result<Vec<Vec<u8>>> {
        let blocks = segment.blocks.get(numbers.clone()).ok_or_else(damaged)?;
        let mut at = segment.offset + length(segment.blocks[..numbers.start].iter());
        let start = at;
        let read = self.bytes.read(start..start + length(blocks.iter()))?;
        let plain = |frame: &Frame| {
            let from = (at - start) as usize;
            at += u64::from(frame.compressed);
            decompress(&read[from..from + frame.compressed as usize], *frame)
        };
        blocks.iter().map(plain).collect()
    }

    /// Returns the blocks of a segment with a trigram. `pages` has the pages that were read before.
    fn postings(&self, segment: &Segment, trigram: u32, pages: &mut BTreeMap<usize, Vec<u8>>) -> Result<Vec<u32>> {
        let Some(number) = segment.pages.partition_point(|page| page.first <= trigram).checked_sub(1) else {
            return Ok(Vec::new());
        };
        if let Entry::Vacant(vacant) = pages.entry(number) {
            let before = segment.pages[..number].iter().map(|page| &page.frame);
            let start = segment.offset + length(segment.blocks.iter()) + length(before);
            let frame = segment.pages[number].frame;
            let read = self.bytes.read(start..start + u64::from(frame.compressed))?;
            vacant.insert(decompress(&read, frame)?);
        }
        list_of(&pages[&number], segment.pages[number].first, trigram)
    }
}

/// Finds the posting list of a trigram in a page.
fn list_of(page: &[u8], first: u32, trigram: u32) -> Result<Vec<u32>> {
    let (mut input, mut at) = (Input(page), first);
    while !input.0.is_empty() {
        at = at.checked_add(input.small()?).ok_or_else(damaged)?;
        if at > trigram {
            break;
        }
        let mut block = 0u32;
        let list = input.list(|input| {
            block = block.checked_add(input.small()?).ok_or_else(damaged)?;
            Ok(block)
        })?;
        if at == trigram {
            return Ok(list);
        }
    }
    Ok(Vec::new())
}

fn length<'a>(frames: impl Iterator<Item = &'a Frame>) -> u64 {
    frames.map(|frame| u64::from(frame.compressed)).sum()
}

fn decompress(bytes: &[u8], frame: Frame) -> Result<Vec<u8>> {
    let plain = zstd::bulk::decompress(bytes, frame.plain as usize).map_err(|_| damaged())?;
    if plain.len() == frame.plain as usize { Ok(plain) } else { Err(damaged()) }
}

fn unreadable(error: &std::io::Error) -> Error {
    Error::data(format!("it cannot be read: {error}"))
}
