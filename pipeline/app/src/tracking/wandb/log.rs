//! Writes the file of an offline run: a header and records, framed like a log of LevelDB (its doc/log_format.md).
//! Unlike there, the checksum is an unmasked CRC-32.

use crate::tracking::protobuf::ProtobufMessage;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// File header: a name, a magic number and the version of the framing.
const HEADER: [u8; 7] = [b':', b'W', b'&', b'B', 0xe1, 0xbe, 0];
/// Bytes of a block of the log.
const BLOCK: usize = 32 << 10;
/// Bytes before a fragment: checksum, length, type.
const FRAME: usize = 7;

pub(super) struct WandbLog {
    file: File,
    path: PathBuf,
    length: usize,
    records: u64,
}

impl WandbLog {
    /// Creates the file `name` in `folder`, which is created if missing.
    pub fn create(folder: &Path, name: &str) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e))?;
        let path = folder.join(name);
        let mut file = File::create(&path).map_err(|e| io_error(&path, &e))?;
        file.write_all(&HEADER).map_err(|e| io_error(&path, &e))?;
        Ok(Self { file, path, length: HEADER.len(), records: 0 })
    }
    /// Appends a record with the field `kind`.
    pub fn write(&mut self, kind: u32, message: &ProtobufMessage) -> Result<()> {
        self.records += 1;
        let record = ProtobufMessage::default().number(1, self.records).message(kind, message);
        let bytes = framed(self.length, record.as_bytes());
        let written = self.file.write_all(&bytes);
        written.map_err(|e| Error::retryable(format!("{} cannot be written", self.path.display())).caused_by(&e))?;
        self.length += bytes.len();
        Ok(())
    }
}

/// Splits a record into fragments that begin at `offset` of the file and do not cross a block boundary.
fn framed(offset: usize, mut record: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(record.len() + FRAME);
    let mut first = true;
    loop {
        let room = BLOCK - (offset + bytes.len()) % BLOCK;
        if room < FRAME {
            bytes.resize(bytes.len() + room, 0);
            continue;
        }
        let (part, rest) = record.split_at(record.len().min(room - FRAME));
        let kind: u8 = match (first, rest.is_empty()) {
            (true, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
            (false, true) => 4,
        };
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&[kind]);
        checksum.update(part);
        bytes.extend_from_slice(&checksum.finalize().to_le_bytes());
        bytes.extend_from_slice(&(part.len() as u16).to_le_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(part);
        if rest.is_empty() {
            return bytes;
        }
        (record, first) = (rest, false);
    }
}

/// Returns the fragments of a file, with their types and contents.
#[cfg(test)]
pub(super) fn fragments(bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    assert_eq!(bytes[..7], HEADER);
    let (mut at, mut found) = (7, Vec::new());
    while at < bytes.len() {
        let room = BLOCK - at % BLOCK;
        if room < FRAME {
            assert!(bytes[at..at + room].iter().all(|byte| *byte == 0));
            at += room;
            continue;
        }
        let length = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        assert!(FRAME + length <= room, "a fragment crosses a block");
        let data = &bytes[at + 6..at + FRAME + length];
        assert_eq!(crc32fast::hash(data).to_le_bytes(), bytes[at..at + 4]);
        found.push((bytes[at + 6], data[1..].to_vec()));
        at += FRAME + length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_length_stay_within_blocks() {
        for lengths in [vec![0, 1, 5], vec![BLOCK - 14 - 7], vec![BLOCK - 14 - 8, 9], vec![BLOCK - 20, 3 * BLOCK, 1]] {
            let mut bytes = HEADER.to_vec();
            for (n, length) in lengths.iter().enumerate() {
                bytes.extend(framed(bytes.len(), &vec![n as u8; *length]));
            }
            let mut records: Vec<Vec<u8>> = Vec::new();
            for (kind, data) in fragments(&bytes) {
                match kind {
                    1 | 2 => records.push(data),
                    _ => records.last_mut().unwrap().extend(data),
                }
            }
            let expected: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(n, length)| vec![n as u8; *length]).collect();
            assert_eq!(records, expected, "{lengths:?}");
        }
    }
}
