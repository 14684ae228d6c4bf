//! Splits the output of a process into frames.

use crate::wire;

/// Bytes of a frame's length prefix.
const HEAD: usize = 4;

/// Format of frames in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Lines of at most about this many bytes, without their ends.
    Lines(usize),
    /// A `u32` length in little-endian order, then as many bytes, up to this many.
    Lengths(usize),
}

/// Received bytes that were not yet taken as frames.
pub struct FrameBuffer {
    framing: Framing,
    bytes: Vec<u8>,
    /// Bytes that were returned as frames.
    taken: usize,
    /// Bytes that were searched for the end of a line.
    searched: usize,
}

impl FrameBuffer {
    pub fn new(framing: Framing) -> Self {
        Self { framing, bytes: Vec::new(), taken: 0, searched: 0 }
    }
    /// Returns whether the buffer accepts more bytes before the next frame is taken.
    pub fn has_room(&self) -> bool {
        let (Framing::Lines(max) | Framing::Lengths(max)) = self.framing;
        self.bytes.len() <= max + HEAD
    }
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.taken, self.searched) = (0, 0);
    }
    /// Takes the first complete frame, or returns `None` if no frame is complete. Errors: a description, if the frame
    /// is too large.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, String> {
        match self.framing {
            Framing::Lines(max) => self.take_line(max),
            Framing::Lengths(max) => self.take_length(max),
        }
    }
    /// Describes the incomplete frame at the end of the output, for error messages. The text is empty if the output
    /// ends with a complete frame.
    pub fn unfinished(&self) -> String {
        match self.framing {
            _ if self.taken == self.bytes.len() => String::new(),
            Framing::Lines(_) => format!(" in the middle of a line: {}", wire::excerpt(&self.bytes[self.taken..])),
            Framing::Lengths(_) => " in the middle of a frame".to_string(),
        }
    }

    fn take_line(&mut self, max: usize) -> Result<Option<Vec<u8>>, String> {
        if let Some(at) = memchr::memchr(b'\n', &self.bytes[self.searched..]) {
            let end = self.searched + at;
            let line = self.bytes[self.taken..end].to_vec();
            (self.taken, self.searched) = (end + 1, end + 1);
            return Ok(Some(line));
        }
        self.compact();
        self.searched = self.bytes.len();
        if self.bytes.len() > max {
            return Err(format!("wrote a line of more than {} MiB", max >> 20));
        }
        Ok(None)
    }
    fn take_length(&mut self, max: usize) -> Result<Option<Vec<u8>>, String> {
        let rest = &self.bytes[self.taken..];
        let length = rest.first_chunk::<HEAD>().map(|head| u32::from_le_bytes(*head) as usize);
        if length.is_some_and(|length| length > max) {
            return Err(format!("wrote a frame of more than {} MiB", max >> 20));
        }
        let frame = length.and_then(|length| rest.get(HEAD..HEAD + length)).map(<[u8]>::to_vec);
        match &frame {
            Some(frame) => self.taken += HEAD + frame.len(),
            None => self.compact(),
        }
        Ok(frame)
    }
    /// Removes the taken bytes. The caller defers it until no frame is complete, since otherwise each short frame would
    /// move the rest of the buffer.
    fn compact(&mut self) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_returned_once_complete() {
        let mut received = FrameBuffer::new(Framing::Lines(1 << 20));
        received.extend(b"one\n\ntw");
        assert_eq!(received.take(), Ok(Some(b"one".to_vec())));
        assert_eq!(received.take(), Ok(Some(Vec::new())));
        assert_eq!(received.take(), Ok(None));
        assert_eq!(received.unfinished(), " in the middle of a line: `tw`");
        received.extend(b"o\n");
        assert_eq!(received.take(), Ok(Some(b"two".to_vec())));
        assert_eq!((received.take(), received.unfinished()), (Ok(None), String::new()));
        received.extend("x".repeat((1 << 20) + 1).as_bytes());
        assert!(received.take().unwrap_err().contains("a line of more than 1 MiB"));
    }

    #[test]
    fn frames_are_returned_once_complete() {
        let mut received = FrameBuffer::new(Framing::Lengths(1 << 20));
        received.extend(&[3, 0, 0, 0, b'a']);
        assert_eq!(received.take(), Ok(None));
        assert_eq!(received.unfinished(), " in the middle of a frame");
        received.extend(b"bc\0\0\0\0");
        assert_eq!(received.take(), Ok(Some(b"abc".to_vec())));
        assert_eq!(received.take(), Ok(Some(Vec::new())));
        assert_eq!((received.take(), received.unfinished()), (Ok(None), String::new()));
        received.extend(&[255; 8]);
        assert!(received.take().unwrap_err().contains("a frame of more than 1 MiB"));
    }
}
