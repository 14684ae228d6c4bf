//! Opens a run: a new one, or the unfinished run of the same plan whose writer is dead or silent.
//!
//! The claims of a plan name its runs. The search for a run therefore does not slow down with the runs of other plans,
//! and commands that start at the same time begin one run. If a claim is lost, a new run finds the results of the old
//! one in the cache. A takeover requires that the writer is a dead process of this host, that a writer on another host
//! was observed to write nothing for 30 s, or that the caller sets `take_over`. Opening the journal fences the old
//! writer. `docs/design/0004-storage-and-resume.md` explains the design.

pub(crate) mod claims;
mod silence;

pub use crate::process::{LocalMachine, MachineProcesses, ProcessId};
pub use silence::SILENCE;
pub(crate) use silence::is_silent;

use crate::context::RunContext;
use crate::options::RunOptions;
use crate::totals;
use claims::RunClaim;
use serde::Serialize;
use trainyard_core::error::Context;
use trainyard_core::event::{Event, EventRecord, RunOutcome, Selection};
use trainyard_core::{Chance, Clock, Digest, Error, ErrorKind, Result, RunId};
use trainyard_engine::fold::{RunView, WriterView};
use trainyard_spec::plan::Plan;
use trainyard_store::{AppendError, JournalReader, JournalWriter, Store};

/// Maximum number of claims tried; each failure is a run that another process began.
const TRIES: u64 = 64;

/// Run that this process may write.
pub(crate) struct WritableRun {
    pub run: RunId,
    pub writer: JournalWriter,
    /// Fold of the journal up to this writer's opening.
    pub view: RunView,
    pub resumed: bool,
}

/// Whether a run's writer seems alive. For display only, never for decisions: the times of a journal are those of its
/// writer's clock, which may differ from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// The writer's process has ended.
    Dead,
    /// The writer is on another host, and its last record seems at least [`SILENCE`] old.
    Silent,
    /// The writer's process is alive, or its last record is recent.
    Alive,
}

/// Folds a run's journal. Errors: invalid (no such run), data (damaged).
pub async fn read_run(store: &Store, run: &RunId) -> Result<RunView> {
    Ok(open_run(store, run).await?.0)
}

/// Returns the fold of a run's journal, and a reader positioned after it, for [`follow`]. Errors: those of
/// [`read_run`].
pub async fn open_run(store: &Store, run: &RunId) -> Result<(RunView, JournalReader)> {
    let (view, reader) = read(store, run).await?;
    if view.writer.epoch == 0 {
        return Err(no_such_run(store, run));
    }
    Ok((view, reader))
}

/// Folds new batches of a journal into its view; returns whether there were any. Errors: data (damaged).
pub async fn follow(journal: &mut JournalReader, view: &mut RunView) -> Result<bool> {
    // In most cases there is no new batch, which takes one request.
    let Some(batch) = journal.next().await? else { return Ok(false) };
    view.apply_values(&batch.events)?;
    fold_rest(journal, view).await?;
    Ok(true)
}

pub(crate) fn no_such_run(store: &Store, run: &RunId) -> Error {
    Error::invalid(format!("there is no run `{run}` in {}", store.url())).help("`trainyard runs list` lists the runs")
}

/// Judges a writer by its process if the process is on this host, otherwise by its last record.
pub fn writer_state(writer: &WriterView, clock: &dyn Clock) -> WriterState {
    let silent = clock.unix_millis().saturating_sub(writer.last_seen);
    match LocalMachine.is_alive(&writer.name) {
        Some(false) => WriterState::Dead,
        None if silent >= SILENCE.as_millis() as i64 => WriterState::Silent,
        Some(true) | None => WriterState::Alive,
    }
}

/// Returns a writer name for this process, unique even among the writers of one process.
pub(crate) fn writer_name(processes: &dyn MachineProcesses, clock: &dyn Clock, chance: &Chance) -> String {
    let nonce = chance.at("writer", &[clock.unix_millis() as u64, clock.monotonic().as_nanos() as u64]).next_u32();
    format!("{}:{nonce:08x}", processes.own())
}

fn own_name(context: &RunContext) -> String {
    writer_name(context.processes.as_ref(), context.clock.as_ref(), &context.chance)
}

/// Returns the identity of a command: two commands with the same identity continue the same run.
pub(crate) fn identity(plan: &Plan, selection: &Selection) -> Result<Digest> {
    #[derive(Serialize)]
    struct RunIdentity<'a> {
        plan: &'a Digest,
        selection: &'a Selection,
    }
    Digest::of_json(&RunIdentity { plan: &plan.digest, selection })
}

