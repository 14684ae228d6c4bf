//! Implements `trainyard runs`: list, show, cancel, resume, afresh.

mod curves;
mod show;

use crate::args::{OutputFormat, RunsArgs, RunsCommand};
use crate::commands;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_note, print_text, table};
use crate::output::runs::RunSummaryRow;
use crate::session::{self, Access, AppSession};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::{Error, ErrorKind, Result, RunId, SystemClock};
use trainyard_runtime::cancel::{CancelOutcome, cancel_run};
use trainyard_runtime::summary;
use trainyard_views::find;

/// Opens the store, read-only except for `cancel` and `afresh`, and runs the subcommand (`list` by default). `resume`
/// opens the store again for writing.
pub fn run(args: &RunsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let command = args.command.clone().unwrap_or(RunsCommand::List { limit: 20 });
    let changes = matches!(command, RunsCommand::Cancel { .. } | RunsCommand::Afresh { .. });
    let access = if changes { Access::Write } else { Access::Read };
    let session = session::open(&args.site, access, catalogue)?;
    match command {
        RunsCommand::List { limit } => list(&session, limit, args.format),
        RunsCommand::Show { run, curves: Some(stage), .. } => curves::show(&session, &run, &stage, args.format),
        RunsCommand::Afresh { run, stage } => afresh(&session, &run, &stage, args.format),
        RunsCommand::Show { run, watch, .. } => show::show(&session, &run, watch, args.format),
        RunsCommand::Cancel { run } => cancel(&session, &run, args.format),
        RunsCommand::Resume { run, take_over } => resume(&session, args, &run, take_over, catalogue),
    }
}

fn list(session: &AppSession, limit: usize, format: OutputFormat) -> Result<CliExit> {
    let clock = SystemClock::new();
    let rows = session.block_on(async {
        let mut rows = Vec::new();
        for run in session.store.list_runs().await?.into_iter().rev().take(limit) {
            rows.push(match summary::read_summary(&session.store, &run).await {
                Ok(known) => RunSummaryRow::new(&run, &known, &clock),
                // An unreachable store fails the whole list.
                Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
                Err(error) => RunSummaryRow::damaged(&run, &error),
            });
        }
        Ok(rows)
    })?;
    match format {
        OutputFormat::Json => print_json(&rows)?,
        OutputFormat::Text if rows.is_empty() => print_text("no runs yet"),
        OutputFormat::Text => {
            print_text(&table(&RunSummaryRow::HEADER, &rows.iter().map(RunSummaryRow::cells).collect::<Vec<_>>()));
            if rows.iter().any(RunSummaryRow::is_damaged) {
                print_text("\n`trainyard runs show RUN` prints the error of a damaged run");
            }
        }
    }
    Ok(CliExit::Done)
}

fn cancel(session: &AppSession, name: &str, format: OutputFormat) -> Result<CliExit> {
    let run: RunId = session.block_on(find::run(&session.store, name))?;
    let clock = SystemClock::new();
    let chance = wiring::chance(&clock);
    let outcome = session.block_on(cancel_run(&session.store, &run, &clock, &chance, print_note))?;
    let (outcome, text) = match outcome {
        CancelOutcome::Requested => ("requested", format!("requested run {run} to stop; it stops within seconds")),
        CancelOutcome::Ended => ("ended", format!("run {run} had no live writer; it is cancelled now")),
        CancelOutcome::AlreadyFinished => ("already_finished", format!("run {run} has already finished")),
    };
    match format {
        OutputFormat::Json => print_json(&json!({"run": run, "outcome": outcome}))?,
        OutputFormat::Text => print_text(&text),
    }
    Ok(CliExit::Done)
}

/// Discards the resume points of a stage, and prints their number.
fn afresh(session: &AppSession, run: &str, stage: &str, format: OutputFormat) -> Result<CliExit> {
    let (stage, removed) = session.block_on(async {
        let run = find::run(&session.store, run).await?;
        let view = find::view(&session.store, &run).await?;
        let stage = find::stage(&view, stage)?;
        let digest = stage.digest.clone().ok_or_else(|| {
            Error::invalid(format!("stage `{}` has no digest yet, so it has no resume points", stage.key()))
        })?;
        Ok((stage.key().clone(), session.store.remove_checkpoints(&digest).await?))
    })?;
    match format {
        OutputFormat::Json => print_json(&json!({"stage": stage, "removed": removed}))?,
        OutputFormat::Text => {
            let effect = "its next attempt starts from the beginning";
            print_text(&format!("removed {removed} resume points of {stage}; {effect}"))
        }
    }
    Ok(CliExit::Done)
}

/// Resumes an interrupted run with the file and the parameters of its journal.
fn resume(
    session: &AppSession,
    args: &RunsArgs,
    name: &str,
    take_over: bool,
    catalogue: &Arc<Catalogue>,
) -> Result<CliExit> {
    let (run, view) = session.block_on(async {
        let run = find::run(&session.store, name).await?;
        let view = find::view(&session.store, &run).await?;
        Ok((run, view))
    })?;
    commands::run::resume(&args.site, run, &view, take_over, args.format, catalogue)
}
