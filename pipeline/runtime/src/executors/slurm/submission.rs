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
    /// Submits the tasks that Slurm does not have yet. Returns the handle, or the reason of the refusal, of every task
    /// by its key.
    pub(super) async fn submit_all(&self, tasks: &[AttemptTask]) -> Result<BTreeMap<String, Result<Handle>>> {
        let queue = self.client.queue_with_comments().await?;
        let mut results = BTreeMap::new();
        let (mut keys, mut new_tasks): (BTreeSet<String>, Vec<&AttemptTask>) = Default::default();
        for task in tasks {
            let key = task.key();
            if let Some(id) = by_key(&queue, &key) {
                tracing::debug!(job = %id, key, "was submitted before");
                results.insert(key, Ok(handle(id)));
            } else if keys.insert(key) {
                new_tasks.push(task);
            }
        }
        if !new_tasks.is_empty() {
            self.prepare_log_folder().await?;
        }
        for batch in request::batches(&new_tasks) {
            self.submit_batch(&batch, &mut results).await;
        }
        Ok(results)
    }

    async fn submit_batch(&self, batch: &JobBatch<'_>, results: &mut BTreeMap<String, Result<Handle>>) {
        match self.submit_one(batch).await {
            // Arrays may be switched off.
            Err(error) if batch.tasks.len() > 1 && error.message.contains("Invalid job array") => {
                for single in batch.singly() {
                    let result = self.submit_one(&single).await;
                    results.extend(result_of_each(&single, &result));
                }
            }
            result => results.extend(result_of_each(batch, &result)),
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

    /// Creates the folder for the output of jobs if the nodes share files: Slurm does not create it, and a job without
    /// it fails.
    async fn prepare_log_folder(&self) -> Result<()> {
        if !self.options.shared_filesystem {
            return Ok(());
        }
        let folder = &self.log_folder;
        tokio::fs::create_dir_all(folder).await.map_err(|e| {
            Error::invalid(format!("cannot create the folder {} for the output of jobs: {e}", folder.display()))
                .help("set another one with the pool's option `log_folder`")
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
                AccountingResult::Unavailable => {
                    Err(Error::retryable("the accounting of Slurm is unavailable (`sacct`)"))
                }
            };
        };
        if let Some(record) = find(&queue, id) {
            return Ok(Some(id).filter(|_| may_be(record, id, &key)));
        }
        match self.client.query_accounting(&[id.job].into()).await {
            AccountingResult::Known(records) => Ok(find(&records, id).filter(|r| may_be(r, id, &key)).map(|_| id)),
            AccountingResult::Off => Ok(None),
            AccountingResult::Unavailable => Err(Error::retryable("the accounting of Slurm is unavailable (`sacct`)")),
        }
    }
}

/// Returns one result for each task of a batch, by its key.
fn result_of_each(batch: &JobBatch<'_>, result: &Result<u32>) -> Vec<(String, Result<Handle>)> {
    let is_array = batch.tasks.len() > 1;
    let members = (0u32..).zip(&batch.tasks);
    let id = |at, job| JobId { job, member: is_array.then_some(at) };
    members.map(|(at, task)| (task.key(), result.clone().map(|job| handle(id(at, job))))).collect()
}

/// Returns the job whose comment has this key. Submissions that Slurm refused are listed for a while and skipped.
fn by_key(records: &[SlurmRecord], key: &str) -> Option<JobId> {
    let refused = |r: &SlurmRecord| r.state == JobState::Failed && r.reason == "BadConstraints";
    records
        .iter()
        .filter(|record| !refused(record))
        .find_map(|record| comment::member(record.jobs.job, &record.comment, key).filter(|id| record.jobs.names(*id)))
}

/// Returns whether a record may be that of the attempt with this key. Job numbers are reused eventually; comments are
/// not always kept by accounting.
fn may_be(record: &SlurmRecord, id: JobId, key: &str) -> bool {
    record.comment.is_empty() || comment::member(id.job, &record.comment, key) == Some(id)
}
