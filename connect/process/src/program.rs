//! Owns one process of a program. It starts the process with a clean environment, writes and reads without blocking,
//! and kills the process with all its descendants.

use crate::descendants::{ProgramMark, kill_group};
use crate::folder::ProgramFolder;
use crate::frames::{FrameBuffer, Framing};
use crate::output::{OutputLines, ProgramLog, null_log};
use crate::stop_command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, PipeReader, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::{Error, Result};

/// Maximum bytes of one response.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Grace period of a program after its input has ended.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Interval at which an exiting process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Variables that every program gets.
pub const VARIABLES: [&str; 6] = ["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"];

/// A running process. Dropping it kills the process with everything that it started.
pub struct ChildProgram {
    child: Child,
    /// `None` once it is closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// `None` once the program has closed it.
    errors: Option<ChildStderr>,
    stderr_lines: OutputLines,
    unsent: Vec<u8>,
    sent: usize,
    received: FrameBuffer,
    /// Whether the program has closed its output.
    ended: bool,
    grace: GracePeriods,
    /// Mark of the descendants, and the command to run after the end; `None` for a process that was started elsewhere.
    leftovers: Option<Leftovers>,
    /// Whether the process and its descendants were killed.
    is_over: bool,
    /// Removed after the process has ended.
    _folder: Option<TempDir>,
}

/// Data for what remains of a program after the end of its process.
struct Leftovers {
    mark: ProgramMark,
    /// Stop command; may be empty.
    stop: Vec<String>,
}

/// Times in which a process may exit after its input was closed.
#[derive(Debug, Clone, Copy, Default)]
pub struct GracePeriods {
    /// Grace period before the process is killed.
    pub killed: Duration,
    /// Grace period of a process that is no longer needed.
    pub closed: Duration,
}

