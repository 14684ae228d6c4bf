//! Runs an attempt whose executor holds its pipes. Messages are JSON Lines on stdout; the executor writes the lines
//! `cancel` and `timeout` to stdin.
//!
//! The executor declares by the variable [`SUPERVISED`] that it holds the other end of stdin. The end of stdin then
//! means that the engine died. Within 2 s all processes of the attempt are killed, including the commands of a `run:`
//! stage and processes that left the process group, even if the stage ignores its token. A parent-death signal would be
//! faster, but it would kill this process before it could end its children.

use super::mark;
use super::redaction::{self, RedactingReporter};
use super::reporter::LineReporter;
use super::runner::AttemptRunner;
use super::setup::{open, runtime, span};
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trainyard_api::{CancelToken, Reporter};
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_runtime::executors::{SUPERVISED, kill_started};

/// Whether the engine has stopped the attempt at its timeout.
static TIMED_OUT: AtomicBool = AtomicBool::new(false);

/// Grace period of the stage after the end of stdin.
const GRACE: Duration = Duration::from_millis(1_500);

/// Returns whether the executor of this attempt holds its pipes. A process may inherit the variable from another
/// attempt, so the value must equal the URL.
pub fn is_supervised(url: &str) -> bool {
    std::env::var_os(SUPERVISED).is_some_and(|value| value == *url)
}

/// Runs the attempt. An error was already reported on stdout.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    mark::adopt_orphans();
    let reporter: Arc<dyn Reporter> = Arc::new(RedactingReporter(LineReporter::default()));
    let timed_out = |error| name_timeout(error, TIMED_OUT.load(Ordering::SeqCst));
    let outcome = attempt(url, catalogue, &reporter).map_err(timed_out).map_err(redaction::error);
    if let Err(error) = &outcome {
        reporter.report(AttemptMessage::Error { error: error.clone() });
    }
    // The executor also kills what has the mark, but only this process has adopted the orphans.
    kill_started(url);
    outcome
}

fn attempt(url: &str, catalogue: &Catalogue, reporter: &Arc<dyn Reporter>) -> Result<()> {
    let runtime = runtime()?;
    let (store, spec) = runtime.block_on(open(url))?;
    let _span = span(&spec).entered();
    let cancel = CancelToken::default();
    follow_stdin(url, cancel.clone());
    let scratch = ScratchFolder::new()?;
    let work = AttemptRunner {
        url,
        mark: url,
        catalogue,
        store: &store,
        spec: &spec,
        scratch: scratch.path(),
        process_tree: None,
        handle: runtime.handle().clone(),
        cancel,
        killed: None,
        reporter: reporter.clone(),
        enter: &|_| {},
    };
    work.run_and_store()?;
    reporter.report(AttemptMessage::Result {});
    Ok(())
}

/// Watches stdin on a separate thread, cancels the attempt on request, and kills it after the end of stdin.
fn follow_stdin(url: &str, cancel: CancelToken) {
    let mark = url.to_string();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            match line {
                Ok(line) if line.trim() == "cancel" => cancel.cancel(),
                Ok(line) if line.trim() == "timeout" => {
                    TIMED_OUT.store(true, Ordering::SeqCst);
                    cancel.cancel();
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        cancel.cancel();
        std::thread::sleep(GRACE);
        kill_started(&mark);
        end_group();
    });
}

/// Replaces the error of a stage that was cancelled at its timeout by one that names the timeout.
pub fn name_timeout(error: Error, timed_out: bool) -> Error {
    if error.kind == ErrorKind::Cancelled && timed_out {
        return Error::cancelled("the attempt was stopped at its timeout").help("raise `timeout`");
    }
    error
}

/// Kills this process and, if it leads its process group, the whole group. Executors start attempts as group leaders.
fn end_group() -> ! {
    if rustix::process::getpgrp() == rustix::process::getpid() {
        // The signal includes this process. The exit below covers systems that refuse the signal.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    }
    std::process::exit(130)
}
