//! Follows an open run: its journal, the progress of its running stages, and its selected stage.

use super::runs::view_line;
use super::stage::StageTail;
use crate::output::metrics::{named, row_text};
use crate::output::runs::interrupted;
use crate::top::model::{RunModel, StageLine};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{Clock, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_runtime::progress::{read_progress_of, reporting_attempts};
use trainyard_runtime::resume;
use trainyard_store::{JournalReader, Store};
use trainyard_views::graph::GraphView;
use trainyard_views::status::is_live;

/// Progress records read in one turn.
const PROGRESS_PER_TURN: usize = 32;
/// Turns between two checks whether the run was removed.
const REMOVAL_EVERY: u64 = 10;

/// Open run, kept between turns.
pub struct RunTail {
    pub run: RunId,
    view: RunView,
    journal: JournalReader,
    turns: u64,
    is_removed: bool,
    /// Whether the lines were made for a live run; `None` before the first ones.
    was_live: Option<bool>,
    graph: Arc<GraphView>,
    stages: Arc<Vec<StageLine>>,
    progress: BTreeMap<StageKey, ProgressRecord>,
    /// Position among the running stages, of which a turn reads some.
    next_progress: usize,
    stage: Option<StageTail>,
}

impl RunTail {
    /// Reads a run's journal. Errors: invalid (no such run), data (damaged), those of the store.
    pub async fn open(store: &Store, run: &RunId) -> Result<Self> {
        let (view, journal) = resume::open_run(store, run).await?;
        Ok(Self {
            run: run.clone(),
            view,
            journal,
            turns: 0,
            is_removed: false,
            was_live: None,
            graph: Arc::default(),
            stages: Arc::default(),
            progress: BTreeMap::new(),
            next_progress: 0,
            stage: None,
        })
    }

    /// Reads what is new.
    pub async fn turn(&mut self, store: &Store, clock: &dyn Clock, selected: Option<&StageKey>) -> Result<RunModel> {
        if self.turns % REMOVAL_EVERY == REMOVAL_EVERY - 1 {
            self.is_removed = !store.list_runs().await?.contains(&self.run);
        }
        self.turns += 1;
        let has_news = !self.is_removed && resume::follow(&mut self.journal, &mut self.view).await?;
        let is_live = is_live(&self.view, clock);
        if has_news || self.was_live != Some(is_live) {
            self.graph = Arc::new(GraphView::of(&self.view));
            self.stages = Arc::new(self.view.stages.iter().map(|stage| stage_line(stage, is_live)).collect());
            self.was_live = Some(is_live);
        }
        self.read_progress(store, selected).await?;
        let detail = match selected.and_then(|key| self.view.stage(key)) {
            Some(stage) => {
                let tail = self.stage.take().filter(|tail| tail.key() == stage.key());
                let mut tail = tail.unwrap_or_else(|| StageTail::new(stage.key()));
                let read = tail.turn(store, &self.run, stage).await;
                let mut detail = tail.detail(&self.view, stage, is_live);
                self.stage = Some(tail);
                read?;
                detail.explanation.extend((!is_live).then(|| interrupted(&self.run)));
                Some(detail)
            }
            None => None,
        };
        Ok(RunModel {
            line: view_line(&self.run, &self.view, clock),
            is_removed: self.is_removed,
            graph: self.graph.clone(),
            stages: self.stages.clone(),
            progress: self.progress.clone(),
            detail,
        })
    }

    /// Reads the progress of the selected stage and of the next running stages.
    async fn read_progress(&mut self, store: &Store, selected: Option<&StageKey>) -> Result<()> {
        let open = reporting_attempts(&self.view);
        self.progress.retain(|key, _| self.view.stage(key).is_some_and(|s| s.status == StageStatus::Running));
        let start = if self.next_progress < open.len() { self.next_progress } else { 0 };
        self.next_progress = start + PROGRESS_PER_TURN;
        let chosen = open
            .iter()
            .enumerate()
            .filter(|(at, (key, _))| (start..start + PROGRESS_PER_TURN).contains(at) || selected == Some(key));
        let chosen = chosen.map(|(_, attempt)| attempt.clone()).collect();
        self.progress.extend(read_progress_of(store, &self.run, chosen).await?);
        Ok(())
    }
}

fn stage_line(stage: &StageView, is_live: bool) -> StageLine {
    let main = stage.main_metric.as_ref().and_then(|name| named(&stage.metrics, name));
    StageLine {
        key: stage.key().clone(),
        status: stage.shown_status(is_live),
        took: stage.seconds().map(|seconds| (seconds * 1_000.0) as i64),
        metric: main.or_else(|| stage.comparisons.first().map(row_text)),
    }
}
