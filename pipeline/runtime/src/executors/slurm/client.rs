//! Sends requests to Slurm, with one function for each kind of request.

use super::ids::JobId;
use super::records::{self, SACCT, SQUEUE, SQUEUE_WITHOUT_COMMENTS, SlurmRecord};
use super::refusals::refusal;
use super::shared_query::SharedQuery;
use super::tools::{SlurmCommand, SlurmCommandOutput, SlurmTools};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use trainyard_core::{Error, ErrorKind, Result};

/// Period that accounting searches for a job whose number is unknown.
const SINCE: &str = "--starttime=now-14days";

/// Slurm, as this user sees it.
pub(super) struct SlurmClient {
    tools: Arc<dyn SlurmTools>,
    /// Id of this user, by which queries filter. A query by user returns only the jobs of that user. A query by job ids
    /// makes the controller send the jobs of all users, and fails if the controller no longer knows the only listed
    /// job.
    user: u32,
    queue: SharedQuery<Vec<SlurmRecord>>,
    queue_with_comments: SharedQuery<Vec<SlurmRecord>>,
}

/// Result of a query to accounting.
#[derive(Debug)]
pub(super) enum AccountingResult {
    /// These jobs.
    Known(Vec<SlurmRecord>),
    /// Accounting is not available on this cluster.
    Off,
    /// Accounting is unavailable now.
    Unavailable,
}

impl SlurmClient {
    pub fn new(tools: Arc<dyn SlurmTools>) -> Self {
        let user = rustix::process::getuid().as_raw();
        Self { tools, user, queue: SharedQuery::new(), queue_with_comments: SharedQuery::new() }
    }
    async fn run(&self, call: SlurmCommand) -> Result<SlurmCommandOutput> {
        let output = self.tools.call(call.clone()).await?;
        if output.success { Ok(output) } else { Err(refusal(&call, &output)) }
    }

    /// Submits a script and returns the number of the job, or of the array.
    pub async fn submit(&self, arguments: Vec<String>, script: Vec<u8>, env: Vec<(OsString, OsString)>) -> Result<u32> {
        let output = self.run(SlurmCommand { program: "sbatch", arguments, input: script, env }).await?;
        // `123`, or `123;cluster`.
        let number = output.stdout.trim().split(';').next().and_then(|number| number.parse().ok());
        // The job may exist; the next submission finds it by its comment.
        number.ok_or_else(|| {
            Error::retryable(format!("`sbatch` printed `{}` instead of a job number", output.stdout.trim()))
        })
    }

    /// Returns the jobs of this user, including those that ended within the last minutes (`MinJobAge`).
    pub async fn queue(&self) -> Result<Arc<Vec<SlurmRecord>>> {
        self.queue.get(self.squeue(SQUEUE_WITHOUT_COMMENTS)).await
    }
    /// Like [`SlurmClient::queue`], with the comments of the jobs.
    pub async fn queue_with_comments(&self) -> Result<Arc<Vec<SlurmRecord>>> {
        self.queue_with_comments.get(self.squeue(SQUEUE)).await
    }
    async fn squeue(&self, format: &str) -> Result<Vec<SlurmRecord>> {
        let user = format!("--user={}", self.user);
        let call =
            SlurmCommand::new("squeue", [user.as_str(), "--noheader", "--states=all", &format!("--format={format}")]);
        let output = self.run(call).await.map_err(into_retryable)?;
        Ok(records::from_squeue(&output.stdout))
    }

    /// Queries accounting for jobs and arrays. A query for an array member that has not started returns other members,
    /// so queries name arrays instead of members.
    pub async fn query_accounting(&self, jobs: &BTreeSet<u32>) -> AccountingResult {
        if jobs.is_empty() {
            return AccountingResult::Known(Vec::new());
        }
        let list = jobs.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        self.sacct(&[&format!("--jobs={list}")]).await
    }
    /// Queries accounting for this user's jobs of the last 14 days.
    pub async fn query_recent_accounting(&self) -> AccountingResult {
        self.sacct(&[&format!("--user={}", self.user), SINCE]).await
    }
    async fn sacct(&self, filter: &[&str]) -> AccountingResult {
        let format = format!("--format={SACCT}");
        let common = ["--allocations", "--noheader", "--parsable2", &format];
        match self.tools.call(SlurmCommand::new("sacct", common.iter().chain(filter).copied())).await {
            Ok(output) if output.success => AccountingResult::Known(records::from_sacct(&output.stdout)),
            Ok(output) if output.stderr.contains("accounting storage is disabled") => AccountingResult::Off,
            // There is no such program.
            Err(error) if error.kind == ErrorKind::Invalid => AccountingResult::Off,
            Ok(_) | Err(_) => AccountingResult::Unavailable,
        }
    }

    /// Queries the controller for one job; returns `None` if the query fails or the controller does not know the job.
    pub async fn show_job(&self, id: JobId) -> Option<SlurmRecord> {
        let call = SlurmCommand::new("scontrol", ["--details", "--oneliner", "show", "job", &id.to_string()]);
        let output = self.tools.call(call).await.ok().filter(|output| output.success)?;
        records::from_scontrol(&output.stdout, id)
    }

    /// Ends a job: its processes get SIGTERM, and after Slurm's `KillWait` SIGKILL. A job that is over is no error.
    pub async fn cancel(&self, id: JobId) -> Result<()> {
        self.scancel(SlurmCommand::new("scancel", [id.to_string()])).await
    }
    /// Sends SIGTERM to the attempt itself, which ends what it has started.
    pub async fn terminate(&self, id: JobId) -> Result<()> {
        self.scancel(SlurmCommand::new("scancel", ["--batch", "--signal=TERM", &id.to_string()])).await
    }
    async fn scancel(&self, call: SlurmCommand) -> Result<()> {
        let output = self.tools.call(call.clone()).await?;
        let ended = ["Invalid job id", "already completing or completed", "can not be altered now"];
        if output.success || ended.iter().any(|words| output.stderr.contains(words)) {
            return Ok(());
        }
        Err(into_retryable(refusal(&call, &output)))
    }
}

/// Makes an error retryable: the request is valid, so a failure comes from Slurm's state. Only a missing tool stays
/// invalid.
fn into_retryable(error: Error) -> Error {
    if error.message.starts_with("there is no") { error } else { Error { kind: ErrorKind::Retryable, ..error } }
}
