//! Opens files as streams of decompressed bytes.

use super::limited::LimitedReader;
use flate2::bufread::MultiGzDecoder;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Buffer size in bytes.
const BUFFER: usize = 1 << 18;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Decompressed bytes of a file.
pub type Bytes = Box<dyn BufRead + Send>;

/// Returns whether a file that begins with `start` is compressed.
pub fn is_packed(start: &[u8]) -> bool {
    start.starts_with(&GZIP) || start.starts_with(&ZSTANDARD)
}

/// Opens a file that begins with `start`, and decompresses gzip and Zstandard. Reading fails beyond `max_bytes`
/// decompressed bytes.
pub fn open_decompressed(path: &Path, start: &[u8], max_bytes: u64) -> Result<Bytes> {
    let file = BufReader::with_capacity(BUFFER, File::open(path).map_err(|e| io_error(path, &e))?);
    Ok(if start.starts_with(&GZIP) {
        limited(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)), max_bytes)
    } else if start.starts_with(&ZSTANDARD) {
        let decoder = zstd::stream::read::Decoder::with_buffer(file).map_err(|e| read_error(path, &e))?;
        limited(BufReader::with_capacity(BUFFER, decoder), max_bytes)
    } else {
        limited(file, max_bytes)
    })
}

fn limited(bytes: impl BufRead + Send + 'static, max_bytes: u64) -> Bytes {
    Box::new(LimitedReader::new(bytes, max_bytes))
}

/// Skips a byte-order mark.
pub fn skip_mark(path: &Path, mut bytes: Bytes) -> Result<Bytes> {
    if bytes.fill_buf().map_err(|e| read_error(path, &e))?.starts_with(&BYTE_ORDER_MARK) {
        bytes.consume(BYTE_ORDER_MARK.len());
    }
    Ok(bytes)
}

/// Returns the error of a file with more decompressed bytes than allowed.
pub fn too_large(path: &Path, reason: impl Display) -> Error {
    Error::data(format!("{}: {reason}", path.display()))
        .help("check where the file comes from, split it, or raise `max_file_bytes` of `data/import`")
}

/// Returns the error of a file whose bytes cannot be read.
pub fn read_error(path: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{FileTooLarge, InvalidData, InvalidInput, Other, UnexpectedEof};
    match error.kind() {
        FileTooLarge => too_large(path, error),
        InvalidData | InvalidInput | Other | UnexpectedEof => {
            Error::data(format!("{} is cut off or corrupt: {error}", path.display()))
                .help("download or copy the file again")
        }
        _ => io_error(path, error),
    }
}
