//! `trainyard schedules`: list, show, pause, resume, trigger, backfill. The command accesses only the store; a daemon
//! carries out the requests.

use crate::args::{BackfillArgs, OutputFormat, SchedulesArgs, SchedulesCommand};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::schedules;
use crate::session::{self, Access, AppSession};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_daemon::operations::{self, Actor, BackfillRange};

/// Opens the store, read-only unless the subcommand changes it, and runs the subcommand (`list` by default).
pub fn run(args: &SchedulesArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let command = args.command.clone().unwrap_or(SchedulesCommand::List);
    let looks = matches!(command, SchedulesCommand::List | SchedulesCommand::Show { .. });
    let access = if looks { Access::ReadOrEmpty } else { Access::Write };
    let session = session::open(&args.site, access, catalogue)?;
    let clock = SystemClock::new();
    let store = &session.store;
    let now = clock.unix_millis();
    // Not the name of a process, so a daemon takes over the requests of this command at once.
    let by = format!("cli:{}", std::env::var("USER").unwrap_or_else(|_| "somebody".to_string()));
    let chance = wiring::chance(&clock).child("schedules", &[clock.monotonic().as_nanos() as u64]);
    let actor = Actor { clock: &clock, chance, name: &by };
    match command {
        SchedulesCommand::List => {
            let rows = session.block_on(operations::list(store, now))?;
            print_result(args.format, &rows, || schedules::list(&rows))
        }
        SchedulesCommand::Show { name } => {
            let page = session.block_on(operations::show(store, &name, now))?;
            print_result(args.format, &page, || schedules::page(&page))
        }
        SchedulesCommand::Pause { name, why } => {
            let changed = session.block_on(operations::pause(store, &name, actor, why))?;
            let text = if changed { "starts no runs until it is resumed" } else { "was paused before" };
            print_result(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Resume { name } => {
            let changed = session.block_on(operations::resume(store, &name, actor))?;
            let text = if changed { "starts runs again" } else { "was not paused" };
            print_result(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Trigger { name } => {
            let tick = session.block_on(operations::trigger(store, &name, actor))?;
            print_result(args.format, &tick, || format!("run {} is promised; a daemon starts it", tick.run))
        }
        SchedulesCommand::Backfill(asked) => backfill(&session, &asked, actor, args.format),
    }
}

fn backfill(session: &AppSession, asked: &BackfillArgs, actor: Actor<'_>, format: OutputFormat) -> Result<CliExit> {
    let name = &asked.name;
    if let Some(id) = &asked.cancel {
        let changed = session.block_on(operations::cancel_backfill(&session.store, name, id, actor))?;
        let text = if changed { "starts no more runs; those that are going go on" } else { "was cancelled before" };
        return print_result(format, &changed_json(name, changed), || format!("backfill {id} of {name} {text}"));
    }
    let (Some(from), Some(to)) = (asked.from.clone(), asked.to.clone()) else {
        return Err(Error::invalid("a backfill takes a range").help("give `--from` and `--to`"));
    };
    let range = BackfillRange { from, to, concurrency: asked.concurrency, again: asked.again };
    let row = session.block_on(operations::backfill(&session.store, name, actor, &range))?;
    print_result(format, &row, || {
        format!(
            "backfill {} of {name}: {} ticks from {} to {}, {} at a time; `trainyard schedules show {name}` shows how \
             far it is",
            row.id, row.left, row.from, row.to, row.concurrency
        )
    })
}

fn changed_json(name: &str, changed: bool) -> Value {
    json!({"schedule": name, "changed": changed})
}

fn print_result(format: OutputFormat, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> Result<CliExit> {
    match format {
        OutputFormat::Json => print_json(value)?,
        OutputFormat::Text => print_text(&text()),
    }
    Ok(CliExit::Done)
}
