//! `trainyard logs RUN [STAGE]`: what the attempts of a run's stages wrote, with times and levels. As JSON, one
//! document for each record, so that a log can be filtered while it is read. Logs of earlier versions have no times.

use crate::args::{Format, LogsArgs};
use crate::exit::Exit;
use crate::names;
use crate::output::clean::without_colors;
use crate::output::human::{print_lines, print_raw, print_text};
use crate::session::{self, Access};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::attempt::LogRecord;
use trainyard_core::units::format_time;
use trainyard_core::{AttemptNumber, Result, StageKey};
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_store::{Chunk, Store};

/// What one attempt wrote.
struct Log {
    stage: StageKey,
    attempt: AttemptNumber,
    records: Vec<LogRecord>,
}

/// Prints the log of every attempt, in the order of stages and attempts.
pub fn run(args: &LogsArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::Look, catalogue)?;
    let (logs, view) = session.block_on(read(&session.store, args))?;
    match args.format {
        Format::Json => logs.iter().for_each(print_records),
        Format::Text if logs.is_empty() => print_text(&nothing(&view)),
        Format::Text => {
            let pages: Vec<String> = logs.iter().map(page).collect();
            let text = pages.concat();
            if args.raw {
                print_raw(text.trim_end());
            } else {
                print_lines(&without_colors(text.trim_end()));
            }
        }
    }
    Ok(Exit::Done)
}

fn page(log: &Log) -> String {
    let lines: String = log.records.iter().map(line).collect();
    format!("== {} attempt {}\n{lines}", log.stage, log.attempt)
}

/// `2026-11-21T04:15:30.042Z info  text`.
fn line(record: &LogRecord) -> String {
    let level = record.level.name();
    match record.at {
        Some(at) => format!("{} {level:<5} {}\n", format_time(at), record.text),
        None => format!("{level:<5} {}\n", record.text),
    }
}

fn print_records(log: &Log) {
    for record in &log.records {
        let at = record.at.map(format_time);
        let (stage, attempt, level, text) = (&log.stage, log.attempt, record.level, &record.text);
        print_raw(&json!({"stage": stage, "attempt": attempt, "at": at, "level": level, "text": text}).to_string());
    }
}

/// The logs of the attempts that wrote something, in plan order.
async fn read(store: &Store, args: &LogsArgs) -> Result<(Vec<Log>, RunView)> {
    let run = names::run(store, &args.run).await?;
    let view = names::view(store, &run).await?;
    let wanted = match &args.stage {
        Some(name) => vec![names::stage(&view, name)?],
        None => view.stages.iter().collect(),
    };
    let mut logs = Vec::new();
    for stage in wanted.into_iter().map(|view| view.key()) {
        for attempt in store.list_attempts(&run, stage).await? {
            let (log, _) = store.read_chunks(&run, stage, attempt, Chunk::Log, 0).await?;
            let records: Vec<_> = String::from_utf8_lossy(&log).lines().map(LogRecord::parse).collect();
            if !records.is_empty() {
                logs.push(Log { stage: stage.clone(), attempt, records });
            }
        }
    }
    Ok((logs, view))
}

/// Why there is nothing to print.
fn nothing(view: &RunView) -> String {
    let hits = view.stages.iter().filter(|s| s.status == StageStatus::Hit).count();
    let of = view.stages.len();
    match hits {
        0 => "no log lines".into(),
        _ => {
            let told = format!("no log lines: {hits} of {of} stages came from the cache");
            format!("{told}; `trainyard explain RUN STAGE` names the run that made one")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::attempt::LogLevel;

    #[test]
    fn lines_have_times_and_levels_unless_they_are_old() {
        let record = LogRecord { at: Some(1_795_234_530_042), level: LogLevel::Warn, text: "slow".into() };
        assert_eq!(line(&record), "2026-11-21T04:15:30.042Z warn  slow\n");
        assert_eq!(line(&LogRecord::parse("error: no space")), "error no space\n");
    }
}
