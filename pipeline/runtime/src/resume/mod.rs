//! Opening a run: a new one, or the unfinished one of the same plan whose writer is gone.
//!
//! A plan's runs are found through small index objects, `plans/<aa>/<identity>/<run-id>`, so the cost does not grow with the runs
//! of other plans. The index is a hint: a lost entry costs a new run of cache hits, nothing more. A takeover needs a writer that
//! is known dead, silent for 30 s, or the caller's word. Refuses: sharing a run; whoever opens the journal fences the other.

mod process;

pub use process::ProcessId;

use crate::options::RunOptions;
use crate::world::World;
use serde::Serialize;
use trainyard_core::error::Context;
use trainyard_core::event::{Event, Record, RunOutcome, Selection};
use trainyard_core::{Chance, Clock, Digest, Error, Result, RunId};
use trainyard_engine::fold::{RunView, WriterView};
use trainyard_spec::plan::Plan;
use trainyard_store::{JournalReader, JournalWriter, Store, layout};

/// A writer that said nothing for this long may be replaced, in milliseconds.
pub const SILENCE_MILLIS: i64 = 30_000;
/// Fresh run ids tried before giving up.
const TRIES: u64 = 8;

/// A run that this process may write.
pub(crate) struct Opened {
    pub run: RunId,
    pub writer: JournalWriter,
    /// The fold of all before, this writer's opening included.
    pub view: RunView,
    pub resumed: bool,
}

/// What is known of a run's writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriterState {
    /// Its process is gone.
    Dead,
    /// It said nothing for so many milliseconds, at least [`SILENCE_MILLIS`].
    Silent(i64),
    /// It was heard so many milliseconds ago.
    Alive(i64),
}

/// The fold of a run's journal. Errors: invalid (no such run), data (damaged).
pub async fn read_run(store: &Store, run: &RunId) -> Result<RunView> {
    let (view, _) = read(store, run).await?;
    if view.writer.epoch == 0 {
        return Err(no_such_run(store, run));
    }
    Ok(view)
}

fn no_such_run(store: &Store, run: &RunId) -> Error {
    Error::invalid(format!("there is no run `{run}` in {}", store.url()))
        .help("`trainyard runs list` shows what there is")
}

/// Judges a writer by its process, if it is one of this host, and by its last record.
pub fn writer_state(writer: &WriterView, clock: &dyn Clock) -> WriterState {
    let process: Option<ProcessId> = writer.name.parse().ok();
    let silent = clock.unix_millis().saturating_sub(writer.last_seen).max(0);
    match process.and_then(|p| p.is_alive()) {
        Some(false) => WriterState::Dead,
        _ if silent >= SILENCE_MILLIS => WriterState::Silent(silent),
        _ => WriterState::Alive(silent),
    }
}

/// A name for this process as a writer, unique even among the writers of one process.
pub(crate) fn writer_name(clock: &dyn Clock, chance: &Chance) -> String {
    let nonce = chance.at("writer", &[clock.unix_millis() as u64, clock.monotonic().as_nanos() as u64]).next_u32();
    format!("{}:{nonce:08x}", ProcessId::own())
}

/// What makes two commands the same run: plan and selection.
fn identity(plan: &Plan, selection: &Selection) -> Result<Digest> {
    #[derive(Serialize)]
    struct Form<'a> {
        plan: &'a Digest,
        selection: &'a Selection,
    }
    Digest::of_json(&Form { plan: &plan.digest, selection })
}

pub(crate) async fn open(options: &RunOptions, plan: &Plan, world: &World) -> Result<Opened> {
    let identity = identity(plan, &options.selection)?;
    let wanted = match &options.resume {
        Some(run) => Some(run.clone()),
        None if options.new => None,
        None => newest(&world.store, &identity).await?,
    };
    if let Some(run) = wanted
        && let Some(opened) = reopen(options, plan, world, &run).await?
    {
        return Ok(opened);
    }
    create(world, &identity).await
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

/// Takes a run over, if that is allowed. `None`: it is finished (and was not asked for by name), or holds nothing yet.
async fn reopen(options: &RunOptions, plan: &Plan, world: &World, run: &RunId) -> Result<Option<Opened>> {
    let asked = options.resume.is_some();
    let (view, reader) = read(&world.store, run).await.at(format!("run {run}"))?;
    match (&view.plan_digest, view.finished) {
        (None, _) if asked => return Err(no_such_run(&world.store, run)),
        (None, _) => return Ok(None),
        (Some(digest), _) if *digest != plan.digest => {
            return Err(Error::invalid(format!("run {run} has another plan: the file or its parameters changed"))
                .help("run the file as it was, or start a new run with `trainyard run`"));
        }
        (_, Some((_, RunOutcome::Succeeded))) if asked => {
            return Err(Error::invalid(format!("run {run} succeeded; there is nothing to resume"))
                .help("`trainyard run` starts another one of its file; `--rerun STAGE` computes a stage anew"));
        }
        (_, Some(_)) if !asked => return Ok(None),
        _ => {}
    }
    if view.finished.is_none() && !options.take_over {
        match writer_state(&view.writer, world.clock.as_ref()) {
            WriterState::Alive(heard) => {
                return Err(Error::retryable(format!("run {run} of this plan is being written by {} (heard {:.0} s ago)", view.writer.name, heard as f64 / 1_000.0))
                    .help("wait for it, follow it with `trainyard runs show --watch`, take it over with `--take-over`, or start another with `--new`"));
            }
            WriterState::Dead => {
                world.observer.note(&format!("resuming run {run}: its writer {} is gone", view.writer.name))
            }
            WriterState::Silent(millis) => world.observer.note(&format!(
                "resuming run {run}: its writer {} has been silent for {} s",
                view.writer.name,
                millis / 1_000
            )),
        }
    }
    let mut view = view;
    let mut opening = None;
    let name = writer_name(world.clock.as_ref(), &world.chance);
    let writer = reader
        .open_writer(&name, |epoch| {
            let record =
                Record { at: world.clock.unix_millis(), event: Event::WriterOpened { epoch, writer: name.clone() } };
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

async fn create(world: &World, identity: &Digest) -> Result<Opened> {
    let name = writer_name(world.clock.as_ref(), &world.chance);
    for turn in 0..TRIES {
        let run = RunId::new(
            world.clock.as_ref(),
            &world.chance.child("run", &[world.clock.monotonic().as_nanos() as u64, turn]),
        );
        let mut opening = None;
        let (writer, before) = JournalWriter::open(&world.store, &run, &name, |epoch| {
            let record =
                Record { at: world.clock.unix_millis(), event: Event::WriterOpened { epoch, writer: name.clone() } };
            let value = record.to_value().unwrap_or_default();
            opening = Some(record);
            value
        })
        .await?;
        if !before.is_empty() {
            // Somebody else's run of this very second has this id, and we opened it: leave it to its writer's takeover.
            continue;
        }
        world
            .store
            .create(&format!("{}/{run}", layout::plan_runs(identity)), bytes::Bytes::from_static(b"{}\n"))
            .await?;
        let mut view = RunView::default();
        if let Some(record) = opening {
            view.apply(&record);
        }
        return Ok(Opened { run, writer, view, resumed: false });
    }
    Err(Error::retryable("no fresh run id was found").help("run the same command again"))
}
