//! Reporters outside of the store: JSON Lines on stdout, read by an engine, or text on stderr, which is the log of the
//! process that started the attempt.
//!
//! A broken pipe means that the engine died; the supervision of stdin ends the process then.

use std::io::Write as _;
use std::sync::Mutex;
use trainyard_api::Reporter;
use trainyard_core::attempt::AttemptMessage;

/// Writes every message as one line of JSON; several threads may report.
#[derive(Default)]
pub struct LineReporter(Mutex<()>);

impl Reporter for LineReporter {
    fn report(&self, message: AttemptMessage) {
        let _one_line_at_a_time = self.0.lock();
        if let Ok(mut line) = serde_json::to_vec(&message) {
            line.push(b'\n');
            let mut out = std::io::stdout().lock();
            // The engine's death is detected on stdin, not here.
            let _ = out.write_all(&line).and_then(|()| out.flush());
        }
    }
}

/// Writes the lines of the log, and nothing else, to stderr.
pub struct StderrReporter;

impl Reporter for StderrReporter {
    fn report(&self, message: AttemptMessage) {
        if let AttemptMessage::Log { text, .. } = message {
            // There is no other place to report the error.
            let _ = writeln!(std::io::stderr().lock(), "{text}");
        }
    }
}
