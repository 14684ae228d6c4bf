//! Builds an index in one pass over the rows of a table. Memory is bounded by one segment, however many rows there are.

use super::block::{BlockBuilder, RowFacts};
use super::format::{Footer, Frame, HEADER, MAGIC, Page, Segment, VERSION, put};
use super::trigrams::{TrigramSet, fold};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchBounds, GroupReader, Message, TableSource, Trajectory, conform_rows, decode_part};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

/// Columns that an index is made of: those of the conversation, its reward, verdicts and update, and the id.
const COLUMNS: [&str; 10] =
    ["id", "messages", "reward", "verdicts", "update", "expected", "extracted", "verifier", "correct", "unreadable"];
/// Rows and bytes that are read at a time.
const BATCH: BatchBounds = BatchBounds { rows: 1024, bytes: 16 << 20 };
/// Maximum blocks of a segment.
const BLOCKS: usize = 1024;
/// Pairs of a trigram and a block after which a segment ends; a pair has 8 bytes in memory.
const PAIRS: usize = 4 << 20;
/// Bytes after which a page of posting lists ends.
const PAGE: usize = 32 << 10;
/// Level of compression: blocks are read much more often than written, but a first search waits for them.
const LEVEL: i32 = 1;

/// Writes the index of a table of trajectories into a file.
///
/// Errors: data (another schema), retryable (disk full), those of reading the table.
pub(super) fn build(table: &TableSource, file: &Path) -> Result<()> {
    let columns = COLUMNS.map(str::to_string);
    let reader = GroupReader::open(table.clone(), Some(&columns), BATCH)?;
    let mut index = IndexWriter::create(file)?;
    for batch in reader {
        let batch = conform_rows::<Trajectory>(table.path(), &batch?, Some(&columns))?;
        for row in decode_part::<Trajectory>(table.path(), &batch)? {
            index.add(&row)?;
        }
    }
    index.finish()
}

/// Returns the text of a message that is searched: content, reasoning and tool calls, each on separate lines.
pub(super) fn searched_text(message: &Message) -> String {
    let others = [&message.reasoning_content, &message.tool_calls];
    let mut text = message.content.clone();
    for other in others.into_iter().flatten().filter(|other| !other.is_empty()) {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(other);
    }
    text
}

/// Index file that is being written.
pub(super) struct IndexWriter {
    path: PathBuf,
    out: BufWriter<File>,
    offset: u64,
    compressor: Compressor<'static>,
    footer: Footer,
    segment: Segment,
    /// Trigram and block of the segment, in one number: `trigram << 32 | block`.
    pairs: Vec<u64>,
    block: BlockBuilder,
    /// Trigrams of the block.
    trigrams: TrigramSet,
}

