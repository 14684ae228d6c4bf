//! Encodes the file of an index. Numbers are LEB128 varints if they have no width, and a text is its length followed by
//! its bytes in UTF-8.
//!
//! ```text
//! header     8 bytes `TYMSGIDX`, u32 format version, little-endian as all fixed widths
//! segments   each: blocks, then pages; every block and page is one zstd frame with a checksum
//! footer     number of rows and of messages, names of the roles, names of the filter rules, segments:
//!            offset, blocks (compressed and plain length), pages (first trigram, compressed and plain length)
//! tail       u64 offset of the footer, u32 CRC-32 of the footer, 8 bytes `TYMSGIDX`
//! ```
//!
//! A block has at most 64 messages, or fewer with at least 256 KiB of text, in the order of the table:
//!
//! ```text
//! rows       count; each: number in the table, id, f64 reward, correct (0 unknown, 1 wrong, 2 right), update + 1 or 0,
//!            numbers of the rules that rejected it
//! messages   count; each: position of its row in the block, number in its conversation, role, length of the text
//! texts      one after another
//! ```
//!
//! A page holds posting lists in the order of their trigrams: the difference to the trigram before, the number of
//! blocks, and the differences between the numbers of these blocks in their segment. A trigram is three adjacent bytes
//! of a text in lower case, as a 24-bit number, the first byte highest.

use trainyard_core::{Error, Result};

/// First and last bytes of an index.
pub(super) const MAGIC: [u8; 8] = *b"TYMSGIDX";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes of the header.
pub(super) const HEADER: usize = 12;
/// Bytes of the tail.
pub(super) const TAIL: usize = 20;

/// Place of a compressed frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Frame {
    pub compressed: u32,
    pub plain: u32,
}

/// Page of posting lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub first: u32,
    pub frame: Frame,
}

/// Blocks and pages that were built together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Segment {
    /// Place of the first block in the file.
    pub offset: u64,
    pub blocks: Vec<Frame>,
    pub pages: Vec<Page>,
}

/// Contents of an index.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Footer {
    pub rows: u64,
    pub messages: u64,
    pub roles: Vec<String>,
    pub rules: Vec<String>,
    pub segments: Vec<Segment>,
}

impl Footer {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.rows);
        put(&mut out, self.messages);
        for names in [&self.roles, &self.rules] {
            put(&mut out, names.len() as u64);
            names.iter().for_each(|name| put_text(&mut out, name));
        }
        put(&mut out, self.segments.len() as u64);
        for segment in &self.segments {
            put(&mut out, segment.offset);
            put(&mut out, segment.blocks.len() as u64);
            segment.blocks.iter().for_each(|frame| put_frame(&mut out, *frame));
            put(&mut out, segment.pages.len() as u64);
            for page in &segment.pages {
                put(&mut out, u64::from(page.first));
                put_frame(&mut out, page.frame);
            }
        }
        out
    }
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Input(bytes);
        let (rows, messages) = (input.number()?, input.number()?);
        let (roles, rules) =
            (input.list(|input| Ok(input.text()?.to_string()))?, input.list(|i| Ok(i.text()?.into()))?);
        let segments = input.list(|input| {
            let offset = input.number()?;
            let blocks = input.list(Input::frame)?;
            let pages = input.list(|input| Ok(Page { first: input.small()?, frame: input.frame()? }))?;
            Ok(Segment { offset, blocks, pages })
        })?;
        Ok(Self { rows, messages, roles, rules, segments })
    }
}

/// Appends a number.
pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a text.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn put_frame(out: &mut Vec<u8>, frame: Frame) {
    put(out, u64::from(frame.compressed));
    put(out, u64::from(frame.plain));
}

/// Rest of encoded bytes.
pub(super) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn number(&mut self) -> Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }
    pub fn small(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| damaged())
    }
    pub fn length(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| damaged())
    }
    pub fn float(&mut self) -> Result<f64> {
        let bytes = self.bytes(8)?.try_into().map_err(|_| damaged())?;
        Ok(f64::from_le_bytes(bytes))
    }
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(bytes)
    }
    pub fn text(&mut self) -> Result<&'a str> {
        let length = self.length()?;
        self.text_of(length)
    }
    pub fn text_of(&mut self, length: usize) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(length)?).map_err(|_| damaged())
    }
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.length()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn frame(&mut self) -> Result<Frame> {
        Ok(Frame { compressed: self.small()?, plain: self.small()? })
    }
}

/// Returns the error of bytes that are no index.
pub(super) fn damaged() -> Error {
    Error::data("it is damaged or incomplete")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_footers_are_read_as_written() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        assert_eq!(bytes[..4], [0, 1, 127, 0x80]);
        let mut input = Input(&bytes);
        assert_eq!(numbers.map(|_| input.number().unwrap()), numbers);
        assert!(input.number().is_err(), "no bytes are left");
        let frame = Frame { compressed: 70_000, plain: 300_000 };
        let segment = Segment { offset: 12, blocks: vec![frame; 2], pages: vec![Page { first: 0x61_6263, frame }] };
        let footer = Footer {
            rows: 3,
            messages: 9,
            roles: vec!["user".into(), "größe".into()],
            rules: Vec::new(),
            segments: vec![segment, Segment::default()],
        };
        let bytes = footer.encode();
        assert_eq!(Footer::decode(&bytes).unwrap(), footer);
        for end in 0..bytes.len() {
            assert!(Footer::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
    }
}
