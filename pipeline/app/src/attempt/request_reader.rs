//! Reads the requests to a host: JSON Lines from a socket, some with the lock of an attempt's slots as a file
//! descriptor.
//!
//! The commands of the host inherit the locks. If both the engine and the host are killed, the locks last until the
//! commands end. In all other cases the owner of the slots releases the locks.

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::HostRequest;

/// Maximum number of locks in one read.
const LOCKS: usize = 64;
/// Read buffer size in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

pub struct HostRequestReader<S> {
    socket: S,
    /// Bytes received but not yet parsed.
    buffer: Vec<u8>,
    /// Length of the buffer's prefix that has no line end.
    searched: usize,
    /// Locks, in the order of their lines.
    locks: VecDeque<OwnedFd>,
}

impl<S: AsFd> HostRequestReader<S> {
    pub fn from(socket: S) -> Self {
        Self { socket, buffer: Vec::new(), searched: 0, locks: VecDeque::new() }
    }
    /// Waits for the next request and its lock. Returns `None` at the end of the requests. Errors: bug (an unreadable
    /// request).
    pub fn next(&mut self) -> Result<Option<(HostRequest, Option<OwnedFd>)>> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                let request = serde_json::from_slice(&line)
                    .map_err(|e| Error::bug("a request of the engine cannot be read").caused_by(&e))?;
                let lock = if matches!(request, HostRequest::Start { lock: true, .. }) {
                    self.locks.pop_front()
                } else {
                    None
                };
                return Ok(Some((request, lock)));
            }
            self.searched = self.buffer.len();
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads the available bytes. Returns false at the end of the socket.
    fn read(&mut self) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LOCKS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut piece = vec![0; BUFFER_BYTES];
        let mut parts = [IoSliceMut::new(&mut piece)];
        let received = match recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::empty()) {
            Ok(received) => received,
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(e) => return Err(Error::bug(format!("the requests of the engine cannot be read: {e}"))),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(locks) = message {
                self.locks.extend(locks);
            }
        }
        self.buffer.extend_from_slice(&piece[..received.bytes]);
        Ok(received.bytes > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::tests::spec;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::fs::File;
    use std::io::{IoSlice, Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    fn start(id: u64, lock: bool) -> Vec<u8> {
        let request = HostRequest::Start { id, url: "memory://#x".into(), spec: Box::new(spec()), lock };
        [serde_json::to_vec(&request).unwrap(), b"\n".to_vec()].concat()
    }

    /// Sends bytes along with a file descriptor.
    fn send(socket: &UnixStream, bytes: &[u8], file: &File) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        assert_eq!(sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty()), Ok(bytes.len()));
    }

    #[test]
    fn each_request_gets_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        for (id, name) in [(1, "one"), (2, "two")] {
            std::fs::write(folder.path().join(name), name).unwrap();
            let (line, file) = (start(id, true), File::open(folder.path().join(name)).unwrap());
            send(&ours, &line[..7], &file);
            ours.write_all(&line[7..]).unwrap();
            ours.write_all(&start(id + 10, false)).unwrap();
        }
        ours.write_all(b"{\"stop\":{\"id\":1,\"timed_out\":true}}\n").unwrap();
        drop(ours);
        let (mut reader, mut seen) = (HostRequestReader::from(theirs), Vec::new());
        while let Some((request, lock)) = reader.next().unwrap() {
            let mut text = String::new();
            if let Some(lock) = lock {
                File::from(lock).read_to_string(&mut text).unwrap();
            }
            seen.push(match request {
                HostRequest::Start { id, .. } => format!("{id} {text}"),
                HostRequest::Stop { id, timed_out } => format!("stop {id} {timed_out}"),
                HostRequest::Kill { id } => format!("kill {id}"),
            });
        }
        assert_eq!(seen, ["1 one", "11 ", "2 two", "12 ", "stop 1 true"]);
    }

    #[test]
    fn invalid_request_is_an_error() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(b"{\"dance\":{}}\n").unwrap();
        let error = HostRequestReader::from(theirs).next().unwrap_err();
        assert!(error.message.contains("cannot be read"), "{error}");
    }
}
