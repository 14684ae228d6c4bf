//! Implements `trainyard runs`: list, show, diff, cancel, tag, untag, resume, afresh.

mod curves;
mod diff;
mod show;
mod tags;

use crate::args::{OutputFormat, RunsArgs, RunsCommand};
use crate::commands;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_note, print_text};
use crate::output::runs::{RunSummaryRow, list_table};
use crate::session::{self, Access, AppSession};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::{Error, ErrorKind, Result, RunId, SystemClock};
use trainyard_runtime::cancel::{CancelOutcome, cancel_run};
use trainyard_runtime::summary;
use trainyard_views::{annotations, find};

/// Opens the store, read-only except for `cancel`, `tag`, `untag` and `afresh`, and runs the subcommand (`list` by
/// default). `resume` opens the store again for writing.
pub fn run(args: &RunsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let command = args.command.clone().unwrap_or(RunsCommand::List { limit: 20, tag: None });
    let changes = matches!(
        command,
        RunsCommand::Cancel { .. } | RunsCommand::Tag(_) | RunsCommand::Untag(_) | RunsCommand::Afresh { .. }
    );
    let access = if changes { Access::Write } else { Access::Read };
    let session = session::open(&args.site, access, catalogue)?;
    match command {
        RunsCommand::List { limit, tag } => list(&session, limit, tag.as_deref(), args.format),
        RunsCommand::Show { run, curves: Some(stage), .. } => curves::show(&session, &run, &stage, args.format),
        RunsCommand::Afresh { run, stage } => afresh(&session, &run, &stage, args.format),
        RunsCommand::Show { run, watch, .. } => show::show(&session, &run, watch, args.format),
        RunsCommand::Diff { a, b } => diff::run(&session, &a, &b, args.format),
        RunsCommand::Tag(options) => tags::set(&session, &options, true, args.format),
        RunsCommand::Untag(options) => tags::set(&session, &options, false, args.format),
        RunsCommand::Cancel { run } => cancel(&session, &run, args.format),
        RunsCommand::Resume { run, take_over } => resume(&session, args, &run, take_over, catalogue),
    }
}

fn list(session: &AppSession, limit: usize, tag: Option<&str>, format: OutputFormat) -> Result<CliExit> {
    let clock = SystemClock::new();
    let rows = session.block_on(async {
        let mut rows = Vec::new();
        let mut runs = session.store.list_runs().await?;
        let mut tags = annotations::tags(&session.store).await?;
        let has_tag = |run: &RunId| tag.is_none_or(|tag| tags.get(run).is_some_and(|all| all.iter().any(|t| t == tag)));
        runs.retain(has_tag);
        for run in runs.into_iter().rev().take(limit) {
            let row = match summary::read_summary(&session.store, &run).await {
                Ok(known) => RunSummaryRow::new(&run, &known, &clock),
                // An unreachable store fails the whole list.
                Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
                Err(error) => RunSummaryRow::damaged(&run, &error),
            };
            rows.push(row.with_tags(tags.remove(&run).unwrap_or_default()));
        }
        Ok(rows)
    })?;
    match format {
        OutputFormat::Json => print_json(&rows)?,
        OutputFormat::Text if rows.is_empty() => {
            print_text(&tag.map_or("no runs yet".to_string(), |tag| format!("no run has the tag `{tag}`")));
        }
        OutputFormat::Text => {
            print_text(&list_table(&rows));
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
