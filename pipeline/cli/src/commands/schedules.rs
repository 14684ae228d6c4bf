//! `trainyard schedules`: list, show, pause, resume, trigger, backfill. The command accesses only the store; a daemon
//! carries out the requests.

use crate::args::{BackfillArgs, Format, SchedulesArgs, SchedulesCommand};
use crate::exit::Exit;
use crate::output::human::{print_json, print_text};
use crate::output::schedules;
use crate::session::{self, Access, Session};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::{Clock, Error, Result, SystemClock};
use trainyard_daemon::book::{self, Actor, Range};

/// Opens the store, read-only unless the subcommand changes it, and runs the subcommand (`list` by default).
pub fn run(args: &SchedulesArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let command = args.command.clone().unwrap_or(SchedulesCommand::List);
    let looks = matches!(command, SchedulesCommand::List | SchedulesCommand::Show { .. });
    let access = if looks { Access::LookOrEmpty } else { Access::Change };
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
            let rows = session.block_on(book::list(store, now))?;
            told(args.format, &rows, || schedules::list(&rows))
        }
        SchedulesCommand::Show { name } => {
            let page = session.block_on(book::show(store, &name, now))?;
            told(args.format, &page, || schedules::page(&page))
        }
        SchedulesCommand::Pause { name, why } => {
            let changed = session.block_on(book::pause(store, &name, actor, why))?;
            let text = if changed { "starts no runs until it is resumed" } else { "was paused before" };
            told(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Resume { name } => {
            let changed = session.block_on(book::resume(store, &name, actor))?;
            let text = if changed { "starts runs again" } else { "was not paused" };
            told(args.format, &changed_json(&name, changed), || format!("schedule {name} {text}"))
        }
        SchedulesCommand::Trigger { name } => {
            let tick = session.block_on(book::trigger(store, &name, actor))?;
            told(args.format, &tick, || format!("run {} is promised; a daemon starts it", tick.run))
        }
        SchedulesCommand::Backfill(asked) => backfill(&session, &asked, actor, args.format),
    }
}

fn backfill(session: &Session, asked: &BackfillArgs, actor: Actor<'_>, format: Format) -> Result<Exit> {
    let name = &asked.name;
    if let Some(id) = &asked.cancel {
        let changed = session.block_on(book::cancel_backfill(&session.store, name, id, actor))?;
        let text = if changed { "starts no more runs; those that are going go on" } else { "was cancelled before" };
        return told(format, &changed_json(name, changed), || format!("backfill {id} of {name} {text}"));
    }
    let (Some(from), Some(to)) = (asked.from.clone(), asked.to.clone()) else {
        return Err(Error::invalid("a backfill takes a range").help("give `--from` and `--to`"));
    };
    let range = Range { from, to, concurrency: asked.concurrency, again: asked.again };
    let row = session.block_on(book::backfill(&session.store, name, actor, &range))?;
    told(format, &row, || {
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

fn told(format: Format, value: &impl serde::Serialize, text: impl FnOnce() -> String) -> Result<Exit> {
    match format {
        Format::Json => print_json(value)?,
        Format::Text => print_text(&text()),
    }
    Ok(Exit::Done)
}
