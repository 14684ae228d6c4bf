//! Gives the command of a `run:` stage resume points.
//!
//! The command announces a complete folder by a line in the file of its metrics (`checkpoint_line`). The lines are read
//! while the command runs, and a separate thread stores the folder. Of the lines that have arrived since the last
//! folder was stored, only the last counts, so a command may remove a folder once it has announced the next one. The
//! next attempt finds the files of the newest resume point in the folder that [`RESUME_VARIABLE`] names.

use super::checkpoint_line::{CheckpointLine, place};
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use trainyard_api::appended_lines::{AppendedLine, AppendedLines};
use trainyard_api::{CheckpointStore, StageContext, checkpoint_folder};
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::{Clock as _, Error, ErrorKind, Result, SystemClock};

/// Variable with the folder of the newest resume point; absent in an attempt that begins anew.
pub const RESUME_VARIABLE: &str = "TRAINYARD_RESUME";

/// Prefix of the names of the command's files in a resume point.
const PREFIX: &str = "command-";
/// Help text for a folder that changed.
const UNCHANGED: &str = "write every checkpoint into a new folder, and keep it until the line of the next one";
/// Interval at which new lines are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Resume points of one process of a command.
#[derive(Debug, Default)]
pub struct CommandCheckpoints {
    /// Step of the resume point that the process continues from.
    pub resumed: Option<u64>,
    /// Path for copies of announced folders, outside of the working folder; `None` if this process announces none.
    pub staging: Option<PathBuf>,
}

/// Restores the newest resume point into `folder`, and names the folder in the environment of the command. Returns the
/// step of the resume point, or `None` without one.
pub fn restore(context: &mut StageContext, folder: &Path) -> Result<Option<u64>> {
    let Some((step, from)) = context.checkpoints.latest()? else { return Ok(None) };
    checkpoint_folder::restore(&from, PREFIX, folder)?;
    // The copies replace the fetched files, which take space unless they are links.
    std::fs::remove_dir_all(&from).map_err(|e| io_error(&from, &e))?;
    context.log(format!("resuming after step {step}"));
    context.env.insert(RESUME_VARIABLE.to_string(), folder.display().to_string());
    Ok(Some(step))
}

/// Follower of the lines that announce checkpoints, for the time of one command.
pub struct CheckpointFollower<'a> {
    context: &'a StageContext,
    lines: AppendedLines,
    staging: PathBuf,
    /// Step of the newest folder that was stored or is being stored, by any attempt.
    step: Option<u64>,
    saving: Option<SavingCheckpoint>,
    clock: SystemClock,
    /// Time of the next look at the lines.
    next: Duration,
}

/// A folder that is being stored.
struct SavingCheckpoint {
    line: u64,
    thread: JoinHandle<Result<()>>,
}

impl<'a> CheckpointFollower<'a> {
    /// Creates the follower of the lines in the file `metrics`. Returns `None` for a process that announces no
    /// checkpoints.
    pub fn new(context: &'a StageContext, metrics: &Path, checkpoints: &CommandCheckpoints) -> Option<Self> {
        let staging = checkpoints.staging.clone()?;
        let clock = SystemClock::new();
        let next = clock.monotonic() + POLL_INTERVAL;
        let lines = AppendedLines::new(metrics.to_path_buf());
        Some(Self { context, lines, staging, step: checkpoints.resumed, saving: None, clock, next })
    }

    /// Begins to store the folder of the last new line. Looks for new lines at most once a second, and never while a
    /// folder is being stored.
    ///
    /// Errors: data (a line that cannot be used, a folder that is missing or changed), and those of the disk.
    pub fn poll(&mut self) -> Result<()> {
        let now = self.clock.monotonic();
        let is_saving = || self.saving.as_ref().is_some_and(|saving| !saving.thread.is_finished());
        if now < self.next || is_saving() {
            return Ok(());
        }
        self.next = now + POLL_INTERVAL;
        let stored = self.join();
        let lines = self.lines.read_new();
        self.continue_after(stored, lines)
    }

    /// Stores the folder of the last line after the end of the command. Errors: those of [`CheckpointFollower::poll`].
    pub fn finish(mut self) -> Result<()> {
        let stored = self.join();
        let lines = self.lines.read_rest();
        self.continue_after(stored, lines)?;
        self.join()
    }

    /// Begins to store the folder of the last of `lines`, after the storing of the folder before ended with `stored`.
    /// A folder that was removed or changed meanwhile is an error only if no later one was announced.
    fn continue_after(&mut self, stored: Result<()>, lines: Result<Vec<AppendedLine>>) -> Result<()> {
        let Some(line) = self.newest(&lines.at("$TRAINYARD_METRICS")?)? else { return stored };
        if let Err(error) = stored {
            self.context.warn(format!("{error}; the checkpoint of step {} is stored instead", line.step));
        }
        self.begin(line)
    }

    /// Returns the last line that announces a later step than all before it.
    fn newest(&mut self, lines: &[AppendedLine]) -> Result<Option<CheckpointLine>> {
        let mut newest = None;
        for line in lines {
            let Some(line) = CheckpointLine::of(line, &self.context.scratch)? else { continue };
            match self.step {
                Some(before) if line.step <= before => self.context.log(format!(
                    "{} is ignored: its step {} is not above step {before}, whose checkpoint was announced before",
                    place(line.number),
                    line.step
                )),
                _ => {
                    self.step = Some(line.step);
                    newest = Some(line);
                }
            }
        }
        Ok(newest)
    }

    fn begin(&mut self, line: CheckpointLine) -> Result<()> {
        let (store, staging, number) = (self.context.checkpoints.clone(), self.staging.clone(), line.number);
        let thread =
            Builder::new().name("checkpoint".into()).spawn(move || store_folder(&line, store.as_ref(), &staging));
        let thread =
            thread.map_err(|e| Error::retryable(format!("cannot start a thread that stores a checkpoint: {e}")))?;
        self.saving = Some(SavingCheckpoint { line: number, thread });
        Ok(())
    }

    /// Waits for the end of the storing, if there is one.
    fn join(&mut self) -> Result<()> {
        let Some(SavingCheckpoint { line, thread }) = self.saving.take() else { return Ok(()) };
        let stored = thread.join().unwrap_or_else(|_| Err(Error::bug("the thread that stored a checkpoint panicked")));
        stored.at(place(line))
    }
}

/// Stores the folder that a line announces, by way of links in the new folder `staging`: it may be removed meanwhile.
///
/// Errors: data (the folder is missing, or changes meanwhile), and those of the disk.
fn store_folder(line: &CheckpointLine, store: &dyn CheckpointStore, staging: &Path) -> Result<()> {
    line.require_folder()?;
    remove(staging)?;
    std::fs::create_dir_all(staging).map_err(|e| io_error(staging, &e))?;
    checkpoint_folder::pack(&line.folder, PREFIX, staging)?;
    store.save(line.step, staging).map_err(|error| match error.kind {
        ErrorKind::Data => error.help(UNCHANGED),
        _ => error,
    })?;
    remove(staging)
}

fn remove(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(io_error(folder, &e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
