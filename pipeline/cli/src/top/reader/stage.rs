//! Follows the selected stage: the log of its last attempt, and its curves over all attempts.

use super::streams::{CHUNKS_PER_TURN, LogTail};
use crate::top::model::StageDetail;
use std::sync::Arc;
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_engine::pool::IN_PROCESS;
use trainyard_store::Store;
use trainyard_views::curve_tail::{CurveTail, Curves};

/// Selected stage, kept between turns.
pub struct StageTail {
    key: StageKey,
    log: Option<LogTail>,
    tail: CurveTail,
    curves: Arc<Curves>,
}

impl StageTail {
    pub fn new(key: &StageKey) -> Self {
        Self { key: key.clone(), log: None, tail: CurveTail::default(), curves: Arc::default() }
    }
    pub fn key(&self) -> &StageKey {
        &self.key
    }

    /// Reads new chunks of the log and the curves. Attempts in the engine's process have neither.
    pub async fn turn(&mut self, store: &Store, run: &RunId, stage: &StageView) -> Result<()> {
        let attempts = stage.attempts.iter().filter(|attempt| attempt.pool != IN_PROCESS);
        let attempts: Vec<AttemptNumber> = attempts.map(|attempt| attempt.number).collect();
        let Some(last) = attempts.last() else { return Ok(()) };
        let log = match self.log.take().filter(|log| log.attempt == *last) {
            Some(log) => log,
            None => LogTail::open(store, run, &self.key, *last).await?,
        };
        self.log.insert(log).turn(store, run, &self.key).await?;
        self.curves = self.tail.turn(store, run, &self.key, &attempts, CHUNKS_PER_TURN).await?;
        Ok(())
    }

    /// Describes the stage.
    pub fn detail(&self, view: &RunView, stage: &StageView, is_live: bool) -> StageDetail {
        let needed = stage.after.iter().filter_map(|key| view.stage(key)).filter(|stage| !stage.status.is_final());
        StageDetail {
            stage: stage.clone(),
            status: stage.shown_status(is_live),
            needs: needed.map(|stage| format!("{} ({})", stage.key(), stage.shown_status(is_live))).collect(),
            explanation: view.explain(stage.key()),
            log: self.log.as_ref().map(LogTail::lines).unwrap_or_default(),
            curves: self.curves.clone(),
        }
    }
}
