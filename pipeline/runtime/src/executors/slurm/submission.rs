//! Submits attempts, and finds those that were submitted before.

use super::client::AccountingResult;
use super::comment;
use super::ids::JobId;
use super::job_state::JobState;
use super::records::{SlurmRecord, find};
use super::request::{self, JobBatch};
use super::{SlurmExecutor, handle, script};
use crate::executors::{AttemptTask, Handle};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Error, Result};

impl SlurmExecutor {
    /// The handles of tasks by their keys, or why they were not submitted.
    pub(super) async fn submit_all(&self, tasks: &[AttemptTask]) -> Result<BTreeMap<String, Result<Handle>>> {
        let queue = self.client.queue_with_comments().await?;
        let mut answers = BTreeMap::new();
        let (mut keys, mut fresh): (BTreeSet<String>, Vec<&AttemptTask>) = Default::default();
        for task in tasks {
            let key = task.key();
            if let Some(id) = by_key(&queue, &key) {
                tracing::debug!(job = %id, key, "was submitted before");
                answers.insert(key, Ok(handle(id)));
            } else if keys.insert(key) {
                fresh.push(task);
            }
        }
        if !fresh.is_empty() {
            self.prepare_log_folder().await?;
        }
        for batch in request::batches(&fresh) {
            self.submit_batch(&batch, &mut answers).await;
        }
        Ok(answers)
    }

    async fn submit_batch(&self, batch: &JobBatch<'_>, answers: &mut BTreeMap<String, Result<Handle>>) {
        match self.submit_one(batch).await {
            // Arrays may be switched off.
            Err(error) if batch.tasks.len() > 1 && error.message.contains("Invalid job array") => {
                for single in batch.singly() {
                    let answer = self.submit_one(&single).await;
                    answers.extend(answer_each(&single, &answer));
                }
            }
            answer => answers.extend(answer_each(batch, &answer)),
        }
    }

    async fn submit_one(&self, batch: &JobBatch<'_>) -> Result<u32> {
        let urls: Vec<String> = batch.tasks.iter().map(|task| task.url()).collect();
        let text = script::script(&self.options, &self.launcher, batch.shape, &batch.name(), &urls);
        let arguments = batch.arguments(&self.options, &self.log_folder);
        let job = self.client.submit(arguments, text, self.launcher.env.clone()).await?;
        tracing::debug!(job, attempts = urls.len(), "submitted");
        Ok(job)
    }

    /// Slurm does not make the folder, and a job without it fails.
    async fn prepare_log_folder(&self) -> Result<()> {
        if !self.options.shared_filesystem {
            return Ok(());
        }
        let folder = &self.log_folder;
        tokio::fs::create_dir_all(folder).await.map_err(|e| {
            Error::invalid(format!("cannot make the folder {} for the output of jobs: {e}", folder.display()))
                .help("`log_folder` of the pool's options names another one")
        })
    }

    pub(super) async fn find_submitted(&self, task: &AttemptTask, handle: Option<&Handle>) -> Result<Option<JobId>> {
        let key = task.key();
        let queue = self.client.queue_with_comments().await?;
        let Some(id) = handle.and_then(|handle| JobId::parse(&handle.0)) else {
            if let Some(id) = by_key(&queue, &key) {
                return Ok(Some(id));
            }
            return match self.client.query_recent_accounting().await {
                AccountingResult::Known(records) => Ok(by_key(&records, &key)),
                AccountingResult::Off => Ok(None),
                AccountingResult::Unavailable => Err(Error::retryable("Slurm's accounting does not answer (`sacct`)")),
            };
        };
        if let Some(record) = find(&queue, id) {
            return Ok(Some(id).filter(|_| may_be(record, id, &key)));
        }
        match self.client.query_accounting(&[id.job].into()).await {
            AccountingResult::Known(records) => Ok(find(&records, id).filter(|r| may_be(r, id, &key)).map(|_| id)),
            AccountingResult::Off => Ok(None),
            AccountingResult::Unavailable => Err(Error::retryable("Slurm's accounting does not answer (`sacct`)")),
        }
    }
}

/// One answer for each task of a batch, by its key.
fn answer_each(batch: &JobBatch<'_>, answer: &Result<u32>) -> Vec<(String, Result<Handle>)> {
    let is_array = batch.tasks.len() > 1;
    let members = (0u32..).zip(&batch.tasks);
    let id = |at, job| JobId { job, member: is_array.then_some(at) };
    members.map(|(at, task)| (task.key(), answer.clone().map(|job| handle(id(at, job))))).collect()
}

/// The job whose comment has this key. What Slurm refused at submission is listed for a while, too; it is no job.
fn by_key(records: &[SlurmRecord], key: &str) -> Option<JobId> {
    let refused = |r: &SlurmRecord| r.state == JobState::Failed && r.reason == "BadConstraints";
    records
        .iter()
        .filter(|record| !refused(record))
        .find_map(|record| comment::member(record.jobs.job, &record.comment, key).filter(|id| record.jobs.names(*id)))
}

/// Whether a record may be that of the attempt with this key. Numbers of jobs are used again one day; comments are not
/// always kept by accounting.
fn may_be(record: &SlurmRecord, id: JobId, key: &str) -> bool {
    record.comment.is_empty() || comment::member(id.job, &record.comment, key) == Some(id)
}
