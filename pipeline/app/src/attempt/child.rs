//! The process of a `run:` stage, from its start to the end of all that it started.
//!
//! What it prints is the stage's log, line by line, each bounded. The command is over when its own process is. What it
//! left in the background may hold the pipes and write into outputs that are being stored, so it gets a moment for its
//! last lines and is then killed. The last line on stderr becomes a part of the error.

use super::redaction;
use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use trainyard_api::{Reporter, StageContext};
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, LogLevel};
use trainyard_core::{Error, Result};
use trainyard_runtime::executors::{Lines, TEXT_LIMIT, kill_marked};

/// Characters of a program's last line that its error repeats.
const REASON: usize = 300;

/// How often a running process is polled.
const LOOK: Duration = Duration::from_millis(10);
/// Time between asking a process to stop and killing it.
const GRACE: Duration = Duration::from_secs(5);
/// Time for the pipes to run empty once the process has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// Carries the process to its end; `mark` is that of the attempt. Errors: cancelled, data (another exit code than 0, a
/// signal).
pub fn wait(mut child: Child, mark: &str, spec: &AttemptSpec, context: &StageContext) -> Result<()> {
    let last = Arc::new(Mutex::new(String::new()));
    let stdout = child.stdout.take().map(|pipe| follow(pipe, context.reporter.clone(), None));
    let stderr = child.stderr.take().map(|pipe| follow(pipe, context.reporter.clone(), Some(last.clone())));
    let readers: Vec<JoinHandle<()>> = stdout.into_iter().chain(stderr).collect();
    let status = end(&mut child, spec, context)?;
    settle(&readers, mark, context);
    context.stop_if_cancelled()?;
    if status.success() {
        return Ok(());
    }
    let how =
        status.code().map_or_else(|| format!("signal {}", status.signal().unwrap_or(0)), |c| format!("exit code {c}"));
    let last = last.lock().unwrap_or_else(PoisonError::into_inner);
    let reason = if last.is_empty() { String::new() } else { format!(": {}", shorten(&redaction::text(&last))) };
    Err(Error::data(format!("the command of stage `{}` ended with {how}{reason}", spec.stage))
        .help(format!("`trainyard logs {} {}` shows what it wrote", spec.run, spec.stage)))
}

fn shorten(text: &str) -> String {
    if text.chars().count() <= REASON {
        text.to_string()
    } else {
        text.chars().take(REASON - 1).chain(['…']).collect()
    }
}

/// Waits for the process itself; asks it to stop, then makes it, once the attempt is cancelled.
fn end(child: &mut Child, spec: &AttemptSpec, context: &StageContext) -> Result<ExitStatus> {
    let (mut asked, mut waited) = (false, Duration::ZERO);
    loop {
        if let Some(status) = child.try_wait().map_err(|e| Error::lost(format!("stage `{}`: {e}", spec.stage)))? {
            return Ok(status);
        }
        if context.cancel.is_cancelled() {
            if !asked {
                ask_to_stop(child);
                asked = true;
            }
            waited += LOOK;
            if waited > GRACE {
                // It may have ended by itself in between.
                let _ = child.kill();
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn ask_to_stop(child: &Child) {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        // It may have ended in between.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// Ends what the command left behind. Its last lines often say what went wrong, so they are waited for, but not for
/// ever.
fn settle(readers: &[JoinHandle<()>], mark: &str, context: &StageContext) {
    let cancelled = context.cancel.is_cancelled();
    if !cancelled {
        drain(readers);
    }
    let killed = kill_marked(mark);
    drain(readers);
    if killed > 0 && !cancelled {
        context.warn(format!("processes that outlived the command and were killed: {killed}"));
    }
}

/// Returns when the pipes are empty and closed, or their time is up.
fn drain(readers: &[JoinHandle<()>]) {
    let mut waited = Duration::ZERO;
    while waited < DRAIN && !readers.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(LOOK);
        waited += LOOK;
    }
}

/// Reports every line of a pipe as log; `last` keeps the last line that says something, which mostly tells why a
/// program failed.
fn follow(
    mut pipe: impl Read + Send + 'static,
    reporter: Arc<dyn Reporter>,
    last: Option<Arc<Mutex<String>>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut report = |line: &str| {
            if let Some(last) = last.as_ref().filter(|_| !line.trim().is_empty()) {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = line.trim().to_string();
            }
            reporter.report(AttemptMessage::Log { level: LogLevel::Info, text: line.trim_end().to_string() })
        };
        let mut lines = Lines::new(TEXT_LIMIT);
        let mut piece = vec![0; 64 * 1024];
        loop {
            match pipe.read(&mut piece) {
                Ok(0) => break,
                Ok(size) => lines.feed(&piece[..size], &mut report),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // A broken pipe ends the log like any other end; the exit status tells how the process ended.
                Err(_) => break,
            }
        }
        lines.finish(&mut report);
    })
}
