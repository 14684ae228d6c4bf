//! Forwards the log lines of programs to the log of a stage.

use std::sync::Arc;
use trainyard_api::StageContext;
use trainyard_core::attempt::AttemptMessage;
use trainyard_process::ProgramLog;

/// Returns a log that reports the lines of programs as log messages of the stage.
pub fn log(context: &StageContext) -> ProgramLog {
    let reporter = Arc::clone(&context.reporter);
    Arc::new(move |level, text: &str| reporter.report(AttemptMessage::Log { level, text: text.to_string() }))
}
