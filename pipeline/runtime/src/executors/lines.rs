//! Lines of a pipe, bounded: a process that writes without line ends must not eat the engine's memory.

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Bytes of a line that are kept; the rest of it is dropped.
const LINE_LIMIT: usize = 1 << 20;

/// Calls `see` for every line until the pipe ends. Bytes that are no UTF-8 are replaced.
pub(super) async fn for_each_line(pipe: impl AsyncRead + Unpin, mut see: impl FnMut(&str)) {
    let mut reader = BufReader::with_capacity(64 * 1024, pipe);
    let mut line: Vec<u8> = Vec::new();
    // A broken pipe ends the stream like any other end; how the process ended is told by its exit status.
    while let Ok(bytes) = reader.fill_buf().await {
        if bytes.is_empty() {
            break;
        }
        let end = bytes.iter().position(|b| *b == b'\n');
        let piece = &bytes[..end.unwrap_or(bytes.len())];
        line.extend_from_slice(&piece[..piece.len().min(LINE_LIMIT.saturating_sub(line.len()))]);
        let used = end.map_or(bytes.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            see(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    if !line.is_empty() {
        see(&String::from_utf8_lossy(&line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_at_the_limit_and_the_last_needs_no_end() {
        let mut text = vec![b'x'; 3 * LINE_LIMIT];
        text.extend_from_slice(b"\nsecond\n\nlast");
        let mut lines = Vec::new();
        for_each_line(text.as_slice(), |l| lines.push(l.to_string())).await;
        assert_eq!(lines[0].len(), LINE_LIMIT);
        assert_eq!(lines[1..], ["second", "", "last"]);
    }
}
