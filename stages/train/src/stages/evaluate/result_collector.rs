//! Collects finished episodes: result rows stay in memory, and rollouts are written to their file at once.
//!
//! Every number can be traced to its rollouts, so all of them are kept unless an option limits them, and they may
//! exceed memory. The episodes of every call are also written as a shard. A resume point contains the shards so far; a
//! resumed stage enters them again in order, so its outputs have the same bytes.

use crate::programs::ProgramTotals;
use crate::results::{ResultRow, read_results, write_results};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use trainyard_api::StageContext;
use trainyard_api::checkpoint;
use trainyard_core::Result;
use trainyard_core::error::io_error;
use trainyard_tables::{TableRowWriter, Trajectory, read_trajectories, write_trajectories};

/// State of a resume point, in addition to the shards.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CollectorState {
    /// Calls of [`ResultCollector::take`], each with a shard.
    shards: usize,
    /// Program counts of each shard.
    #[serde(default)]
    programs: Vec<ProgramTotals>,
}

#[derive(Debug, Default)]
pub struct ModelResults {
    /// Row of each episode, in the order in which the episodes were taken.
    pub rows: Vec<ResultRow>,
    /// Counts of harness programs.
    pub programs: ProgramTotals,
}

/// Collector of finished episodes, model by model.
pub struct ResultCollector<'a> {
    /// Context of the stage, for progress and cancellation.
    pub context: &'a StageContext,
    rollouts: TableRowWriter<Trajectory>,
    /// Limit of rollouts kept per model.
    rollout_limit: usize,
    /// Number of rollouts of the current model that may still be kept.
    rollouts_left: usize,
    /// Episodes of each model so far.
    results: Vec<ModelResults>,
    /// Program counts of each shard.
    programs: Vec<ProgramTotals>,
    done: u64,
    total: u64,
    /// Folder of the shards of all calls, for resume points.
    shards: PathBuf,
    written: usize,
    /// Number of shards of an earlier attempt. The shards from `written` on are not entered yet.
    restored: usize,
    /// Number of episodes between resume points; 0 = no resume points.
    every: u64,
    /// Number of episodes at the newest resume point.
    saved: u64,
}

impl<'a> ResultCollector<'a> {
    /// Creates the collector from the newest resume point, if any. `rollout_limit` = rollouts to keep of one model,
    /// `None` = all; `total` = episodes of all models; `every` = episodes between resume points.
    pub fn create(context: &'a StageContext, rollout_limit: Option<usize>, total: u64, every: u64) -> Result<Self> {
        let rollouts = TableRowWriter::create(&context.output_parquet("trajectories")?)?;
        let rollout_limit = rollout_limit.unwrap_or(usize::MAX);
        let shards = context.scratch.join("shards");
        std::fs::create_dir_all(&shards).map_err(|e| io_error(&shards, &e))?;
        let (mut restored, mut programs) = (0, Vec::new());
        if let Some((state, folder)) = checkpoint::latest::<CollectorState>(context)? {
            for name in names(0..state.shards) {
                link(&folder.join(&name), &shards.join(&name))?;
            }
            (restored, programs) = (state.shards, state.programs);
            programs.resize(restored, ProgramTotals::default());
        }
        Ok(Self {
            context,
            rollouts,
            rollout_limit,
            rollouts_left: rollout_limit,
            results: Vec::new(),
            programs,
            done: 0,
            total,
            shards,
            written: 0,
            restored,
            every,
            saved: 0,
        })
    }

    /// Enters the episodes of the next call from the resume point. Returns false if that call has to be run.
    pub fn resume(&mut self) -> Result<bool> {
        if self.written == self.restored {
            return Ok(false);
        }
        let [rows, rollouts] = shard(self.written).map(|name| self.shards.join(name));
        let programs = self.programs.get(self.written).copied().unwrap_or_default();
        self.written += 1;
        self.enter(read_results(&rows)?, read_trajectories(&rollouts)?, &programs)?;
        self.saved = self.done;
        Ok(true)
    }

    /// Begins the next model.
    pub fn next_model(&mut self) {
        self.results.push(ModelResults::default());
        self.rollouts_left = self.rollout_limit;
    }

    /// Takes the finished episodes of one call of the current model: rows and rollouts in the same order, and their
    /// program counts. Sets the rollout id in the rows of kept rollouts, writes the shard, and saves a resume point
    /// when one is due.
    pub fn take(
        &mut self,
        mut rows: Vec<ResultRow>,
        mut rollouts: Vec<Trajectory>,
        programs: ProgramTotals,
    ) -> Result<()> {
        rollouts.truncate(self.rollouts_left);
        for (row, rollout) in rows.iter_mut().zip(&rollouts) {
            row.rollout = Some(rollout.id.clone());
        }
        if self.every > 0 {
            let [row_file, rollout_file] = shard(self.written).map(|name| self.shards.join(name));
            write_results(&row_file, &rows)?;
            write_trajectories(&rollout_file, &rollouts)?;
        }
        self.programs.truncate(self.written);
        self.programs.push(programs);
        self.written += 1;
        self.restored = self.written;
        self.enter(rows, rollouts, &programs)?;
        let due = self.every > 0 && self.done - self.saved >= self.every && self.done < self.total;
        if due { self.save() } else { Ok(()) }
    }

    fn save(&mut self) -> Result<()> {
        self.saved = self.done;
        let state = CollectorState { shards: self.written, programs: self.programs.clone() };
        checkpoint::save(self.context, self.done, &state, |folder| {
            names(0..self.written).try_for_each(|name| link(&self.shards.join(&name), &folder.join(&name)))
        })
    }

    fn enter(&mut self, mut rows: Vec<ResultRow>, rollouts: Vec<Trajectory>, programs: &ProgramTotals) -> Result<()> {
        self.done += rows.len() as u64;
        self.rollouts_left -= rollouts.len();
        self.rollouts.write(&rollouts)?;
        if let Some(present) = self.results.last_mut() {
            present.rows.append(&mut rows);
            present.programs.add(programs);
            self.context.progress(
                self.done,
                self.total,
                "episodes",
                running_accuracy(&present.rows).map(|a| ("accuracy", a)),
            );
        }
        Ok(())
    }

    /// Returns the episodes of each model, in order.
    pub fn finish(self) -> Result<Vec<ModelResults>> {
        self.rollouts.finish()?;
        Ok(self.results)
    }
}

/// Returns the files of a shard: rows, rollouts.
fn shard(number: usize) -> [String; 2] {
    [format!("rows-{number:06}.parquet"), format!("rollouts-{number:06}.parquet")]
}

fn names(shards: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    shards.flat_map(shard)
}

/// Links a file under another name, or copies it if the file system has no links.
fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() || std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    std::fs::copy(from, to).map(|_| ()).map_err(|e| io_error(to, &e))
}

/// Returns the share of correct answers among the greedy rows so far, or `None` without such rows.
fn running_accuracy(rows: &[ResultRow]) -> Option<f64> {
    let greedy: Vec<bool> = rows.iter().filter(|r| r.sample < 0).filter_map(|r| r.correct).collect();
    (!greedy.is_empty()).then(|| greedy.iter().filter(|c| **c).count() as f64 / greedy.len() as f64)
}
