//! Reports messages outside of the store: as JSON Lines on stdout for an engine, or as text on stderr, the log of the
//! process that started the attempt.
//!
//! Errors of a broken pipe are ignored: the engine has died, so stdin ends, too, and `supervision` ends the process.

use std::io::Write as _;
use std::sync::Mutex;
use trainyard_api::Reporter;
use trainyard_core::attempt::AttemptMessage;

/// Reporter that writes each message as one line of JSON. Several threads may use it.
#[derive(Default)]
pub struct LineReporter(Mutex<()>);

impl Reporter for LineReporter {
    fn report(&self, message: AttemptMessage) {
        let _one_line_at_a_time = self.0.lock();
        if let Ok(mut line) = serde_json::to_vec(&message) {
            line.push(b'\n');
            let mut out = std::io::stdout().lock();
            // `supervision` detects the engine's death on stdin.
            let _ = out.write_all(&line).and_then(|()| out.flush());
        }
    }
}

/// Reporter that writes log lines to stderr and ignores other messages.
pub struct StderrReporter;

impl Reporter for StderrReporter {
    fn report(&self, message: AttemptMessage) {
        if let AttemptMessage::Log { text, .. } = message {
            // An error of stderr cannot be reported.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }
}
