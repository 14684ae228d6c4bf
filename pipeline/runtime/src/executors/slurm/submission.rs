//! Submits attempts, and finds those that were submitted before.

use super::client::Accounted;
use super::comment;
use super::ids::JobId;
use super::job_state::JobState;
use super::records::{Record, find};
use super::request::{self, Batch};
use super::{Slurm, handle, script};
use crate::executors::{Handle, Task};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Error, Result};

impl Slurm {
    /// The handles of tasks by their keys, or why they were not submitted.
    pub(super) async fn submitted(&self, tasks: &[Task]) -> Result<BTreeMap<String, Result<Handle>>> {
        let queue = self.client.queue_with_comments().await?;
        let mut answers = BTreeMap::new();
        let (mut keys, mut fresh): (BTreeSet<String>, Vec<&Task>) = Default::default();
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

    async fn submit_batch(&self, batch: &Batch<'_>, answers: &mut BTreeMap<String, Result<Handle>>) {
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

    async fn submit_one(&self, batch: &Batch<'_>) -> Result<u32> {
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

    pub(super) async fn find_again(&self, task: &Task, handle: Option<&Handle>) -> Result<Option<JobId>> {
        let key = task.key();
        let queue = self.client.queue_with_comments().await?;
        let Some(id) = handle.and_then(|handle| JobId::parse(&handle.0)) else {
            if let Some(id) = by_key(&queue, &key) {
                return Ok(Some(id));
            }
            return match self.client.accounted_lately().await {
                Accounted::Known(records) => Ok(by_key(&records, &key)),
                Accounted::Off => Ok(None),
                Accounted::Away => Err(Error::retryable("Slurm's accounting does not answer (`sacct`)")),
            };
        };
        if let Some(record) = find(&queue, id) {
            return Ok(Some(id).filter(|_| may_be(record, id, &key)));
        }
        match self.client.accounted(&[id.job].into()).await {
            Accounted::Known(records) => Ok(find(&records, id).filter(|r| may_be(r, id, &key)).map(|_| id)),
            Accounted::Off => Ok(None),
            Accounted::Away => Err(Error::retryable("Slurm's accounting does not answer (`sacct`)")),
        }
    }
}

/// One answer for each task of a batch, by its key.
fn answer_each(batch: &Batch<'_>, answer: &Result<u32>) -> Vec<(String, Result<Handle>)> {
    let is_array = batch.tasks.len() > 1;
    let members = (0u32..).zip(&batch.tasks);
    let id = |at, job| JobId { job, member: is_array.then_some(at) };
    members.map(|(at, task)| (task.key(), answer.clone().map(|job| handle(id(at, job))))).collect()
}

/// The job whose comment has this key. What Slurm refused at submission is listed for a while, too; it is no job.
fn by_key(records: &[Record], key: &str) -> Option<JobId> {
    let refused = |r: &Record| r.state == JobState::Failed && r.reason == "BadConstraints";
    records
        .iter()
        .filter(|record| !refused(record))
        .find_map(|record| comment::member(record.jobs.job, &record.comment, key).filter(|id| record.jobs.names(*id)))
}

/// Whether a record may be that of the attempt with this key. Numbers of jobs are used again one day; comments are not
/// always kept by accounting.
fn may_be(record: &Record, id: JobId, key: &str) -> bool {
    record.comment.is_empty() || comment::member(id.job, &record.comment, key) == Some(id)
}
