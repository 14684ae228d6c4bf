//! Implements `trainyard run FILE`, which compiles and runs a workflow, and prints a summary.

use super::page_catalogue;
use crate::args::{OutputFormat, PagesArgs, ParamArgs, RunArgs, SiteArgs, WorkflowArgs};
use crate::compiled::{self, WorkflowSource};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text, print_warning};
use crate::output::progress::{PageOfRun, ProgressObserver};
use crate::output::{reports, runs, shell};
use crate::pages;
use crate::session::{self, Access, AppSession};
use crate::shipped::ShippedFiles;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_app::{Catalogue, notifications, tracking, wiring};
use trainyard_core::event::{RunOutcome, Selection};
use trainyard_core::{Clock, Error, Result, RunId, SystemClock};
use trainyard_daemon::texts::WorkflowTexts;
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_runtime::{Interrupt, Observer, RunEnding, RunOptions, RunSummary};
use trainyard_spec::files::absolute;

/// Starts a new run, or resumes the unfinished run of the same plan and selection. Prints progress and a summary.
pub fn run(args: &RunArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let options = RunOptions {
        selection: Selection { until: args.until.clone(), only: args.only.clone(), rerun: args.rerun.clone() },
        fail_fast: args.fail_fast,
        new: args.new,
        take_over: args.take_over,
        resume: None,
        named: args.run_id.clone().map(RunId),
        interrupt: Interrupt::default(),
    };
    let input = DaemonInput { tick: args.tick.as_deref(), texts: args.texts.as_deref() };
    // The daemon serves the pages of the runs that it starts.
    let pages = (!args.no_pages && args.run_id.is_none()).then_some(&args.pages);
    execute(&args.site, (&args.workflow, input), options, (args.format, pages), catalogue)
}

/// Input that the daemon passes to a run, in addition to the file.
#[derive(Clone, Copy, Default)]
struct DaemonInput<'a> {
    /// Time of a schedule's tick.
    tick: Option<&'a str>,
    /// Object of the store that holds the texts of the file and its parents.
    texts: Option<&'a str>,
}

/// Resumes the run `run` with the file and the parameters of its journal.
pub fn resume(
    site: &SiteArgs,
    run: RunId,
    view: &RunView,
    take_over: bool,
    format: OutputFormat,
    catalogue: &Arc<Catalogue>,
) -> Result<CliExit> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToString::to_string);
    let params = view.params.iter().map(|(name, value)| format!("{name}={}", text(value))).collect();
    let workflow = WorkflowArgs { file: PathBuf::from(&view.source), params: ParamArgs { params } };
    let options =
        RunOptions { selection: view.selection.clone(), take_over, resume: Some(run), ..RunOptions::default() };
    execute(site, (&workflow, DaemonInput::default()), options, (format, Some(&PagesArgs::default())), catalogue)
}

