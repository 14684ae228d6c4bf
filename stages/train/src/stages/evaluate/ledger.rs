//! Takes the episodes of an evaluation as they end: result rows in memory, rollouts straight to their file.
//!
//! Every number leads back to the rollouts behind it, so all of them are kept unless an option limits them, and they
//! may be more than memory holds.

use crate::results::ResultRow;
use trainyard_api::StageContext;
use trainyard_core::Result;
use trainyard_tables::{RowWriter, Trajectory};

/// Takes every episode as it ends, model by model.
pub struct Ledger<'a> {
    /// The context of the stage, for progress and cancellation.
    pub context: &'a StageContext,
    rollouts: RowWriter<Trajectory>,
    /// Rollouts of one model that are kept.
    most: usize,
    /// Rollouts of the present model that may still be kept.
    room: usize,
    /// Of each model so far.
    rows: Vec<Vec<ResultRow>>,
    done: u64,
    total: u64,
}

impl<'a> Ledger<'a> {
    /// `most` = rollouts to keep of one model, all if none is given; `total` = episodes of all models.
    pub fn create(context: &'a StageContext, most: Option<usize>, total: u64) -> Result<Self> {
        let rollouts = RowWriter::create(&context.output_parquet("trajectories")?)?;
        let most = most.unwrap_or(usize::MAX);
        Ok(Self { context, rollouts, most, room: most, rows: Vec::new(), done: 0, total })
    }

    /// What follows is of another model.
    pub fn next_model(&mut self) {
        self.rows.push(Vec::new());
        self.room = self.most;
    }

    /// Takes finished episodes of the present model: a row and a rollout of each, in one order. A row whose rollout is
    /// kept names it.
    pub fn take(&mut self, mut rows: Vec<ResultRow>, mut rollouts: Vec<Trajectory>) -> Result<()> {
        self.done += rows.len() as u64;
        rollouts.truncate(self.room);
        self.room -= rollouts.len();
        for (row, rollout) in rows.iter_mut().zip(&rollouts) {
            row.rollout = Some(rollout.id.clone());
        }
        self.rollouts.write(&rollouts)?;
        if let Some(present) = self.rows.last_mut() {
            present.append(&mut rows);
            self.context.progress(
                self.done,
                self.total,
                "episodes",
                running_accuracy(present).map(|a| ("accuracy", a)),
            );
        }
        Ok(())
    }

    /// The rows of each model, in order.
    pub fn finish(self) -> Result<Vec<Vec<ResultRow>>> {
        self.rollouts.finish()?;
        Ok(self.rows)
    }
}

/// Share of right ones among the greedy rows so far.
fn running_accuracy(rows: &[ResultRow]) -> Option<f64> {
    let greedy: Vec<bool> = rows.iter().filter(|r| r.sample < 0).filter_map(|r| r.correct).collect();
    (!greedy.is_empty()).then(|| greedy.iter().filter(|c| **c).count() as f64 / greedy.len() as f64)
}
