//! Opens a run: a new one, or the unfinished one of the same plan whose writer is gone.
//!
//! Small index objects, `plans/<aa>/<identity>/<run-id>`, list the runs of a plan, so the cost does not grow with the
//! runs of other plans. The index is a hint: a lost entry costs a new run of cache hits. A takeover needs a writer that
//! is a dead process of this host, or one of another host under whose eyes nothing was written for 30 s, or the
//! caller's `take_over`. Opening the journal fences the old writer.

mod process;
mod silence;

pub use process::ProcessId;
pub use silence::SILENCE;
pub(crate) use silence::is_silent;

use crate::context::RunContext;
use crate::options::RunOptions;
use serde::Serialize;
use trainyard_core::error::Context;
use trainyard_core::event::{Event, Record, RunOutcome, Selection};
use trainyard_core::{Chance, Clock, Digest, Error, ErrorKind, Result, RunId};
use trainyard_engine::fold::{RunView, WriterView};
use trainyard_spec::plan::Plan;
use trainyard_store::{JournalReader, JournalWriter, Store, layout};

/// Fresh run ids tried before giving up.
const TRIES: u64 = 8;

/// A run that this process may write.
pub(crate) struct Opened {
    pub run: RunId,
    pub writer: JournalWriter,
    /// The fold of the journal up to this writer's opening.
    pub view: RunView,
    pub resumed: bool,
}

/// Whether a run's writer seems alive. It is told to people and decides nothing: the times of a journal are those of
/// its writer's clock, which may differ from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriterState {
    /// Its process is gone.
    Dead,
    /// It is on another host, and its last record seems at least [`SILENCE`] old.
    Silent,
    /// Its process lives, or its last record is young.
    Alive,
}

/// Folds a run's journal. Errors: invalid (no such run), data (damaged).
pub async fn read_run(store: &Store, run: &RunId) -> Result<RunView> {
    Ok(open_run(store, run).await?.0)
}

/// The fold of a run's journal, and the position behind it. Errors: those of [`read_run`].
pub(crate) async fn open_run(store: &Store, run: &RunId) -> Result<(RunView, JournalReader)> {
    let (view, reader) = read(store, run).await?;
    if view.writer.epoch == 0 {
        return Err(no_such_run(store, run));
    }
    Ok((view, reader))
}

fn no_such_run(store: &Store, run: &RunId) -> Error {
    Error::invalid(format!("there is no run `{run}` in {}", store.url()))
        .help("`trainyard runs list` shows what there is")
}

/// Judges a writer by its process if that is on this host, otherwise by its last record.
pub fn writer_state(writer: &WriterView, clock: &dyn Clock) -> WriterState {
    let silent = clock.unix_millis().saturating_sub(writer.last_seen);
    match is_alive(writer) {
        Some(false) => WriterState::Dead,
        None if silent >= SILENCE.as_millis() as i64 => WriterState::Silent,
        Some(true) | None => WriterState::Alive,
    }
}

/// Whether a writer's process lives; `None` if that is on another host.
pub(crate) fn is_alive(writer: &WriterView) -> Option<bool> {
    writer.name.parse::<ProcessId>().ok()?.is_alive()
}

/// A writer name for this process, unique even among the writers of one process.
pub(crate) fn writer_name(clock: &dyn Clock, chance: &Chance) -> String {
    let nonce = chance.at("writer", &[clock.unix_millis() as u64, clock.monotonic().as_nanos() as u64]).next_u32();
    format!("{}:{nonce:08x}", ProcessId::own())
}

/// Two commands with the same identity continue the same run.
fn identity(plan: &Plan, selection: &Selection) -> Result<Digest> {
    #[derive(Serialize)]
    struct Form<'a> {
        plan: &'a Digest,
        selection: &'a Selection,
    }
    Digest::of_json(&Form { plan: &plan.digest, selection })
}

pub(crate) async fn open(options: &RunOptions, plan: &Plan, context: &RunContext) -> Result<Opened> {
    let identity = identity(plan, &options.selection)?;
    let wanted = match &options.resume {
        Some(run) => Some(run.clone()),
        None if options.new => None,
        None => newest(&context.store, &identity).await?,
    };
    if let Some(run) = wanted {
        match reopen(options, plan, context, &run).await {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) => {}
            // Nobody may be there to read it, so this run must not stand in the way of all later ones.
            Err(error) if error.kind == ErrorKind::Data && options.resume.is_none() => {
                context
                    .observer
                    .note(&format!("starting a new run, since the last one cannot go on: {}", error.message));
            }
            Err(error) => return Err(error),
        }
    }
    create(context, &identity).await
}

/// The newest run of this plan, by the index.
async fn newest(store: &Store, identity: &Digest) -> Result<Option<RunId>> {
    let names = store.list(&layout::plan_runs(identity)).await?;
    Ok(names.iter().filter_map(|n| n.rsplit('/').next()).max().map(|n| RunId(n.to_string())))
}

