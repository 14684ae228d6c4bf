//! Controls the process of one session from its supervisor: it sends one program at a time and reads the result, as
//! lines of JSON.
//!
//! A program shares its process with the runner, so it can forge its own results. It can neither reach another
//! session's process nor make the supervisor wait longer, read more or keep more than the limits allow. The process is
//! stopped between calls, so a program that runs on after its result uses neither time nor disk.

use super::fault::CpythonFault;
use super::installation::Installation;
use super::pause;
use super::sandbox_spec::sandbox_spec;
use super::scratch::SessionScratch;
use crate::tools::ToolLimits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use trainyard_core::{Clock, SystemClock};

/// Time for an interpreter to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which files are measured while a program runs.
const FILE_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of a reply in bytes, in addition to its text.
const ANSWER_FRAME: usize = 4 << 10;

#[derive(Serialize)]
struct RunnerRequest<'a> {
    call: u64,
    code: &'a str,
    output_bytes: u64,
}

/// The runner's report on a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunnerReply {
    call: u64,
    /// Whether the program ended with an exception or too much output.
    pub failed: bool,
    /// Output, and value or error.
    pub text: String,
}

/// Process of a session, killed when dropped, with all its files.
pub struct CpythonProcess {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
    received: Vec<u8>,
    calls: u64,
    output_bytes: u64,
    clock: SystemClock,
    // Dropped after `drop` has ended the process.
    scratch: SessionScratch,
}