fn execute(
    site: &SiteArgs,
    (workflow, input): (&WorkflowArgs, DaemonInput<'_>),
    options: RunOptions,
    (format, pages): (OutputFormat, Option<&PagesArgs>),
    catalogue: &Arc<Catalogue>,
) -> Result<CliExit> {
    let session = session::open(site, Access::Run, catalogue)?;
    let json = format == OutputFormat::Json;
    let plan = match input.texts {
        None => {
            let source = WorkflowSource { files: &ShippedFiles, tick: input.tick };
            compiled::plan_or_json(workflow, source, &**catalogue, &session.site, json)?
        }
        Some(path) => {
            let folder = absolute(&compiled::working_directory()?, &workflow.file.to_string_lossy());
            let folder = folder.parent().unwrap_or(Path::new("/"));
            let texts = session.block_on(WorkflowTexts::fetch(&session.store, path, folder))?;
            let files = texts.layered_over(&ShippedFiles);
            compiled::plan_or_json(
                workflow,
                WorkflowSource { files: &files, tick: input.tick },
                &**catalogue,
                &session.site,
                json,
            )?
        }
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let pages = pages.and_then(|args| served_pages(&session, args, &clock, catalogue));
    let progress = ProgressObserver::new(clock.clone()).comparing(&plan).with_page(pages);
    let progress: Arc<dyn Observer> = Arc::new(progress);
    let trackers = wiring::tracker_context(&session);
    let tracked = tracking::follow(catalogue.trackers(), &session.site.tracking, &trackers, clock.clone(), progress)?;
    let context = wiring::run_context(&session, catalogue, clock.clone(), tracked.clone())?;
    let interrupt = options.interrupt.clone();
    let ended = session.block_on(async {
        interrupt.on_signals()?;
        trainyard_runtime::run(options, plan, context).await
    });
    tracked.end();
    let summary = ended?;
    print_summary(&session, &summary, clock.as_ref(), format)?;
    let (run, view) = (&summary.run, &summary.view);
    let failed = session.block_on(async {
        let notifications = &session.site.notifications;
        Ok(
            match notifications::run_ended(notifications, &session.store, run, view, runs::closing_line(run, view))
                .await
            {
                Ok(Some(message)) => notifications::send(&session.site, &message).await,
                Ok(None) => Vec::new(),
                Err(error) => vec![error.at("notifications were not sent")],
            },
        )
    })?;
    failed.iter().for_each(print_warning);
    exit(&summary)
}

/// Serves the pages of the run until the returned function is dropped. Without them the run is the same, so a failure
/// is only a warning.
fn served_pages(
    session: &AppSession,
    args: &PagesArgs,
    clock: &Arc<dyn Clock>,
    catalogue: &Arc<Catalogue>,
) -> Option<PageOfRun> {
    let catalogue = page_catalogue::lazy(catalogue, &session.site);
    let pages = pages::start(session, args, clock.clone(), catalogue).inspect_err(print_warning).ok()?;
    Some(Box::new(move |run: &RunId| pages.url(&format!("runs/{run}"))))
}

/// Prints the first table of each report, the closing line, and the next command. The most important text comes last.
fn print_summary(session: &AppSession, summary: &RunSummary, clock: &dyn Clock, format: OutputFormat) -> Result<()> {
    let (run, view) = (&summary.run, &summary.view);
    if format == OutputFormat::Json {
        let value = runs::json(run, view, &runs::StageProgress::new(), clock)?;
        return print_json(&json!({"resumed": summary.resumed, "run": value}));
    }
    let reports = session.block_on(reports::of_run(&session.store, run, view))?;
    for report in &reports {
        print_text(&format!("\n{}", report.headline));
    }
    print_text(&format!("\n{}", runs::closing_line(run, view)));
    print_text(&format!("next: {}", next(run, view, reports.last())));
    Ok(())
}

/// Returns the command that shows most about the result of a run: the logs of a failed stage, the last report, or the
/// run.
fn next(run: &RunId, view: &RunView, report: Option<&reports::ReportHeadline>) -> String {
    let failed = view.stages.iter().find(|stage| stage.status == StageStatus::Failed);
    match (failed, report) {
        (Some(stage), _) if !stage.attempts.is_empty() && stage.digest.is_some() && stage.generation.is_none() => {
            format!("trainyard logs {run} {}", shell::word(&stage.stage.0.0))
        }
        (_, Some(report)) => format!("trainyard artifacts export {} report", report.artifact),
        _ => format!("trainyard runs show {run}"),
    }
}

fn exit(summary: &RunSummary) -> Result<CliExit> {
    match &summary.ending {
        RunEnding::Finished(RunOutcome::Succeeded) => Ok(CliExit::Done),
        RunEnding::Finished(RunOutcome::Failed) => Ok(CliExit::Failed),
        RunEnding::Finished(RunOutcome::Cancelled) => Ok(CliExit::Interrupted),
        RunEnding::Fenced { by } => {
            Err(Error::lost(format!("run {} belongs to another writer now: {by}", summary.run))
                .help("this process published nothing after it lost the run"))
        }
    }
}
