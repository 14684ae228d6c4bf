//! Polls the states of submitted attempts.

use super::SlurmExecutor;
use super::client::AccountingResult;
use super::ids::JobId;
use super::job_state::JobState;
use super::records::{SlurmRecord, find};
use super::verdict::{self, JobHistory, JobVerdict};
use crate::executors::AttemptState;
use std::collections::BTreeSet;
use trainyard_core::Result;

impl SlurmExecutor {
    pub(super) async fn states(&self, ids: &[JobId]) -> Result<Vec<AttemptState>> {
        let queue = self.client.queue().await?;
        let open: BTreeSet<u32> = ids.iter().filter(|id| needs_accounting(&queue, **id)).map(|id| id.job).collect();
        let accounted = self.client.query_accounting(&open).await;
        let mut states = Vec::with_capacity(ids.len());
        for id in ids {
            states.push(self.state(*id, &queue, &accounted).await);
        }
        Ok(states)
    }

    async fn state(&self, id: JobId, queue: &[SlurmRecord], accounted: &AccountingResult) -> AttemptState {
        let log = self.log_of(id);
        let verdict = match self.record(id, queue, accounted).await {
            Some(record) => self.remember(id, |known| verdict::judge(id, &record, known, &log.display().to_string())),
            None => self
                .remember(id, |known| verdict::absent(id, known, !matches!(accounted, AccountingResult::Unavailable))),
        };
        let JobVerdict { state, remove } = verdict;
        if remove && let Err(error) = self.client.cancel(id).await {
            tracing::debug!(job = %id, %error, "cannot remove the job from the queue, trying again at the next poll");
            return AttemptState::Pending { why: Some(format!("Slurm job {id} is being removed from the queue")) };
        }
        if let AttemptState::Ended(ended) = &state {
            self.forget(id);
            // The empty output of a job that did not fail is useless.
            if ended.error.is_none() && std::fs::metadata(&log).is_ok_and(|log| log.len() == 0) {
                let _ = std::fs::remove_file(&log);
            }
        }
        state
    }

    /// Returns Slurm's record of a job: its entry in the queue or, if the queue no longer lists it, in accounting. The
    /// exit of a failed or cancelled job comes from accounting or, for a failed job that accounting lacks, from the
    /// controller.
    async fn record(&self, id: JobId, queue: &[SlurmRecord], accounted: &AccountingResult) -> Option<SlurmRecord> {
        let queued = find(queue, id);
        let known = match accounted {
            AccountingResult::Known(records) => find(records, id),
            AccountingResult::Off | AccountingResult::Unavailable => None,
        };
        let Some(queued) = queued else { return known.cloned() };
        if !wants_detail(&queued.state) {
            return Some(queued.clone());
        }
        // Accounting may lag the queue.
        let detail = known.filter(|record| record.state.is_over()).cloned();
        let detail = match detail {
            None if queued.state == JobState::Failed => self.client.show_job(id).await,
            detail => detail,
        };
        Some(match detail {
            Some(detail) => SlurmRecord { exit: detail.exit, state: detail.state, ..queued.clone() },
            None => queued.clone(),
        })
    }

    pub(super) async fn explanation(&self, id: JobId) -> Result<Option<String>> {
        let queue = self.client.queue().await?;
        let accounted = self.client.query_accounting(&[id.job].into()).await;
        let Some(record) = self.record(id, &queue, &accounted).await else { return Ok(None) };
        let mut text = format!("Slurm job {id}");
        if !record.partition.is_empty() {
            text += &format!(" in partition {}", record.partition);
        }
        if !record.nodes.is_empty() {
            text += &format!(" on {}", record.nodes);
        }
        let mut known = JobHistory::default();
        text += &match verdict::judge(id, &record, &mut known, &self.log_of(id).display().to_string()).state {
            AttemptState::Pending { why: Some(why) } => {
                format!(" waits: {}", why.strip_prefix(&format!("Slurm job {id}: ")).unwrap_or(&why))
            }
            AttemptState::Pending { why: None } => " waits; Slurm gives no reason yet".into(),
            AttemptState::Started => " runs".into(),
            AttemptState::Ended(ended) => match ended.error {
                Some(error) => format!(" is over: {error}"),
                None => " succeeded".into(),
            },
        };
        if record.state == JobState::Pending && !record.start.is_empty() {
            text += &format!("; Slurm expects it to start at {}", record.start);
        }
        Ok(Some(text))
    }
}

fn wants_detail(state: &JobState) -> bool {
    matches!(state, JobState::Failed | JobState::Cancelled { .. })
}

fn needs_accounting(queue: &[SlurmRecord], id: JobId) -> bool {
    find(queue, id).is_none_or(|record| wants_detail(&record.state))
}