impl CpythonProcess {
    /// Starts an interpreter with the folder `scratch` for its files, and waits until it is ready. The error is the
    /// reason why the interpreter did not start.
    pub fn start(installation: &Installation, limits: &ToolLimits, scratch: SessionScratch) -> Result<Self, String> {
        let spec = sandbox_spec(installation, limits, &scratch);
        let spec = serde_json::to_string(&spec).map_err(|e| format!("a path is not UTF-8: {e}"))?;
        // This path names the running program, even if its file was replaced.
        let mut command = Command::new("/proc/self/exe");
        command.args(["tool-worker", spec.as_str()]).env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |e: io::Error| format!("cannot start the sandbox of CPython: {e}");
        let mut child = command.spawn().map_err(failed)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the sandbox of CPython has no pipes".to_string());
        };
        let clock = SystemClock::new();
        let (received, output_bytes) = (Vec::new(), limits.output_bytes);
        let mut process = Self { child, requests, answers, received, calls: 0, output_bytes, clock, scratch };
        process.wait_until_ready(limits.memory_bytes).map_err(|fault| process.reason(&fault))?;
        Ok(process)
    }
    /// Waits for the runner, then limits the growth of its address space.
    fn wait_until_ready(&mut self, memory_bytes: u64) -> Result<(), CpythonFault> {
        let flags = fcntl_getfl(&self.requests).map_err(|_| CpythonFault::InvalidOutput)?;
        fcntl_setfl(&self.requests, flags | OFlags::NONBLOCK).map_err(|_| CpythonFault::InvalidOutput)?;
        self.answer(&[], START_TIMEOUT)?;
        self.child.stderr = None;
        self.stop()?;
        let limit = self.address_space().and_then(|used| {
            let limit = Some(used.saturating_add(memory_bytes));
            let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            Ok(prlimit(pid, Resource::As, Rlimit { current: limit, maximum: limit })?)
        });
        limit.map(drop).map_err(|_| CpythonFault::InvalidOutput)
    }
    fn address_space(&self) -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id()))?;
        let pages = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "statm"))?;
        Ok(pages * rustix::param::page_size() as u64)
    }
    /// Kills the process and returns the reason for its failed start: its error output or, without any, the fault.
    fn reason(&mut self, fault: &CpythonFault) -> String {
        let _ = self.child.kill();
        let mut output = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4 << 10).read_to_end(&mut output);
        }
        let output = String::from_utf8_lossy(&output);
        let output = output.trim();
        let reason = if output.is_empty() { format!("{fault:?}") } else { output.to_string() };
        format!("CPython does not start in its sandbox: {reason}")
    }
    fn stop(&self) -> Result<(), CpythonFault> {
        pause::stop(&self.child).map_err(|_| CpythonFault::InvalidOutput)
    }
    /// Runs one program, for at most `time`. The process is stopped before and after. After an error, the process is
    /// unusable.
    pub fn run(&mut self, code: &str, time: Duration) -> Result<RunnerReply, CpythonFault> {
        if self.ready(PollFlags::empty(), Duration::ZERO)?.answers {
            self.receive().map_err(|_| CpythonFault::EarlyExit)?;
        }
        if !self.received.is_empty() {
            // The last program wrote output after its reply.
            return Err(CpythonFault::InvalidOutput);
        }
        self.calls += 1;
        let request = RunnerRequest { call: self.calls, code, output_bytes: self.output_bytes };
        let mut line = serde_json::to_vec(&request).map_err(|_| CpythonFault::InvalidOutput)?;
        line.push(b'\n');
        pause::resume(&self.child).map_err(|_| CpythonFault::EarlyExit)?;
        let reply = self.answer(&line, time)?;
        self.stop()?;
        // The stopped process changes no file until the next call.
        if self.scratch.is_full(self.child.id()) { Err(CpythonFault::FilesFull) } else { Ok(reply) }
    }
    /// Sends a request and waits for the reply, for at most `time`. Measures the files of the session meanwhile.
    fn answer(&mut self, mut unsent: &[u8], time: Duration) -> Result<RunnerReply, CpythonFault> {
        let start = self.clock.monotonic();
        let mut checked = start;
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return self.read(&line);
            }
            let now = self.clock.monotonic();
            if now.saturating_sub(start) > time {
                return Err(CpythonFault::TimedOut);
            }
            if now.saturating_sub(checked) >= FILE_CHECK_INTERVAL {
                checked = now;
                if self.scratch.is_full(self.child.id()) {
                    return Err(CpythonFault::FilesFull);
                }
            }
            let writing = if unsent.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let ready = self.ready(writing, FILE_CHECK_INTERVAL)?;
            if ready.requests {
                let sent = self.requests.write(unsent).or_else(later).map_err(|_| self.ended())?;
                unsent = &unsent[sent..];
            }
            if ready.answers {
                self.receive()?;
            }
        }
    }
    fn receive(&mut self) -> Result<(), CpythonFault> {
        let mut chunk = [0; 1 << 14];
        let count = self.answers.read(&mut chunk).or_else(later).map_err(|_| CpythonFault::InvalidOutput)?;
        if count == 0 {
            return Err(self.ended());
        }
        self.received.extend_from_slice(&chunk[..count]);
        // One byte of text takes at most six bytes in JSON.
        let limit = ANSWER_FRAME + 6 * self.output_bytes as usize;
        if self.received.len() > limit { Err(CpythonFault::InvalidOutput) } else { Ok(()) }
    }
    fn read(&self, line: &[u8]) -> Result<RunnerReply, CpythonFault> {
        let reply: RunnerReply = serde_json::from_slice(line).map_err(|_| CpythonFault::InvalidOutput)?;
        if reply.call == self.calls { Ok(reply) } else { Err(CpythonFault::InvalidOutput) }
    }
    /// Returns the fault of a process whose output has ended. A process that only closed its side of the pipe is killed
    /// when this is dropped.
    fn ended(&mut self) -> CpythonFault {
        // The kernel closes pipes a moment before it reports an exit.
        for _ in 0..100 {
            match self.child.try_wait() {
                Ok(Some(status)) => return CpythonFault::Ended(status),
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Err(_) => break,
            }
        }
        CpythonFault::InvalidOutput
    }
    /// Waits up to `wait` until one of the pipes can be used, and returns which.
    fn ready(&self, requests: PollFlags, wait: Duration) -> Result<ReadyPipes, CpythonFault> {
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
        let caller = io::stdin();
        let mut pipes = [
            PollFd::new(&self.answers, PollFlags::IN),
            PollFd::new(&self.requests, requests),
            PollFd::new(&caller, PollFlags::empty()),
        ];
        match poll(&mut pipes, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Err(CpythonFault::InvalidOutput),
        }
        if pipes[2].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(CpythonFault::CallerGone);
        }
        let usable = |index: usize, events: PollFlags| pipes[index].revents().intersects(events);
        Ok(ReadyPipes {
            answers: usable(0, PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            requests: usable(1, PollFlags::OUT),
        })
    }
}

/// Which pipes can be used.
struct ReadyPipes {
    answers: bool,
    requests: bool,
}

fn later(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

impl Drop for CpythonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
