//! Requests to Slurm, one function each.

use super::ids::JobId;
use super::records::{self, Record, SACCT, SQUEUE, SQUEUE_WITHOUT_COMMENTS};
use super::refusals::refusal;
use super::shared::Shared;
use super::tools::{Answer, Call, Tools};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use trainyard_core::{Error, ErrorKind, Result};

/// Period that accounting searches for a job whose number is unknown.
const SINCE: &str = "--starttime=now-14days";

/// Slurm, as this user sees it.
pub(super) struct Client {
    tools: Arc<dyn Tools>,
    /// Number of this user. Filtered by user, the controller sends the jobs of that user alone; filtered by job ids it
    /// sends the jobs of all users, and fails if the only listed job is gone.
    user: u32,
    queue: Shared<Vec<Record>>,
    queue_with_comments: Shared<Vec<Record>>,
}

/// Result of a query to accounting.
#[derive(Debug)]
pub(super) enum Accounted {
    /// These jobs.
    Known(Vec<Record>),
    /// Accounting is not available on this cluster.
    Off,
    /// Accounting does not answer now.
    Away,
}

impl Client {
    pub fn new(tools: Arc<dyn Tools>) -> Self {
        let user = rustix::process::getuid().as_raw();
        Self { tools, user, queue: Shared::new(), queue_with_comments: Shared::new() }
    }
    async fn ask(&self, call: Call) -> Result<Answer> {
        let answer = self.tools.call(call.clone()).await?;
        if answer.success { Ok(answer) } else { Err(refusal(&call, &answer)) }
    }

    /// Submits a script and returns the number of the job, or of the array.
    pub async fn submit(&self, arguments: Vec<String>, script: Vec<u8>, env: Vec<(OsString, OsString)>) -> Result<u32> {
        let answer = self.ask(Call { program: "sbatch", arguments, input: script, env }).await?;
        // `123`, or `123;cluster`.
        let number = answer.stdout.trim().split(';').next().and_then(|number| number.parse().ok());
        // The job may be there. Asked again, it is found by its comment.
        number.ok_or_else(|| Error::retryable(format!("`sbatch` answered `{}`", answer.stdout.trim())))
    }

    /// The jobs of this user, those included that ended within the last minutes (`MinJobAge`).
    pub async fn queue(&self) -> Result<Arc<Vec<Record>>> {
        self.queue.get(self.squeue(SQUEUE_WITHOUT_COMMENTS)).await
    }
    /// The same with the jobs' comments.
    pub async fn queue_with_comments(&self) -> Result<Arc<Vec<Record>>> {
        self.queue_with_comments.get(self.squeue(SQUEUE)).await
    }
    async fn squeue(&self, format: &str) -> Result<Vec<Record>> {
        let user = format!("--user={}", self.user);
        let call = Call::new("squeue", [user.as_str(), "--noheader", "--states=all", &format!("--format={format}")]);
        let answer = self.ask(call).await.map_err(asked_again)?;
        Ok(records::from_squeue(&answer.stdout))
    }

    /// Queries accounting for jobs and arrays. A query for an array member that has not started returns other members,
    /// so queries name whole arrays.
    pub async fn accounted(&self, jobs: &BTreeSet<u32>) -> Accounted {
        if jobs.is_empty() {
            return Accounted::Known(Vec::new());
        }
        let list = jobs.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        self.sacct(&[&format!("--jobs={list}")]).await
    }
    /// Queries accounting for this user's recent jobs.
    pub async fn accounted_lately(&self) -> Accounted {
        self.sacct(&[&format!("--user={}", self.user), SINCE]).await
    }
    async fn sacct(&self, which: &[&str]) -> Accounted {
        let format = format!("--format={SACCT}");
        let common = ["--allocations", "--noheader", "--parsable2", &format];
        match self.tools.call(Call::new("sacct", common.iter().chain(which).copied())).await {
            Ok(answer) if answer.success => Accounted::Known(records::from_sacct(&answer.stdout)),
            Ok(answer) if answer.stderr.contains("accounting storage is disabled") => Accounted::Off,
            // There is no such program.
            Err(error) if error.kind == ErrorKind::Invalid => Accounted::Off,
            Ok(_) | Err(_) => Accounted::Away,
        }
    }

    /// Queries the controller for one job.
    pub async fn shown(&self, id: JobId) -> Option<Record> {
        let call = Call::new("scontrol", ["--details", "--oneliner", "show", "job", &id.to_string()]);
        let answer = self.tools.call(call).await.ok().filter(|answer| answer.success)?;
        records::from_scontrol(&answer.stdout, id)
    }

    /// Ends a job: its processes get SIGTERM, and after Slurm's `KillWait` SIGKILL. A job that is over is no error.
    pub async fn end(&self, id: JobId) -> Result<()> {
        self.scancel(Call::new("scancel", [id.to_string()])).await
    }
    /// Sends SIGTERM to the attempt itself, which ends what it has started.
    pub async fn ask_to_end(&self, id: JobId) -> Result<()> {
        self.scancel(Call::new("scancel", ["--batch", "--signal=TERM", &id.to_string()])).await
    }
    async fn scancel(&self, call: Call) -> Result<()> {
        let answer = self.tools.call(call.clone()).await?;
        let over = ["Invalid job id", "already completing or completed", "can not be altered now"];
        if answer.success || over.iter().any(|words| answer.stderr.contains(words)) {
            return Ok(());
        }
        Err(asked_again(refusal(&call, &answer)))
    }
}

/// Makes an error retryable: the request is valid, so a failure comes from Slurm's state. Only a missing tool stays
/// invalid.
fn asked_again(error: Error) -> Error {
    if error.message.starts_with("there is no") { error } else { Error { kind: ErrorKind::Retryable, ..error } }
}
