//! Waits on one thread for the output of a command and for its end.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;
use trainyard_runtime::executors::{LineSplitter, TEXT_LIMIT};

/// Read buffer size in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Poll interval if the system cannot signal the end of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Output of a command, as lines of limited length.
pub struct Pipes {
    open: Vec<Pipe>,
    /// Becomes readable when the process has ended; `None` if the system has no process descriptors.
    exit_fd: Option<OwnedFd>,
    buffer: Vec<u8>,
}

struct Pipe {
    file: File,
    lines: LineSplitter,
    stream: OutputStream,
}

/// Source of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputStream {
    Out,
    Err,
}

impl Pipes {
    /// Takes stdout and stderr of a process.
    pub fn of(child: &mut Child) -> Self {
        let out = child.stdout.take().map(|pipe| (OwnedFd::from(pipe), OutputStream::Out));
        let err = child.stderr.take().map(|pipe| (OwnedFd::from(pipe), OutputStream::Err));
        let pipe = |(fd, stream)| Pipe { file: File::from(fd), lines: LineSplitter::new(TEXT_LIMIT), stream };
        Self {
            open: out.into_iter().chain(err).map(pipe).collect(),
            exit_fd: exit_fd(child),
            buffer: vec![0; BUFFER_BYTES],
        }
    }
    /// Returns whether the write ends of all pipes are closed.
    pub fn are_closed(&self) -> bool {
        self.open.is_empty()
    }
    /// Waits up to `limit` for output, the end of the process or the end of a pipe. Calls `on_line` for each complete
    /// line.
    pub fn wait(&mut self, limit: Duration, on_line: &mut impl FnMut(OutputStream, &str)) {
        let limit = if self.exit_fd.is_some() { limit } else { limit.min(POLL_INTERVAL) };
        let mut ready = self.poll(limit).into_iter();
        let mut open = Vec::with_capacity(self.open.len());
        for mut pipe in std::mem::take(&mut self.open) {
            if !ready.next().unwrap_or(false) || pipe.read(&mut self.buffer, on_line) {
                open.push(pipe);
            } else {
                pipe.lines.finish(&mut |line| on_line(pipe.stream, line));
            }
        }
        self.open = open;
    }
    /// Excludes the end of the process, which has ended, from later waits.
    pub fn clear_exit_fd(&mut self) {
        self.exit_fd = None;
    }
    /// Passes unfinished lines to `on_line`.
    pub fn finish(self, on_line: &mut impl FnMut(OutputStream, &str)) {
        for pipe in self.open {
            pipe.lines.finish(&mut |line| on_line(pipe.stream, line));
        }
    }

    /// Waits, and returns for each pipe whether it has data to read or has ended.
    fn poll(&self, limit: Duration) -> Vec<bool> {
        let pipes = self.open.iter().map(|pipe| PollFd::new(&pipe.file, PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> =
            pipes.chain(self.exit_fd.iter().map(|end| PollFd::new(end, PollFlags::IN))).collect();
        // An interrupted wait returns early, and the caller waits again.
        let _ = poll(&mut fds, Timespec::try_from(limit).ok().as_ref());
        fds.iter().map(|fd| !fd.revents().is_empty()).collect()
    }
}

impl Pipe {
    /// Reads the available bytes. Returns false at the end of the pipe.
    fn read(&mut self, buffer: &mut [u8], on_line: &mut impl FnMut(OutputStream, &str)) -> bool {
        match self.file.read(buffer) {
            Ok(0) => false,
            Ok(size) => {
                self.lines.feed(&buffer[..size], &mut |line| on_line(self.stream, line));
                true
            }
            // A broken pipe ends the log. The exit status shows how the process ended.
            Err(e) => e.kind() == ErrorKind::Interrupted,
        }
    }
}

#[cfg(target_os = "linux")]
fn exit_fd(child: &Child) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed())?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_fd(_: &Child) -> Option<OwnedFd> {
    None
}
