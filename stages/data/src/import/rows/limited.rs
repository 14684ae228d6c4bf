//! Limits the decompressed bytes of a file: a small archive may hold more than any disk.

use std::io::{self, BufRead, ErrorKind, Read};
use trainyard_core::units::format_size;

/// Reader that fails once more than a maximum of bytes is there.
pub struct LimitedReader<R> {
    inner: R,
    left: u64,
    max_bytes: u64,
}

impl<R> LimitedReader<R> {
    pub fn new(inner: R, max_bytes: u64) -> Self {
        Self { inner, left: max_bytes, max_bytes }
    }
}

impl<R: BufRead> BufRead for LimitedReader<R> {
    /// Errors: those of the reader; [`ErrorKind::FileTooLarge`] at the first byte beyond the maximum.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let seen = self.inner.fill_buf()?;
        if self.left == 0 && !seen.is_empty() {
            let limit = format_size(self.max_bytes);
            return Err(io::Error::new(ErrorKind::FileTooLarge, format!("more than {limit} of decompressed data")));
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        Ok(&seen[..seen.len().min(most)])
    }
    fn consume(&mut self, amount: usize) {
        self.left = self.left.saturating_sub(amount as u64);
        self.inner.consume(amount);
    }
}

impl<R: BufRead> Read for LimitedReader<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let mut seen = self.fill_buf()?;
        let count = seen.read(to)?;
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_maximum_is_read() {
        for (max, whole) in [(0, false), (3, false), (4, true), (u64::MAX, true)] {
            let mut bytes = Vec::new();
            let read = LimitedReader::new(&b"abcd"[..], max).read_to_end(&mut bytes);
            assert_eq!(read.is_ok(), whole, "{max}");
            assert_eq!(bytes.len() as u64, if whole { 4 } else { max }, "what fits is read");
        }
        let mut lines = LimitedReader::new(&b"a\nbc\n"[..], 3);
        let mut line = Vec::new();
        assert_eq!(lines.read_until(b'\n', &mut line).unwrap(), 2);
        let error = lines.read_until(b'\n', &mut line).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert_eq!(LimitedReader::new(&b""[..], 0).read_until(b'\n', &mut line).unwrap(), 0);
    }
}
