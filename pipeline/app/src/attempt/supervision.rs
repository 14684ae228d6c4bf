//! An attempt whose executor holds its pipes: JSON Lines on stdout, the lines `cancel` and `timeout` on stdin, and the
//! end of stdin.
//!
//! The executor says that it holds the other end of stdin ([`SUPERVISED`]). The end of stdin then means that the engine
//! died: within 2 s all that the attempt started ends, the commands of a `run:` stage and what left its process group
//! included, even if the stage ignores its token. A parent-death signal would be faster, but it kills this process
//! before it can end its children.

use super::opening::{open, runtime, span};
use super::redaction::{self, Redacted};
use super::reporter::LineReporter;
use super::stop::stale;
use super::work::Work;
use crate::catalogue::Catalogue;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trainyard_api::{CancelToken, Reporter};
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_runtime::executors::{SUPERVISED, kill_marked};
use trainyard_store::Created;

/// Set when the engine stops the attempt because its time is up.
static TIMED_OUT: AtomicBool = AtomicBool::new(false);

/// How long the stage gets to stop by itself.
const GRACE: Duration = Duration::from_millis(1_500);

/// Whether the executor of this attempt holds its pipes. The variable may be inherited from another attempt, hence its
/// value.
pub fn is_supervised(url: &str) -> bool {
    std::env::var_os(SUPERVISED).is_some_and(|held| held == *url)
}

/// Runs the attempt. The error, if any, was already reported on stdout.
pub fn main(url: &str, catalogue: &Catalogue) -> Result<()> {
    let reporter: Arc<dyn Reporter> = Arc::new(Redacted(LineReporter::default()));
    let outcome = attempt(url, catalogue, &reporter).map_err(name_timeout).map_err(redaction::error);
    if let Err(error) = &outcome {
        reporter.report(AttemptMessage::Error { error: error.clone() });
    }
    outcome
}

fn attempt(url: &str, catalogue: &Catalogue, reporter: &Arc<dyn Reporter>) -> Result<()> {
    let runtime = runtime()?;
    let (store, spec) = runtime.block_on(open(url))?;
    let _span = span(&spec).entered();
    let cancel = CancelToken::default();
    follow_stdin(url, cancel.clone());
    let work = Work {
        url,
        catalogue,
        store: &store,
        spec: &spec,
        handle: runtime.handle().clone(),
        cancel,
        reporter: reporter.clone(),
        enter: &|_| {},
    };
    let result = work.result()?;
    match runtime.block_on(store.put_result(&result))? {
        Created::Ours => reporter.report(AttemptMessage::Result {}),
        Created::Theirs(_) => return Err(stale(&spec)),
    }
    Ok(())
}

/// Watches stdin on a thread of its own.
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
        kill_marked(&mark);
        end_group();
    });
}

/// A stage only knows that it was stopped; this names the timeout where that was the reason.
fn name_timeout(error: Error) -> Error {
    if error.kind == ErrorKind::Cancelled && TIMED_OUT.load(Ordering::SeqCst) {
        return Error::cancelled("the attempt was stopped at its timeout").help("raise `timeout`");
    }
    error
}

/// Ends this process, and its group if it leads one (executors start attempts so).
fn end_group() -> ! {
    if rustix::process::getpgrp() == rustix::process::getpid() {
        // Includes this process; the exit below is for systems that refuse.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
    }
    std::process::exit(130)
}