impl ChildProgram {
    /// Starts the program of a folder in a separate process group, with the folder as its working folder. Errors:
    /// invalid (the program does not exist), retryable.
    pub(crate) fn start(folder: &ProgramFolder, variables: &[String], log: ProgramLog) -> Result<Self> {
        let (name, arguments) = folder.command.split_first().ok_or_else(|| Error::invalid("the command is empty"))?;
        let mark = ProgramMark::unique();
        let mut process = Command::new(name);
        process.args(arguments).current_dir(folder.path()).env_clear().process_group(0);
        let named = VARIABLES.into_iter().chain(variables.iter().map(String::as_str));
        process.envs(named.filter_map(|name| Some((name, std::env::var_os(name)?))));
        // `TRAINYARD_PROTOCOL` makes the bridge reserve the standard output. The other variables fix the order of
        // Python's sets in all processes and keep bytecode out of the folder.
        process.env("TRAINYARD_PROTOCOL", "1").env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
        process.envs(mark.variables());
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = process.spawn().map_err(|e| spawn_error(name, &e))?;
        let grace = GracePeriods { killed: Duration::ZERO, closed: EXIT_GRACE };
        let mut program = Self::over(child, Framing::Lines(MAX_LINE_BYTES), grace, None)?;
        program.stderr_lines = OutputLines::new(log);
        program.leftovers = Some(Leftovers { mark, stop: folder.stop.clone() });
        Ok(program)
    }
    /// Wraps a process that was started with pipes for its input and output, and optionally for its errors. `folder` is
    /// removed after the process has ended. Errors: bug (no pipes), retryable.
    pub fn over(mut child: Child, framing: Framing, grace: GracePeriods, folder: Option<TempDir>) -> Result<Self> {
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::bug("a program was started without pipes"));
        };
        let errors = child.stderr.take();
        let set = set_nonblocking(&input).and_then(|()| set_nonblocking(&output));
        let set = set.and_then(|()| errors.as_ref().map_or(Ok(()), set_nonblocking));
        let program = Self {
            child,
            input: Some(input),
            output,
            errors,
            stderr_lines: OutputLines::new(null_log()),
            unsent: Vec::new(),
            sent: 0,
            received: FrameBuffer::new(framing),
            ended: false,
            grace,
            leftovers: None,
            is_over: false,
            _folder: folder,
        };
        set.map_err(|e| Error::retryable(format!("cannot set up the pipes of a program: {e}")))?;
        Ok(program)
    }
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
    /// Queues bytes, which are sent when the program reads.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.write();
    }
    /// Waits until the program or `wake` is ready, or until `timeout`, then reads and writes without blocking.
    pub(crate) fn wait(&mut self, wake: &PipeReader, timeout: Option<Duration>) {
        let mut pipes = vec![PollFd::new(wake, PollFlags::IN)];
        if !self.ended {
            pipes.push(PollFd::new(&self.output, PollFlags::IN));
        }
        if let Some(errors) = &self.errors {
            pipes.push(PollFd::new(errors, PollFlags::IN));
        }
        if let Some(input) = self.input.as_ref().filter(|_| self.sent < self.unsent.len()) {
            pipes.push(PollFd::new(input, PollFlags::OUT));
        }
        poll_pipes(&mut pipes, timeout);
        drop(pipes);
        self.write();
        self.read_errors();
        self.read();
    }
    /// Returns the next frame of the output, or `None` if no frame is complete yet. Errors: the reason why no further
    /// frame can follow.
    pub(crate) fn frame(&mut self) -> Result<Option<Vec<u8>>, String> {
        let frame = self.received.take()?;
        if frame.is_some() || !self.ended {
            return Ok(frame);
        }
        let unfinished = self.received.unfinished();
        Err(format!("{}{unfinished}", self.end()))
    }
    /// Returns the exit status, or `None` while the process runs.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
    /// Kills the process and returns the last lines of its standard error.
    pub(crate) fn kill_for_stderr(mut self) -> String {
        self.kill();
        self.read_errors();
        std::mem::replace(&mut self.stderr_lines, OutputLines::new(null_log())).last()
    }
    /// Closes the input, and kills the process if it does not exit within the grace period.
    pub(crate) fn close(mut self) {
        self.close_and_wait(self.grace.closed);
        self.read_errors();
    }

    /// Closes the input and waits for the process to end.
    fn close_and_wait(&mut self, mut remaining: Duration) {
        self.input = None;
        while !remaining.is_zero() && matches!(self.child.try_wait(), Ok(None)) {
            self.read_errors();
            self.read();
            self.received.clear();
            std::thread::sleep(POLL_INTERVAL);
            remaining = remaining.saturating_sub(POLL_INTERVAL);
        }
    }

    fn write(&mut self) {
        let Some(input) = &mut self.input else { return };
        while self.sent < self.unsent.len() {
            match input.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A program that no longer reads has ended, or will exceed its time limit.
                Err(_) => break,
            }
        }
        self.unsent.clear();
        self.sent = 0;
    }
    fn read(&mut self) {
        let mut chunk = [0; 1 << 16];
        while !self.ended && self.received.has_room() {
            match self.output.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.received.extend(&chunk[..count]);
                    if count < chunk.len() {
                        return;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.ended = true,
            }
        }
    }
    fn read_errors(&mut self) {
        let mut chunk = [0; 1 << 14];
        // Limits the reads of a program that writes endlessly.
        for _ in 0..64 {
            let Some(errors) = &mut self.errors else { return };
            match errors.read(&mut chunk) {
                Ok(0) => self.errors = None,
                Ok(count) => self.stderr_lines.take(&chunk[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.errors = None,
            }
        }
    }
    /// Describes the exit of a program that has closed its output. A program that still runs is killed.
    fn end(&mut self) -> String {
        let mut remaining = EXIT_GRACE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return describe_status(status),
                Ok(None) if !remaining.is_zero() => std::thread::sleep(POLL_INTERVAL),
                _ => break,
            }
            remaining = remaining.saturating_sub(POLL_INTERVAL);
        }
        self.kill();
        "closed its standard output".to_string()
    }
    /// Kills the process with everything that it started, and runs its stop command, once.
    fn kill(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if !self.grace.killed.is_zero() {
            self.close_and_wait(self.grace.killed);
        }
        let has_exited = matches!(self.child.try_wait(), Ok(Some(_)));
        // The id of a process that was waited for may belong to another one.
        let leader = (!has_exited).then(|| self.child.id());
        match &self.leftovers {
            Some(Leftovers { mark, .. }) => mark.kill(leader),
            None => leader.into_iter().for_each(kill_group),
        }
        if !has_exited {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        if let Some(Leftovers { mark, stop }) = &self.leftovers {
            stop_command::run(stop, mark);
        }
    }
}

/// Returns user and group of this process, as `1000:1000`.
pub fn own_user() -> String {
    format!("{}:{}", rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for `wake` alone, while no process runs.
pub fn wait_for_wake(wake: &PipeReader) {
    poll_pipes(&mut [PollFd::new(wake, PollFlags::IN)], None);
}

/// Makes a pipe nonblocking.
pub fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

fn poll_pipes(pipes: &mut [PollFd<'_>], timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    });
    // The caller reads and writes the pipes regardless of the result.
    let _ = poll(pipes, timeout.as_ref());
}

pub fn spawn_error(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::invalid(format!("program `{name}` was not found"))
            .help("install it where the stage runs, or name a file next to the workflow file"),
        io::ErrorKind::PermissionDenied => Error::invalid(format!("`{name}` is not executable"))
            .help("put its interpreter first, as in `command: [python3, my_reward.py]`, or begin the file with `#!`"),
        _ => Error::retryable(format!("cannot start `{name}`")).caused_by(error),
    }
}

pub fn describe_status(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn unresponsive_process_is_killed_and_reaped() {
        let mut command = Command::new("sh");
        command.args(["-c", "exec <&-; echo; exec sleep 1000"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let mut program =
            ChildProgram::over(child, Framing::Lines(MAX_LINE_BYTES), GracePeriods::default(), None).unwrap();
        let entry = format!("/proc/{}", program.id());
        let (wake, _waker) = io::pipe().unwrap();
        // This line is printed once it has closed its end of the pipe.
        while program.frame().unwrap().is_none() {
            program.wait(&wake, None);
        }
        program.send(b"hello");
        assert!(Path::new(&entry).exists());
        drop(program);
        assert!(!Path::new(&entry).exists(), "it is neither running nor a zombie");
    }
}
