//! Runs attempts as jobs of Slurm: `sbatch` submits them, `squeue` and `sacct` report their states, `scancel` ends
//! them.
//!
//! Attempts that request equal resources become one array. A job's comment contains the keys of its attempts. By this
//! comment an engine finds a job whose number the previous engine could not record before it died; the controller keeps
//! comments with and without accounting. Search and submission are two steps, which is safe because the journal ensures
//! that only one engine drives a run.
//!
//! Jobs are never requeued (`--no-requeue`), because the files of an attempt are written once. If a site requeues a job
//! anyway, the job is removed and the attempt is lost, so the run's own retries decide.

mod client;
mod comment;
mod ids;
mod job_state;
mod options;
mod polling;
mod reasons;
mod records;
mod refusals;
mod request;
mod script;
mod shared_query;
mod submission;
#[cfg(test)]
mod tests;
mod tools;
mod verdict;

pub use options::SlurmOptions;

use super::{AttemptState, AttemptTask, BoxFuture, Capabilities, Control, Executor, Handle, Launcher};
use client::SlurmClient;
use ids::JobId;
use job_state::JobState;
use records::find;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trainyard_core::{Error, Result};
use verdict::JobHistory;

/// Number of bytes that are shown of the end of a job's output.
const TAIL: u64 = 64 << 10;

/// The executor `slurm`.
pub struct SlurmExecutor {
    options: SlurmOptions,
    poll: Duration,
    log_folder: PathBuf,
    launcher: Launcher,
    client: SlurmClient,
    known: Mutex<BTreeMap<JobId, JobHistory>>,
}

impl SlurmExecutor {
    /// Name in pool definitions.
    pub const NAME: &str = "slurm";

    /// Creates the executor of a pool. Errors: invalid (the options).
    pub fn new(launcher: Launcher, options: SlurmOptions) -> Result<Self> {
        Self::with_tools(launcher, options, Arc::new(tools::InstalledTools::new()))
    }
    fn with_tools(launcher: Launcher, options: SlurmOptions, tools: Arc<dyn tools::SlurmTools>) -> Result<Self> {
        options.check()?;
        Ok(Self {
            poll: options.poll().map_err(Error::invalid)?,
            log_folder: options.log_folder(),
            options,
            launcher,
            client: SlurmClient::new(tools),
            known: Mutex::default(),
        })
    }

    fn log_of(&self, id: JobId) -> PathBuf {
        self.log_folder.join(format!("{id}.log"))
    }
    /// Updates the history of a job.
    fn remember<T>(&self, id: JobId, update: impl FnOnce(&mut JobHistory) -> T) -> T {
        update(self.known.lock().unwrap_or_else(PoisonError::into_inner).entry(id).or_default())
    }
    fn forget(&self, id: JobId) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

fn handle(id: JobId) -> Handle {
    Handle(id.to_string())
}

fn no_job(handle: &Handle) -> Error {
    Error::bug(format!("`{}` is not a Slurm job id", handle.0))
}

impl Executor for SlurmExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities { relays: false, outlives_engine: true, shares_files: self.options.shared_filesystem }
    }
    fn submit<'a>(&'a self, tasks: &'a [AttemptTask]) -> BoxFuture<'a, Vec<Result<Handle>>> {
        Box::pin(async move {
            let results = self.submit_all(tasks).await;
            let result = |task: &AttemptTask| match &results {
                Ok(results) => {
                    results.get(&task.key()).cloned().unwrap_or_else(|| Err(Error::bug("a task has no result")))
                }
                Err(error) => Err(error.clone()),
            };
            tasks.iter().map(result).collect()
        })
    }
    fn poll<'a>(&'a self, handles: &'a [Handle]) -> BoxFuture<'a, Result<Vec<AttemptState>>> {
        Box::pin(async move {
            let ids: Vec<JobId> =
                handles.iter().map(|h| JobId::parse(&h.0).ok_or_else(|| no_job(h))).collect::<Result<_>>()?;
            self.states(&ids).await
        })
    }
    fn cancel<'a>(&'a self, handle: &'a Handle, control: Control) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let id = JobId::parse(&handle.0).ok_or_else(|| no_job(handle))?;
            if control == Control::Run {
                return Ok(());
            }
            self.remember(id, |known| known.cancel_requested = true);
            // A signal does not reach waiting jobs, and `scancel --state` takes all members of an array that wait.
            let runs = control == Control::Cancel
                && find(&self.client.queue().await?, id).is_some_and(|r| r.state == JobState::Active);
            if runs { self.client.terminate(id).await } else { self.client.cancel(id).await }
        })
    }
    fn reattach<'a>(
        &'a self,
        task: &'a AttemptTask,
        handle: Option<&'a Handle>,
    ) -> BoxFuture<'a, Result<Option<Handle>>> {
        Box::pin(async move { Ok(self.find_submitted(task, handle).await?.map(self::handle)) })
    }
    fn logs<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<String>> {
        Box::pin(async move {
            let id = JobId::parse(&handle.0).ok_or_else(|| no_job(handle))?;
            Ok(tail(self.log_of(id)))
        })
    }
    fn explain<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(async move {
            let id = JobId::parse(&handle.0).ok_or_else(|| no_job(handle))?;
            self.explanation(id).await
        })
    }
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(self.poll))
    }
}

/// Returns the end of a file; empty if it cannot be read, for example because nodes share no files.
fn tail(path: PathBuf) -> String {
    let read = || {
        let mut file = std::fs::File::open(&path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}