pub(crate) async fn open(options: &RunOptions, plan: &Plan, context: &RunContext) -> Result<WritableRun> {
    if let Some(run) = &options.resume {
        let opened = reopen(options, plan, context, run, None).await?;
        return opened.ok_or_else(|| no_such_run(&context.store, run));
    }
    if let Some(run) = &options.named {
        return open_named(options, plan, context, run).await;
    }
    let identity = identity(plan, &options.selection)?;
    for turn in 0..TRIES {
        let (last, next) = claims::last(&context.store, &identity).await?;
        if let Some(claim) = last.filter(|_| !options.new)
            && let Some(opened) = resume_claimed(options, plan, context, &claim).await?
        {
            return Ok(opened);
        }
        let clock = context.clock.as_ref();
        let chance = context.chance.child("run", &[clock.monotonic().as_nanos() as u64, turn]);
        let claim = RunClaim { run: RunId::new(clock, &chance), writer: own_name(context) };
        // If another process was first, the next turn finds its claim.
        if claims::put(&context.store, &identity, next, &claim).await?
            && let Some(opened) = begin(context, &claim).await?
        {
            return Ok(opened);
        }
    }
    Err(Error::retryable("other commands keep starting runs of this plan").help("run the same command again"))
}

/// Begins the run with this id, or resumes it. Errors: invalid (it is over, or has another plan), retryable (another
/// process writes it).
async fn open_named(options: &RunOptions, plan: &Plan, context: &RunContext, run: &RunId) -> Result<WritableRun> {
    let (view, _) = read(&context.store, run).await.at(format!("run {run}"))?;
    if view.finished.is_some() {
        return Err(Error::invalid(format!("run {run} is over")).help("`trainyard runs show` shows how it ended"));
    }
    if view.writer.epoch > 0 {
        // A journal with only its first batch has no plan yet and accepts any.
        let owner = view.writer.name.clone();
        let opened = reopen(options, plan, context, run, Some(&owner)).await?;
        return opened.ok_or_else(|| {
            Error::invalid(format!("run {run} has another plan: the file or its parameters changed, or it is over"))
        });
    }
    let writer = own_name(context);
    let begun = begin(context, &RunClaim { run: run.clone(), writer }).await?;
    begun.ok_or_else(|| Error::retryable(format!("another process began run {run} at the same moment")))
}

/// Resumes the run of a claim, unless it is over or its journal is damaged.
async fn resume_claimed(
    options: &RunOptions,
    plan: &Plan,
    context: &RunContext,
    claim: &RunClaim,
) -> Result<Option<WritableRun>> {
    // The summary of a long finished run avoids reading its journal of many megabytes.
    if totals::read(&context.store, &claim.run).await?.is_some_and(|totals| totals.outcome.is_some()) {
        return Ok(None);
    }
    match reopen(options, plan, context, &claim.run, Some(&claim.writer)).await {
        // The error may go unread in unattended use, so a damaged run must not block all later ones.
        Err(error) if error.kind == ErrorKind::Data => {
            let why = error.message;
            context.observer.note(&format!("starting a new run, because the last one cannot be resumed: {why}"));
            Ok(None)
        }
        result => result,
    }
}

async fn read(store: &Store, run: &RunId) -> Result<(RunView, JournalReader)> {
    let (mut view, mut reader) = (RunView::default(), JournalReader::new(store, run));
    fold_rest(&mut reader, &mut view).await?;
    Ok((view, reader))
}

/// Folds the remaining batches of a journal into `view`, in pieces, because a journal of 100,000 stages is much larger
/// than its view.
pub(crate) async fn fold_rest(journal: &mut JournalReader, view: &mut RunView) -> Result<()> {
    loop {
        let (batches, is_end) = journal.read_some().await?;
        view.apply_values(batches.iter().flat_map(|batch| &batch.events))?;
        if is_end {
            return Ok(());
        }
    }
}

/// Takes over a run with [`reopen_once`]. A live writer may write between the last read and the write that takes over
/// the run; then everything is read again.
async fn reopen(
    options: &RunOptions,
    plan: &Plan,
    context: &RunContext,
    run: &RunId,
    claimed_by: Option<&str>,
) -> Result<Option<WritableRun>> {
    for _ in 0..TRIES {
        match reopen_once(options, plan, context, run, claimed_by).await? {
            TakeoverResult::Opened(opened) => return Ok(Some(*opened)),
            TakeoverResult::Refused => return Ok(None),
            TakeoverResult::WriterActive => {}
        }
    }
    Err(Error::retryable(format!("run {run} cannot be taken over while its writer keeps writing"))
        .help("run the same command again, or stop that writer first"))
}

/// Result of a takeover.
enum TakeoverResult {
    Opened(Box<WritableRun>),
    /// The run is finished and was not requested by id, or is a run of another plan with the same id.
    Refused,
    /// The previous writer has written meanwhile.
    WriterActive,
}

