//! Sends requests to a host through a socket, which can transfer the locks of slots with them.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::mpsc::UnboundedReceiver;

/// Encoded request, with the lock to transfer.
pub(super) struct HostMessage {
    pub line: Vec<u8>,
    pub lock: Option<OwnedFd>,
}

/// Sends requests until all their senders are dropped or the host has ended.
pub(super) async fn send_all(stream: UnixStream, mut messages: UnboundedReceiver<HostMessage>) {
    while let Some(message) = messages.recv().await {
        if let Err(error) = send(&stream, &message).await {
            // The reader of its output detects the end of the host.
            tracing::debug!(%error, "the host accepts no more requests");
            return;
        }
    }
}

async fn send(stream: &UnixStream, message: &HostMessage) -> std::io::Result<()> {
    let mut lock = message.lock.as_ref();
    let mut rest = &message.line[..];
    while !rest.is_empty() {
        let sent = stream.async_io(Interest::WRITABLE, || send_now(stream, rest, lock)).await?;
        // The lock is sent with the first byte.
        lock = None;
        rest = &rest[sent..];
    }
    Ok(())
}

fn send_now(stream: &UnixStream, bytes: &[u8], lock: Option<&OwnedFd>) -> std::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let lock = lock.map(|lock| [lock.as_fd()]);
    if let Some(lock) = &lock {
        ancillary.push(SendAncillaryMessage::ScmRights(lock));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::empty())?)
}
