//! Implements `trainyard schedules`: list, show, pause, resume, trigger, backfill. The command accesses only the store;
//! a daemon carries out the requests.

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

/// Opens the store, read-only unless the subcommand changes schedules, and runs the subcommand (`list` by default).
pub fn run(args: &SchedulesArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let command = args.command.clone().unwrap_or(SchedulesCommand::List);
    let reads = matches!(command, SchedulesCommand::List | SchedulesCommand::Show { .. });
    let access = if reads { Access::ReadOrEmpty } else { Access::Write };
    let session = session::open(&args.site, access, catalogue)?;
    let clock = SystemClock::new();
    let store = &session.store;
    let now = clock.unix_millis();
    // The name is not that of a process, so a daemon takes over the requests of this command at once.
    let user = format!("cli:{}", std::env::var("USER").unwrap_or_else(|_| "unknown".to_string()));
    let chance = wiring::chance(&clock).child("schedules", &[clock.monotonic().as_nanos() as u64]);
    let actor = Actor { clock: &clock, chance, name: &user };
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
            let text = if changed { "starts no runs until it is resumed" } else { "was already paused" };
            print_result(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Resume { name } => {
            let changed = session.block_on(operations::resume(store, &name, actor))?;
            let text = if changed { "starts runs again" } else { "was not paused" };
            print_result(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Trigger { name } => {
            let tick = session.block_on(operations::trigger(store, &name, actor))?;
            print_result(args.format, &tick, || format!("run {} is scheduled; a daemon starts it", tick.run))
        }
        SchedulesCommand::Backfill(options) => backfill(&session, &options, actor, args.format),
    }
}

fn backfill(session: &AppSession, args: &BackfillArgs, actor: Actor<'_>, format: OutputFormat) -> Result<CliExit> {
    let name = &args.name;
    if let Some(id) = &args.cancel {
        let changed = session.block_on(operations::cancel_backfill(&session.store, name, id, actor))?;
        let text = if changed { "starts no more runs; active runs continue" } else { "was already cancelled" };
        return print_result(format, &changed_json(name, changed), || format!("backfill {id} of {name} {text}"));
    }
    let (Some(from), Some(to)) = (args.from.clone(), args.to.clone()) else {
        return Err(Error::invalid("a backfill needs a range of ticks").help("pass `--from` and `--to`"));
    };
    let range = BackfillRange { from, to, concurrency: args.concurrency, again: args.again };
    let row = session.block_on(operations::backfill(&session.store, name, actor, &range))?;
    print_result(format, &row, || {
        format!(
            "backfill {} of {name}: {} ticks from {} to {}, {} at a time; `trainyard schedules show {name}` shows its \
             progress",
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
