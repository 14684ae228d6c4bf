//! `trainyard logs RUN [STAGE]`: what the attempts of a run's stages wrote. As JSON, one document for each line that was written,
//! so that a log may be filtered as it comes. The store keeps no times of lines, so none are shown.

use crate::args::{Format, LogsArgs};
use crate::exit::Exit;
use crate::names;
use crate::output::human::print_text;
use crate::session::{self, Access};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::{AttemptNumber, Result, StageKey};
use trainyard_store::{Chunk, Store};

/// What one attempt wrote.
struct Log {
    stage: StageKey,
    attempt: AttemptNumber,
    text: String,
}

/// Prints the log of every attempt, in the order of stages and attempts.
pub fn run(args: &LogsArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let session = session::open(&args.site, Access::Look, catalogue)?;
    let logs = session.block_on(read(&session.store, args))?;
    match args.format {
        Format::Json => logs.iter().for_each(print_lines),
        Format::Text if logs.is_empty() => print_text("no log lines"),
        Format::Text => {
            let pages: Vec<String> =
                logs.iter().map(|log| format!("== {} attempt {}\n{}", log.stage, log.attempt, log.text)).collect();
            print_text(pages.concat().trim_end());
        }
    }
    Ok(Exit::Done)
}

fn print_lines(log: &Log) {
    for line in log.text.lines() {
        print_text(&json!({"stage": log.stage, "attempt": log.attempt, "text": line}).to_string());
    }
}

/// The logs of the attempts that wrote something, in plan order.
async fn read(store: &Store, args: &LogsArgs) -> Result<Vec<Log>> {
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
            if !log.is_empty() {
                logs.push(Log { stage: stage.clone(), attempt, text: String::from_utf8_lossy(&log).into_owned() });
            }
        }
    }
    Ok(logs)
}
