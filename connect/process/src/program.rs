//! One process of a program from its owner's side: started with a clean environment, written to and read without
//! blocking, killed with all its descendants.

use crate::output::{OutputLines, ProgramLog};
use crate::wire;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{self, PipeReader, Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Maximum bytes of one response.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Grace period of a program after its input has ended.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// Interval at which an ending process is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Variables that every program gets.
pub const VARIABLES: [&str; 6] = ["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ"];

pub struct ProgramProcess {
    child: Child,
    /// `None` once it was closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// `None` once the program has closed it.
    errors: Option<ChildStderr>,
    stderr_lines: OutputLines,
    unsent: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// Bytes of `received` that were returned as lines.
    taken: usize,
    /// Bytes of `received` that were searched for the end of a line.
    searched: usize,
    /// Whether the program has closed its output.
    ended: bool,
}

impl ProgramProcess {
    /// Starts it in a separate folder and process group. Errors: invalid (there is no such program), retryable.
    pub fn start(command: &[String], folder: &Path, variables: &[String], log: ProgramLog) -> Result<Self> {
        let (name, arguments) = command.split_first().ok_or_else(|| Error::invalid("no program is named"))?;
        let mut starting = Command::new(name);
        starting.args(arguments).current_dir(folder).env_clear().process_group(0);
        let named = VARIABLES.into_iter().chain(variables.iter().map(String::as_str));
        starting.envs(named.filter_map(|name| Some((name, std::env::var_os(name)?))));
        // The bridge reserves the standard output; the order of Python's sets is the same in all processes; no bytecode
        // is written next to the program.
        starting.env("TRAINYARD_PROTOCOL", "1").env("PYTHONHASHSEED", "0").env("PYTHONDONTWRITEBYTECODE", "1");
        starting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = starting.spawn().map_err(|e| spawn_error(name, &e))?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(Error::bug("a program was started without pipes"));
        };
        let set =
            set_nonblocking(&input).and_then(|()| set_nonblocking(&output)).and_then(|()| set_nonblocking(&errors));
        let program = Self {
            child,
            input: Some(input),
            output,
            errors: Some(errors),
            stderr_lines: OutputLines::new(log),
            unsent: Vec::new(),
            sent: 0,
            received: Vec::new(),
            taken: 0,
            searched: 0,
            ended: false,
        };
        set.map_err(|e| Error::retryable(format!("cannot set up the pipes of a program: {e}")))?;
        Ok(program)
    }
    /// Queues a line, to be sent when the program reads.
    pub fn send(&mut self, line: &str) {
        self.unsent.extend_from_slice(line.as_bytes());
        self.write();
    }
    /// Waits until the program or `wake` is ready, or the time is over, then reads and writes without blocking.
    pub fn wait(&mut self, wake: &PipeReader, within: Option<Duration>) {
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
        poll_pipes(&mut pipes, within);
        drop(pipes);
        self.write();
        self.read_errors();
        self.read();
    }
    /// Returns the next line of its output, or `None` if there is no complete one yet. Errors: why there will be no
    /// more lines.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>, String> {
        if let Some(at) = memchr::memchr(b'\n', &self.received[self.searched..]) {
            let end = self.searched + at;
            let line = self.received[self.taken..end].to_vec();
            (self.taken, self.searched) = (end + 1, end + 1);
            return Ok(Some(line));
        }
        // Deferred, since otherwise a program that writes many short lines would have the rest moved for each of them.
        self.received.drain(..self.taken);
        self.taken = 0;
        self.searched = self.received.len();
        if self.received.len() > MAX_LINE_BYTES {
            return Err(format!("wrote a line of more than {} MiB", MAX_LINE_BYTES >> 20));
        }
        if !self.ended {
            return Ok(None);
        }
        let half = if self.received.is_empty() {
            String::new()
        } else {
            format!(" in the middle of a line: {}", wire::excerpt(&self.received))
        };
        Err(format!("{}{half}", self.end()))
    }
    /// Kills the process and returns the last lines of its standard error.
    pub fn kill_for_stderr(mut self) -> String {
        self.kill();
        self.read_errors();
        std::mem::replace(&mut self.stderr_lines, OutputLines::new(crate::null_log())).last()
    }
    /// Closes its input and waits for the grace period.
    pub fn close(mut self) {
        self.input = None;
        let mut left = EXIT_GRACE;
        while !left.is_zero() && matches!(self.child.try_wait(), Ok(None)) {
            self.read_errors();
            self.read();
            self.received.clear();
            std::thread::sleep(POLL_INTERVAL);
            left = left.saturating_sub(POLL_INTERVAL);
        }
        self.read_errors();
    }

    fn write(&mut self) {
        let Some(input) = &mut self.input else { return };
        while self.sent < self.unsent.len() {
            match input.write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A program that no longer reads has ended, or is late.
                Err(_) => break,
            }
        }
        self.unsent.clear();
        self.sent = 0;
    }
    fn read(&mut self) {
        let mut chunk = [0; 1 << 16];
        while !self.ended && self.received.len() <= MAX_LINE_BYTES {
            match self.output.read(&mut chunk) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.received.extend_from_slice(&chunk[..count]);
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
        // A limit for programs that write endlessly.
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
    /// Returns how a program that closed its output ended. One that still runs is killed.
    fn end(&mut self) -> String {
        let mut left = EXIT_GRACE;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return describe_status(status),
                Ok(None) if !left.is_zero() => std::thread::sleep(POLL_INTERVAL),
                _ => break,
            }
            left = left.saturating_sub(POLL_INTERVAL);
        }
        self.kill();
        "closed its standard output".to_string()
    }
    fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        kill_group(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills a process with all its descendants, if it leads a separate process group.
pub fn kill_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the pipe alone, as long as there is no process.
pub fn wait_for_wake(wake: &PipeReader) {
    poll_pipes(&mut [PollFd::new(wake, PollFlags::IN)], None);
}

/// Makes a pipe nonblocking.
pub fn set_nonblocking(pipe: &impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(pipe)?;
    Ok(fcntl_setfl(pipe, flags | OFlags::NONBLOCK)?)
}

fn poll_pipes(pipes: &mut [PollFd<'_>], within: Option<Duration>) {
    let timeout = within.map(|within| Timespec {
        tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(within.subsec_nanos()),
    });
    // The pipes are tried afterwards, regardless of the result.
    let _ = poll(pipes, timeout.as_ref());
}

pub fn spawn_error(name: &str, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::invalid(format!("there is no program `{name}`"))
            .help("install it where the stage runs, or name a file beside the workflow file"),
        io::ErrorKind::PermissionDenied => Error::invalid(format!("`{name}` may not be executed"))
            .help("name its interpreter first, as in `command: [python3, my_reward.py]`, or begin the file with `#!`"),
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
