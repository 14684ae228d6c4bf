//! The orders of a host: JSON Lines from a socket, some of which bring the lock of an attempt's slots.
//!
//! The locks stay open to the commands that the host starts. Should the engine and the host both be killed, they last as
//! long as anything that was started under them; in all other cases whoever took the slots gives them back.

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::Order;

/// Locks that may come with one piece.
const LOCKS: usize = 64;
/// Bytes that are read at once.
const PIECE: usize = 64 * 1024;

/// Reads orders.
pub struct Orders<S> {
    socket: S,
    /// What came and was not read as an order yet.
    waiting: Vec<u8>,
    /// Up to here there is no line end.
    searched: usize,
    /// In the order of the lines that they belong to.
    locks: VecDeque<OwnedFd>,
}

impl<S: AsFd> Orders<S> {
    /// Reads from a socket.
    pub fn from(socket: S) -> Self {
        Self { socket, waiting: Vec::new(), searched: 0, locks: VecDeque::new() }
    }
    /// Waits for the next order, and the lock that it brings; none at the end. Errors: bug (it cannot be read).
    pub fn next(&mut self) -> Result<Option<(Order, Option<OwnedFd>)>> {
        loop {
            if let Some(end) = self.waiting[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.waiting.drain(..=self.searched + end).collect();
                self.searched = 0;
                let order = serde_json::from_slice(&line)
                    .map_err(|e| Error::bug("an order of the engine cannot be read").caused_by(&e))?;
                let lock = if matches!(order, Order::Start { lock: true, .. }) { self.locks.pop_front() } else { None };
                return Ok(Some((order, lock)));
            }
            self.searched = self.waiting.len();
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Reads what there is. Returns whether more may come.
    fn read(&mut self) -> Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(LOCKS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut piece = vec![0; PIECE];
        let mut parts = [IoSliceMut::new(&mut piece)];
        let received = match recvmsg(&self.socket, &mut parts, &mut ancillary, RecvFlags::empty()) {
            Ok(received) => received,
            Err(rustix::io::Errno::INTR) => return Ok(true),
            Err(e) => return Err(Error::bug(format!("the orders of the engine cannot be read: {e}"))),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(locks) = message {
                self.locks.extend(locks);
            }
        }
        self.waiting.extend_from_slice(&piece[..received.bytes]);
        Ok(received.bytes > 0)
    }
}