impl IndexWriter {
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| io_error(path, &e))?;
        let mut compressor = Compressor::new(LEVEL).map_err(compression_error)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true)).map_err(compression_error)?;
        let mut writer = Self {
            path: path.to_path_buf(),
            out: BufWriter::new(file),
            offset: 0,
            compressor,
            footer: Footer::default(),
            segment: Segment { offset: HEADER as u64, ..Segment::default() },
            pairs: Vec::new(),
            block: BlockBuilder::default(),
            trigrams: TrigramSet::new(),
        };
        writer.write(&MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        Ok(writer)
    }
    /// Appends the next row of the table.
    pub fn add(&mut self, row: &Trajectory) -> Result<()> {
        // Rules that only kept rows are known too, so that an unknown rule differs from one without rejections.
        let judged: Vec<(u32, bool)> = row
            .verdicts
            .iter()
            .map(|verdict| (number_of(&mut self.footer.rules, &verdict.rule), verdict.keep))
            .collect();
        let facts = RowFacts {
            row: self.footer.rows,
            id: &row.id,
            reward: row.reward,
            correct: row.answer_check.as_ref().map(|check| check.correct),
            update: row.update,
            rejected: judged.into_iter().filter(|(_, is_kept)| !is_kept).map(|(rule, _)| rule).collect(),
        };
        for (number, message) in row.messages.iter().enumerate() {
            let role = number_of(&mut self.footer.roles, &message.role);
            let text = searched_text(message);
            self.trigrams.add(&fold(&text));
            self.block.add(&facts, number, role, &text);
            self.footer.messages += 1;
            if self.block.is_full() {
                self.end_block()?;
            }
        }
        self.footer.rows += 1;
        Ok(())
    }
    /// Writes the footer, without which the file is no index.
    pub fn finish(mut self) -> Result<()> {
        self.end_block()?;
        self.end_segment()?;
        let (offset, footer) = (self.offset, self.footer.encode());
        self.write(&footer)?;
        self.write(&offset.to_le_bytes())?;
        self.write(&crc32fast::hash(&footer).to_le_bytes())?;
        self.write(&MAGIC)?;
        self.out.flush().map_err(|e| io_error(&self.path, &e))
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let number = self.segment.blocks.len() as u64;
        let bytes = self.block.take();
        let frame = self.frame(&bytes)?;
        self.segment.blocks.push(frame);
        self.pairs.extend(self.trigrams.drain().map(|trigram| u64::from(trigram) << 32 | number));
        if self.segment.blocks.len() == BLOCKS || self.pairs.len() >= PAIRS {
            self.end_segment()?;
        }
        Ok(())
    }
    fn end_segment(&mut self) -> Result<()> {
        if self.segment.blocks.is_empty() {
            return Ok(());
        }
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.sort_unstable();
        let mut page = PageBuilder::default();
        for list in pairs.chunk_by(|a, b| a >> 32 == b >> 32) {
            page.add(list);
            if page.bytes.len() >= PAGE {
                self.end_page(&mut page)?;
            }
        }
        self.end_page(&mut page)?;
        pairs.clear();
        self.pairs = pairs;
        let next = Segment { offset: self.offset, ..Segment::default() };
        self.footer.segments.push(std::mem::replace(&mut self.segment, next));
        Ok(())
    }
    fn end_page(&mut self, page: &mut PageBuilder) -> Result<()> {
        let built = std::mem::take(page);
        if !built.bytes.is_empty() {
            let frame = self.frame(&built.bytes)?;
            self.segment.pages.push(Page { first: built.first, frame });
        }
        Ok(())
    }
    fn frame(&mut self, plain: &[u8]) -> Result<Frame> {
        let compressed = self.compressor.compress(plain).map_err(compression_error)?;
        self.write(&compressed)?;
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| Error::data("a message is larger than 4 GiB: it cannot be indexed"))
        };
        Ok(Frame { compressed: length(&compressed)?, plain: length(plain)? })
    }
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.offset += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| io_error(&self.path, &e))
    }
}

/// Page of posting lists, still open.
#[derive(Default)]
struct PageBuilder {
    first: u32,
    last: u32,
    bytes: Vec<u8>,
}

impl PageBuilder {
    /// Appends the posting list of one trigram.
    fn add(&mut self, list: &[u64]) {
        let trigram = (list[0] >> 32) as u32;
        if self.bytes.is_empty() {
            (self.first, self.last) = (trigram, trigram);
        }
        put(&mut self.bytes, u64::from(trigram - self.last));
        put(&mut self.bytes, list.len() as u64);
        let mut before = 0;
        for pair in list {
            let block = pair & u64::from(u32::MAX);
            put(&mut self.bytes, block - before);
            before = block;
        }
        self.last = trigram;
    }
}

/// Returns the number of a name, and adds a new one.
fn number_of(names: &mut Vec<String>, name: &str) -> u32 {
    let known = names.iter().position(|known| known == name);
    known.unwrap_or_else(|| {
        names.push(name.to_string());
        names.len() - 1
    }) as u32
}

fn compression_error(error: std::io::Error) -> Error {
    Error::bug(format!("cannot compress a block of messages: {error}"))
}