async fn read(store: &Store, run: &RunId) -> Result<(RunView, JournalReader)> {
    let mut reader = JournalReader::new(store, run);
    let mut view = RunView::default();
    for batch in reader.read_to_end().await? {
        for event in &batch.events {
            view.apply(&Record::from_value(event)?);
        }
    }
    Ok((view, reader))
}

/// Takes a run over, if that is allowed. `None` if it is finished and was not asked for by name, or has no plan yet.
async fn reopen(options: &RunOptions, plan: &Plan, context: &RunContext, run: &RunId) -> Result<Option<Opened>> {
    let asked = options.resume.is_some();
    let (mut view, reader) = read(&context.store, run).await.at(format!("run {run}"))?;
    match (&view.plan_digest, view.finished) {
        (None, _) if asked => return Err(no_such_run(&context.store, run)),
        (None, _) => return Ok(None),
        (Some(digest), _) if *digest != plan.digest => {
            return Err(Error::invalid(format!("run {run} has another plan: the file or its parameters changed"))
                .help("restore the file as it was, or start a new run with `trainyard run`"));
        }
        (_, Some((_, RunOutcome::Succeeded))) if asked => {
            return Err(Error::invalid(format!("run {run} succeeded; there is nothing to resume"))
                .help("`trainyard run` starts another run of its file; `--rerun STAGE` computes a stage again"));
        }
        (_, Some(_)) if !asked => return Ok(None),
        _ => {}
    }
    if view.finished.is_none() && !options.take_over {
        wait_for_the_right(options, context, run, &view.writer, &reader).await?;
    }
    let mut opening = None;
    let name = writer_name(context.clock.as_ref(), &context.chance);
    let writer = reader
        .open_writer(&name, |epoch| {
            let record =
                Record { at: context.clock.unix_millis(), event: Event::WriterOpened { epoch, writer: name.clone() } };
            let value = record.to_value().unwrap_or_default();
            opening = Some(record);
            value
        })
        .await?;
    if let Some(record) = opening {
        view.apply(&record);
    }
    Ok(Some(Opened { run: run.clone(), writer, view, resumed: true }))
}

/// Returns if an unfinished run may be taken over. Errors: retryable (its writer lives), cancelled (interrupted).
async fn wait_for_the_right(
    options: &RunOptions,
    context: &RunContext,
    run: &RunId,
    writer: &WriterView,
    reader: &JournalReader,
) -> Result<()> {
    let (name, note) = (&writer.name, |text: String| context.observer.note(&text));
    match is_alive(writer) {
        Some(false) => note(format!("resuming run {run}: its writer {name} is gone")),
        Some(true) => return Err(lives(run, name)),
        None => {
            let seconds = SILENCE.as_secs();
            note(format!(
                "run {run} of this plan is unfinished and its writer {name} is on another host: waiting for {seconds} s \
                 to see whether it still writes; `--take-over` goes on at once, `--new` starts another run"
            ));
            let silent = tokio::select! {
                silent = is_silent(reader, context.clock.as_ref()) => silent?,
                () = options.interrupt.beyond(0) => {
                    return Err(Error::cancelled(format!("interrupted while waiting for the writer of run {run}")));
                }
            };
            if !silent {
                return Err(lives(run, name));
            }
            note(format!("resuming run {run}: its writer {name} wrote nothing for {seconds} s"));
        }
    }
    Ok(())
}

fn lives(run: &RunId, writer: &str) -> Error {
    Error::retryable(format!("run {run} of this plan is being written by {writer}")).help(
        "wait for it, follow it with `trainyard runs show --watch`, take it over with `--take-over`, \
         or start another run with `--new`",
    )
}

async fn create(context: &RunContext, identity: &Digest) -> Result<Opened> {
    let name = writer_name(context.clock.as_ref(), &context.chance);
    for turn in 0..TRIES {
        let run = RunId::new(
            context.clock.as_ref(),
            &context.chance.child("run", &[context.clock.monotonic().as_nanos() as u64, turn]),
        );
        let mut opening = None;
        let (writer, before) = JournalWriter::open(&context.store, &run, &name, |epoch| {
            let record =
                Record { at: context.clock.unix_millis(), event: Event::WriterOpened { epoch, writer: name.clone() } };
            let value = record.to_value().unwrap_or_default();
            opening = Some(record);
            value
        })
        .await?;
        if !before.is_empty() {
            // Another run has this id already, and we fenced its writer: that writer's next command takes it over
            // again.
            continue;
        }
        context
            .store
            .create(&format!("{}/{run}", layout::plan_runs(identity)), bytes::Bytes::from_static(b"{}\n"))
            .await?;
        let mut view = RunView::default();
        if let Some(record) = opening {
            view.apply(&record);
        }
        return Ok(Opened { run, writer, view, resumed: false });
    }
    Err(Error::retryable("found no unused run id").help("run the same command again"))
}