/// Takes over a run if that is allowed; `claimed_by` is the process that began it, or `None` if the run was requested
/// by id.
async fn reopen_once(
    options: &RunOptions,
    plan: &Plan,
    context: &RunContext,
    run: &RunId,
    claimed_by: Option<&str>,
) -> Result<TakeoverResult> {
    let by_id = claimed_by.is_none();
    let (mut view, reader) = read(&context.store, run).await.at(format!("run {run}"))?;
    match (&view.plan_digest, view.finished) {
        (None, _) if by_id => return Err(no_such_run(&context.store, run)),
        (Some(digest), _) if *digest != plan.digest && by_id => {
            return Err(Error::invalid(format!("run {run} has another plan: the file or its parameters changed"))
                .help("restore the file as it was, or start a new run with `trainyard run`"));
        }
        (Some(digest), _) if *digest != plan.digest => return Ok(TakeoverResult::Refused),
        (_, Some((_, RunOutcome::Succeeded))) if by_id => {
            return Err(Error::invalid(format!("run {run} succeeded; there is nothing to resume"))
                .help("`trainyard run` starts another run of its file; `--rerun STAGE` computes a stage again"));
        }
        (_, Some(_)) if !by_id => return Ok(TakeoverResult::Refused),
        _ => {}
    }
    if let Some(writer) = claimed_by.filter(|_| view.writer.epoch == 0) {
        view.writer.name = writer.to_string();
    }
    if view.finished.is_none() && !options.take_over {
        wait_for_takeover(context, run, &view.writer, &reader).await?;
    }
    let name = own_name(context);
    let resumed = view.plan_digest.is_some();
    match open_journal(context, reader, &mut view, &name).await {
        Ok(writer) => Ok(TakeoverResult::Opened(Box::new(WritableRun { run: run.clone(), writer, view, resumed }))),
        Err(AppendError::Fenced(fenced)) if fenced.epoch == view.writer.epoch => Ok(TakeoverResult::WriterActive),
        Err(error) => Err(error.into()),
    }
}

/// Begins the run of this process's claim. Returns `None` if another process has written its first batch.
async fn begin(context: &RunContext, claim: &RunClaim) -> Result<Option<WritableRun>> {
    let mut view = RunView::default();
    let reader = JournalReader::new(&context.store, &claim.run);
    match open_journal(context, reader, &mut view, &claim.writer).await {
        Ok(writer) => Ok(Some(WritableRun { run: claim.run.clone(), writer, view, resumed: false })),
        Err(AppendError::Fenced(_)) => Ok(None),
        Err(AppendError::Failed(error)) => Err(error),
    }
}

/// Opens the writer of a journal after the batches that were read.
async fn open_journal(
    context: &RunContext,
    reader: JournalReader,
    view: &mut RunView,
    name: &str,
) -> Result<JournalWriter, AppendError> {
    let mut opening = None;
    let writer = reader
        .open_writer(name, |epoch| {
            let event = Event::WriterOpened { epoch, writer: name.to_string() };
            let record = EventRecord { at: context.clock.unix_millis(), event };
            let value = record.to_value().unwrap_or_default();
            opening = Some(record);
            value
        })
        .await?;
    if let Some(record) = opening {
        view.apply(&record);
    }
    Ok(writer)
}

/// Waits until an unfinished run may be taken over, and notifies the observer: at once if its writer is a dead process
/// of this host, or after [`SILENCE`] if the writer is on another host. Errors: retryable (the writer is alive).
async fn wait_for_takeover(
    context: &RunContext,
    run: &RunId,
    writer: &WriterView,
    reader: &JournalReader,
) -> Result<()> {
    let (name, note) = (&writer.name, |text: String| context.observer.note(&text));
    match context.processes.is_alive(&writer.name) {
        Some(false) => note(format!("resuming run {run}: its writer {name} is gone")),
        Some(true) => return Err(writer_alive_error(run, name)),
        None => {
            let seconds = SILENCE.as_secs();
            note(format!(
                "run {run} of this plan is unfinished and its writer {name} is on another host: waiting for {seconds} \
                 s to see whether it still writes; `--take-over` resumes it at once, `--new` starts another run"
            ));
            if !is_silent(&context.store, reader, context.clock.as_ref()).await? {
                return Err(writer_alive_error(run, name));
            }
            note(format!("resuming run {run}: its writer {name} wrote nothing for {seconds} s"));
        }
    }
    Ok(())
}

fn writer_alive_error(run: &RunId, writer: &str) -> Error {
    Error::retryable(format!("run {run} of this plan is being written by {writer}")).help(
        "wait for it, follow it with `trainyard runs show --watch`, take it over with `--take-over`, \
         or start another run with `--new`",
    )
}
