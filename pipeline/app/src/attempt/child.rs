//! Waits for the process of a `run:` stage, from its start to the end of all its descendants.
//!
//! The output becomes the log of the stage, line by line, and the length of lines is limited. The command ends when its
//! own process ends. Remaining background processes may hold the pipes and write into outputs that are being stored, so
//! they get a short time for their last lines and are then killed. The last line on stderr becomes part of the error.

use super::memory::{self, Limit};
use super::pipes::{OutputStream, Pipes};
use super::process_tree::HostProcessTree;
use super::redaction;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;
use trainyard_api::StageContext;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_runtime::executors::kill_leftovers;
use wait4::{ResUse, Wait4 as _};

/// Maximum characters of the program's last line in the error.
const REASON: usize = 300;

/// Maximum interval between two checks of cancellation and memory.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// Time to drain the pipes once the process has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// A started command.
pub struct RunningCommand<'a> {
    pub child: Child,
    /// Mark of the attempt in the environment of all its processes.
    pub mark: &'a str,
    /// Process tree of the host, which started the command as the leader of a process group; `None` if the attempt has
    /// its own process.
    pub process_tree: Option<&'a HostProcessTree>,
}

impl RunningCommand<'_> {
    /// Waits for the command to end, logs its output, and kills the processes that it left. Returns the command's peak
    /// resident memory in bytes, which is at least that of the process that started it. `watch` is called all the time,
    /// and must return quickly; its error ends the command.
    ///
    /// Errors: cancelled; invalid (the memory limit was exceeded); data (a nonzero exit code, or a signal); lost (the
    /// process cannot be waited for); those of `watch`.
    pub fn wait(
        mut self,
        spec: &AttemptSpec,
        context: &StageContext,
        watch: &mut dyn FnMut() -> Result<()>,
    ) -> Result<u64> {
        let pid = Pid::from_child(&self.child);
        if let Some(tree) = self.process_tree {
            tree.started(pid);
        }
        let mut pipes = Pipes::of(&mut self.child);
        let mut last = String::new();
        let mut on_line = |stream: OutputStream, line: &str| {
            if stream == OutputStream::Err && !line.trim().is_empty() {
                last = line.trim().to_string();
            }
            let text = line.trim_end().to_string();
            context.reporter.report(AttemptMessage::Log { level: LogLevel::Info, text });
        };
        let mut limit = Limit::of(spec, self.child.id());
        let mut check = || match limit.as_mut().and_then(Limit::exceeded) {
            Some(used) => Err(memory::exceeded(spec, used)),
            None => watch(),
        };
        let ended = end(&mut self.child, pid, &mut pipes, &mut on_line, context, &mut check);
        self.settle(pid, pipes, &mut on_line, context);
        let (ended, failed) = ended.map_err(|e| Error::lost(format!("stage `{}`: {e}", spec.stage)))?;
        context.stop_if_cancelled()?;
        if let Some(error) = failed {
            return Err(error);
        }
        if ended.status.success() { Ok(ended.rusage.maxrss) } else { Err(failure(ended.status, &last, spec)) }
    }

    /// Kills the remaining processes of the command. Their last lines often explain a failure, so these are read first,
    /// for a limited time.
    fn settle(&self, pid: Pid, mut pipes: Pipes, on_line: &mut impl FnMut(OutputStream, &str), context: &StageContext) {
        let cancelled = context.cancel.is_cancelled();
        pipes.clear_exit_fd();
        if !cancelled {
            drain(&mut pipes, on_line);
        }
        let killed =
            self.process_tree.map_or_else(|| kill_leftovers(self.mark), |tree| tree.kill_leftovers(pid, self.mark));
        drain(&mut pipes, on_line);
        pipes.finish(on_line);
        if killed > 0 && !cancelled {
            context.warn(format!("processes that outlived the command and were killed: {killed}"));
        }
    }
}

/// Waits for the process itself. After a cancellation it sends SIGTERM, and SIGKILL after [`GRACE`]. At the first error
/// of `check` the process is killed, and the error is returned.
fn end(
    child: &mut Child,
    pid: Pid,
    pipes: &mut Pipes,
    on_line: &mut impl FnMut(OutputStream, &str),
    context: &StageContext,
    check: &mut dyn FnMut() -> Result<()>,
) -> std::io::Result<(ResUse, Option<Error>)> {
    let clock = SystemClock::new();
    let (mut terminated, mut failed) = (None, None);
    loop {
        if let Some(ended) = child.try_wait4()? {
            return Ok((ended, failed));
        }
        if failed.is_none()
            && let Err(error) = check()
        {
            failed = Some(error);
            // The process may have ended in between.
            let _ = kill_process(pid, Signal::KILL);
        }
        if context.cancel.is_cancelled() {
            let since = *terminated.get_or_insert_with(|| {
                // The process may have ended in between.
                let _ = kill_process(pid, Signal::TERM);
                clock.monotonic()
            });
            if clock.monotonic().saturating_sub(since) > GRACE {
                // The process may have exited in between.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        pipes.wait(POLL_INTERVAL, on_line);
    }
}

/// Reads the pipes until they are empty and closed, at most for [`DRAIN`].
fn drain(pipes: &mut Pipes, on_line: &mut impl FnMut(OutputStream, &str)) {
    if pipes.are_closed() {
        return;
    }
    let clock = SystemClock::new();
    let until = clock.monotonic() + DRAIN;
    while !pipes.are_closed() {
        let remaining = until.saturating_sub(clock.monotonic());
        if remaining.is_zero() {
            return;
        }
        pipes.wait(remaining, on_line);
    }
}

fn failure(status: ExitStatus, last: &str, spec: &AttemptSpec) -> Error {
    let how =
        status.code().map_or_else(|| format!("signal {}", status.signal().unwrap_or(0)), |c| format!("exit code {c}"));
    let reason = if last.is_empty() { String::new() } else { format!(": {}", shorten(&redaction::text(last))) };
    Error::data(format!("the command of stage `{}` ended with {how}{reason}", spec.stage))
        .help(format!("`trainyard logs {} {}` shows its output", spec.run, spec.stage))
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= REASON {
        text.to_string()
    } else {
        text.chars().take(REASON - 1).chain(['…']).collect()
    }
}
