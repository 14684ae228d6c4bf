//! Implements `trainyard logs RUN [STAGE]`, which prints the logs of a run's attempts with times and levels. As JSON,
//! each record is one document, so that a reader can filter the log while it is printed. Logs of earlier versions have
//! no times.

use crate::args::{LogsArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::clean::without_colors;
use crate::output::human::{print_note, print_text, sanitize, try_print};
use crate::output::runs::state_text;
use crate::output::style::Style;
use crate::session::{self, Access};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::attempt::LogRecord;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Result, StageKey, SystemClock};
use trainyard_engine::fold::{StageStatus, StageView};
use trainyard_engine::pool::IN_PROCESS;
use trainyard_runtime::progress::read_progress;
use trainyard_store::{AttemptStream, Store};
use trainyard_views::find;
use trainyard_views::status::is_live;

/// Prints the logs of all attempts in the order of stages and attempts, while they are read.
pub fn run(args: &LogsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::Read, catalogue)?;
    session.block_on(print(&session.store, args))?;
    Ok(CliExit::Done)
}

async fn print(store: &Store, args: &LogsArgs) -> Result<()> {
    let run = find::run(store, &args.run).await?;
    let view = find::view(store, &run).await?;
    let stages = match &args.stage {
        Some(name) => vec![find::stage(&view, name)?],
        None => view.stages.iter().collect(),
    };
    let mut is_empty = true;
    let progress = read_progress(store, &run, &view).await?;
    let states = stages.iter().filter(|_| is_live(&view, &SystemClock::new()));
    let states: Vec<String> = states.filter_map(|stage| open_state(stage, progress.get(stage.key()))).collect();
    for (stage, attempt) in stages.iter().copied().flat_map(attempts) {
        let mut page = LogPrinter { stage, attempt, is_begun: false, rest: Vec::new(), args };
        let mut chunks = store.chunks(&run, stage, attempt, AttemptStream::Log, 0);
        while let Some(chunk) = chunks.next().await? {
            if !page.add(&chunk) {
                return Ok(());
            }
        }
        if !page.end() {
            return Ok(());
        }
        is_empty &= !page.is_begun;
    }
    if args.format == OutputFormat::Text {
        if is_empty {
            print_text(&no_logs_text(&stages));
        }
        // On stderr, since they are no part of the log.
        states.iter().for_each(|state| print_note(state));
    }
    Ok(())
}

/// Returns a line on a stage that runs or waits: its progress, or for what it waits.
fn open_state(stage: &StageView, progress: Option<&ProgressRecord>) -> Option<String> {
    let is_open = matches!(stage.status, StageStatus::Running | StageStatus::Waiting | StageStatus::Queued);
    let text = state_text(stage, progress).filter(|_| is_open)?;
    Some(format!("{} is {}: {text}", stage.key(), stage.status.name()))
}

/// Returns the attempts of a stage that can have a log. Attempts in the engine's process write no log.
fn attempts(stage: &StageView) -> impl Iterator<Item = (&StageKey, AttemptNumber)> {
    let logged = stage.attempts.iter().filter(|attempt| attempt.pool != IN_PROCESS);
    logged.map(|attempt| (stage.key(), attempt.number))
}

/// Printer of one attempt's log.
struct LogPrinter<'a> {
    stage: &'a StageKey,
    attempt: AttemptNumber,
    /// Whether a record was printed.
    is_begun: bool,
    /// Start of a line whose end was not read yet.
    rest: Vec<u8>,
    args: &'a LogsArgs,
}

impl LogPrinter<'_> {
    /// Prints the complete lines of a further chunk. Returns whether stdout is still open.
    fn add(&mut self, chunk: &[u8]) -> bool {
        self.rest.extend_from_slice(chunk);
        let complete = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = self.rest.split_off(complete);
        let lines = std::mem::replace(&mut self.rest, rest);
        self.print(&lines)
    }
    /// Prints the unterminated last line. Returns whether stdout is still open.
    fn end(&mut self) -> bool {
        let lines = std::mem::take(&mut self.rest);
        self.print(&lines)
    }

    fn print(&mut self, lines: &[u8]) -> bool {
        let text = String::from_utf8_lossy(lines);
        let records = text.lines().map(LogRecord::parse);
        let printed = match self.args.format {
            OutputFormat::Json => records.map(|record| self.document(&record)).collect::<String>(),
            OutputFormat::Text => records.map(|record| line(&record)).collect(),
        };
        if printed.is_empty() {
            return true;
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let header = match self.args.format {
            OutputFormat::Text if is_first => format!("== {} attempt {}\n", self.stage, self.attempt),
            OutputFormat::Text | OutputFormat::Json => String::new(),
        };
        let page = format!("{header}{printed}");
        let page = page.strip_suffix('\n').unwrap_or(&page);
        if self.args.raw || self.args.format == OutputFormat::Json {
            try_print(page)
        } else {
            try_print(&sanitize(&without_colors(page), Style::of_stdout()))
        }
    }

    fn document(&self, record: &LogRecord) -> String {
        let (at, level, text) = (record.at.map(format_time), record.level, &record.text);
        let (stage, attempt) = (self.stage, self.attempt);
        json!({"stage": stage, "attempt": attempt, "at": at, "level": level, "text": text}).to_string() + "\n"
    }
}

/// Formats a record: `2026-11-21T04:15:30.042Z info  text`.
fn line(record: &LogRecord) -> String {
    let level = record.level.name();
    match record.at {
        Some(at) => format!("{} {level:<5} {}\n", format_time(at), record.text),
        None => format!("{level:<5} {}\n", record.text),
    }
}

/// Explains why these stages of a run have no log lines.
fn no_logs_text(stages: &[&StageView]) -> String {
    let hits = stages.iter().filter(|s| s.status == StageStatus::Hit).count();
    let total = stages.len();
    match hits {
        0 if total == 1 => "no log lines: the stage wrote none".into(),
        0 => "no log lines".into(),
        _ => {
            let text = format!("no log lines: {hits} of {total} stages came from the cache");
            format!("{text}; `trainyard explain RUN STAGE` names the run that computed one")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::attempt::LogLevel;

    #[test]
    fn reason_for_no_lines_is_that_of_the_stages() {
        let stage = |status| StageView { status, ..StageView::default() };
        let (hit, done) = (stage(StageStatus::Hit), stage(StageStatus::Done));
        assert_eq!(no_logs_text(&[&done]), "no log lines: the stage wrote none");
        assert_eq!(no_logs_text(&[&done, &done]), "no log lines");
        assert!(no_logs_text(&[&hit, &done]).starts_with("no log lines: 1 of 2 stages came from the cache; "));
    }

    #[test]
    fn lines_have_times_and_levels() {
        let record = LogRecord { at: Some(1_795_234_530_042), level: LogLevel::Warn, text: "slow".into() };
        assert_eq!(line(&record), "2026-11-21T04:15:30.042Z warn  slow\n");
        assert_eq!(line(&LogRecord::parse("error: no space")), "error no space\n");
    }
}
