//! Runs one interpreter session: monty's REPL under our limits. It runs only in worker processes, because monty
//! enforces memory per process and a native stack overflow or abort would end the trainer.
//!
//! Requests to the host (files, clock, unknown functions) raise Python errors that a program can catch. This module
//! counts the requests, because monty stores the limit of requests but does not enforce it.

use crate::tools::ToolLimits;
use monty::{Dump, MontyRepl, ReplProgress, ReplStartError, Session, SessionRef, dump};
use monty_types::{
    CompileOptions, ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult, PrintWriter,
    PrintWriterCallback, ResourceLimits, ResourceTracker,
};
use std::borrow::Cow;
use std::time::Duration;

/// Maximum length in bytes of an exception's last line.
const MAX_ERROR_BYTES: usize = 400;

/// End of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterpreterStatus {
    /// No error.
    Succeeded,
    /// An exception, or a limit that every run hits in the same way.
    Failed,
    /// The wall-clock limit. The session's state no longer depends on its calls alone.
    TimedOut,
}

pub struct InterpreterResult {
    pub status: InterpreterStatus,
    pub text: String,
    /// Time spent in the program.
    pub cost: Duration,
}

pub struct Interpreter {
    repl: MontyRepl,
}

impl Interpreter {
    pub fn new(limits: &ToolLimits) -> Self {
        let resources = ResourceLimits::default()
            .max_duration(limits.time())
            .max_memory(usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX))
            .max_recursion_depth(limits.recursion_depth as usize)
            .max_suspensions(limits.suspensions as usize);
        Self { repl: MontyRepl::new("<python>", ResourceTracker::new(resources), CompileOptions::default()) }
    }
    /// Returns the session's state as bytes; `None` if it cannot be saved. The bytes contain the text of every program
    /// so far and grow with each call.
    pub fn save(&self) -> Option<Vec<u8>> {
        dump("<python>", None, SessionRef::Idle(&self.repl)).ok()
    }
    pub fn load(bytes: &[u8]) -> Option<Self> {
        match Dump::load(bytes).ok()?.state {
            Session::Idle(repl) => Some(Self { repl: *repl }),
            Session::Suspended(_) | Session::Running(_) => None,
        }
    }
    /// Runs one program. Returns the session unless the program timed out.
    pub fn run(mut self, code: &str, limits: &ToolLimits) -> (Option<Self>, InterpreterResult) {
        self.repl.tracker_mut().set_max_duration(limits.time());
        let mut output = PrintedOutput { text: String::new(), limit: limits.output_bytes as usize, overflow: false };
        let (repl, value) = drive(self.repl, code, limits, &mut output);
        let cost = repl.tracker().elapsed();
        let timed_out = value.is_err() && cost > limits.time();
        if timed_out {
            let text = format!("TimeoutError: the call ran longer than {} ms", limits.time_millis);
            return (None, InterpreterResult { status: InterpreterStatus::TimedOut, text, cost });
        }
        let (status, text) = output.finish(value);
        (Some(Self { repl }), InterpreterResult { status, text, cost })
    }
}

/// Runs a program to its end and denies every request to the host.
fn drive(
    repl: MontyRepl,
    code: &str,
    limits: &ToolLimits,
    output: &mut PrintedOutput,
) -> (MontyRepl, Result<MontyObject, MontyException>) {
    let mut progress = repl.feed_start(code, Vec::new(), PrintWriter::Callback(output));
    let mut suspensions = 0;
    loop {
        let suspended = match progress {
            Ok(ReplProgress::Complete { repl, value }) => return (repl, Ok(value)),
            Ok(suspended) => suspended,
            Err(failed) => {
                let ReplStartError { repl, error } = *failed;
                return (repl, Err(error));
            }
        };
        suspensions += 1;
        let print = PrintWriter::Callback(output);
        if suspensions > limits.suspensions {
            let message = format!("more than {} requests to the host in one call", limits.suspensions);
            return (suspended.into_repl(), Err(MontyException::new(ExcType::RuntimeError, Some(message))));
        }
        progress = match suspended {
            ReplProgress::OsCall(call) => {
                call.resume_with(print, |call| ExtFunctionResult::Error(call.on_no_handler()))
            }
            ReplProgress::FunctionCall(call) => {
                let name = call.function_name.clone();
                call.resume(ExtFunctionResult::NotFound(name), print)
            }
            ReplProgress::NameLookup(lookup) => lookup.resume(NameLookupResult::Undefined, print),
            ReplProgress::ResolveFutures(futures) => {
                let message = "nothing outside the program can be awaited".to_string();
                futures.abort(MontyException::new(ExcType::RuntimeError, Some(message)), print)
            }
            complete @ ReplProgress::Complete { .. } => Ok(complete),
        };
    }
}

/// Collects printed text up to the limit.
struct PrintedOutput {
    text: String,
    limit: usize,
    overflow: bool,
}

impl PrintedOutput {
    fn push(&mut self, text: &str) -> Result<(), MontyException> {
        if self.text.len() + text.len() <= self.limit {
            self.text.push_str(text);
            return Ok(());
        }
        self.text.push_str(cut(text, self.limit - self.text.len()));
        self.overflow = true;
        Err(MontyException::new(ExcType::RuntimeError, Some("output limit".to_string())))
    }
    /// Joins printed text, value and error line.
    fn finish(mut self, value: Result<MontyObject, MontyException>) -> (InterpreterStatus, String) {
        let mut last = String::new();
        let mut status = InterpreterStatus::Succeeded;
        match &value {
            _ if self.overflow => {}
            Ok(MontyObject::None) => {}
            Ok(value) => match shown(value, self.limit - self.text.len()) {
                Some(text) => last = text,
                None => self.overflow = true,
            },
            Err(error) => {
                let summary = error.summary();
                last = cut(&summary, MAX_ERROR_BYTES).to_string();
                status = InterpreterStatus::Failed;
            }
        }
        if self.overflow {
            last = format!("OutputError: more than {} bytes of output", self.limit);
            status = InterpreterStatus::Failed;
        }
        if self.text.ends_with('\n') {
            self.text.pop();
        }
        if !self.text.is_empty() && !last.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(&last);
        (status, self.text)
    }
}

impl PrintWriterCallback for PrintedOutput {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.push(&output)
    }
    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.push(end.encode_utf8(&mut [0; 4]))
    }
}

/// Returns the `repr` of a value; `None` if it does not fit in `room` bytes. Values that are certainly too large are
/// not rendered.
fn shown(value: &MontyObject, room: usize) -> Option<String> {
    if value.deep_host_size() > 128 * room + 8192 {
        return None;
    }
    let text = value.py_repr();
    (text.len() <= room).then_some(text)
}

/// Returns the longest prefix of `text` with at most `bytes` bytes that ends at a character boundary.
fn cut(text: &str, bytes: usize) -> &str {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
