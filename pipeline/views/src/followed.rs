//! Remembers the runs that were shown last, so that a request reads only the batches and chunks that are new.

use crate::curve_tail::{CurveTail, Curves};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::{AttemptNumber, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_engine::pool::IN_PROCESS;
use trainyard_runtime::resume;
use trainyard_store::{JournalReader, Store};

/// Maximum number of remembered runs.
const MAX_RUNS: usize = 8;
/// Maximum number of stages of a run whose curves are remembered.
const MAX_CURVES: usize = 64;

/// Runs that were shown last, with their folded journals and curves.
#[derive(Default)]
pub struct FollowedRuns {
    /// Runs, the last used one at the end.
    runs: Mutex<VecDeque<(RunId, Slot)>>,
}

/// Keeps a run among the remembered ones.
pub struct RunHold {
    _slot: Slot,
}

type Slot = Arc<tokio::sync::Mutex<Option<FollowedRun>>>;

/// State of a run, and the number of batches of its journal.
#[derive(Debug, Clone)]
pub struct NumberedView {
    /// State of the run.
    pub view: Arc<RunView>,
    /// Number of folded batches.
    pub position: u64,
}

struct FollowedRun {
    view: Arc<RunView>,
    journal: JournalReader,
    curves: HashMap<StageKey, CurveTail>,
}

impl FollowedRuns {
    /// Returns whether a run with this id was shown lately.
    pub fn knows(&self, run: &RunId) -> bool {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(known, _)| known == run)
    }

    /// Returns the present state of a run. Errors: invalid (no such run), data (damaged), those of the store.
    pub async fn view(&self, store: &Store, run: &RunId) -> Result<Arc<RunView>> {
        Ok(self.numbered(store, run).await?.view)
    }

    /// Returns the present state of a run with the number of its batches. Errors: those of [`FollowedRuns::view`].
    pub async fn numbered(&self, store: &Store, run: &RunId) -> Result<NumberedView> {
        let slot = self.slot(run);
        let mut slot = slot.lock().await;
        let followed = current(&mut slot, store, run).await?;
        Ok(NumberedView { view: followed.view.clone(), position: followed.journal.position() })
    }

    /// Returns the curves of a stage over all its attempts. Errors: those of [`FollowedRuns::view`].
    pub async fn curves(&self, store: &Store, run: &RunId, stage: &StageView) -> Result<Arc<Curves>> {
        let attempts = attempts_with_streams(stage);
        if attempts.is_empty() {
            return Ok(Arc::default());
        }
        let slot = self.slot(run);
        let mut slot = slot.lock().await;
        if slot.is_none() {
            current(&mut slot, store, run).await?;
        }
        let Some(followed) = slot.as_mut() else { return Ok(Arc::default()) };
        if followed.curves.len() >= MAX_CURVES && !followed.curves.contains_key(stage.key()) {
            followed.curves.clear();
        }
        let tail = followed.curves.entry(stage.key().clone()).or_default();
        tail.turn(store, run, stage.key(), &attempts, usize::MAX).await
    }

    /// Keeps a run among the remembered ones until the returned value is dropped.
    pub fn hold(&self, run: &RunId) -> RunHold {
        RunHold { _slot: self.slot(run) }
    }

    /// Returns the place of a run. Of the runs that nothing holds, the one that was not used for the longest time is
    /// forgotten.
    fn slot(&self, run: &RunId) -> Slot {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let known = runs.iter().position(|(known, _)| known == run).and_then(|at| runs.remove(at));
        let (run, slot) = known.unwrap_or_else(|| (run.clone(), Slot::default()));
        runs.push_back((run, slot.clone()));
        if runs.len() > MAX_RUNS {
            let free = runs.iter().position(|(_, slot)| Arc::strong_count(slot) == 1);
            drop(free.and_then(|at| runs.remove(at)));
        }
        slot
    }
}

/// Returns the attempts of a stage that have a log and curves: those outside of the engine's process.
pub fn attempts_with_streams(stage: &StageView) -> Vec<AttemptNumber> {
    stage.attempts.iter().filter(|attempt| attempt.pool != IN_PROCESS).map(|attempt| attempt.number).collect()
}

/// Reads what is new. After an error the run is read from its beginning the next time, since the reader may have moved
/// past a batch that was not folded.
async fn current<'a>(slot: &'a mut Option<FollowedRun>, store: &Store, run: &RunId) -> Result<&'a mut FollowedRun> {
    let followed = match slot.take() {
        Some(mut followed) => {
            followed.follow().await?;
            followed
        }
        None => {
            let (view, journal) = resume::open_run(store, run).await?;
            FollowedRun { view: Arc::new(view), journal, curves: HashMap::new() }
        }
    };
    Ok(slot.insert(followed))
}

impl FollowedRun {
    /// Folds new batches. The view is copied only if a request still uses it.
    async fn follow(&mut self) -> Result<()> {
        let Some(batch) = self.journal.next().await? else { return Ok(()) };
        let view = Arc::make_mut(&mut self.view);
        view.apply_values(&batch.events)?;
        resume::follow(&mut self.journal, view).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::event::{Event, EventRecord};
    use trainyard_store::{JournalWriter, StoreOptions};

    fn opened(epoch: u64) -> serde_json::Value {
        let event = Event::WriterOpened { epoch, writer: "w".into() };
        serde_json::to_value(EventRecord { at: 1, event }).unwrap()
    }

    #[tokio::test]
    async fn view_follows_the_journal() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let run = RunId("20261121-041530-02a0001".into());
        let runs = FollowedRuns::default();
        assert!(runs.view(&store, &run).await.unwrap_err().message.contains("there is no run"));
        let (mut writer, _) = JournalWriter::open(&store, &run, "w", opened).await.unwrap();
        let first = runs.numbered(&store, &run).await.unwrap();
        assert_eq!((first.position, first.view.stages.len()), (1, 0));
        let skipped = |name: &str| EventRecord {
            at: 5,
            event: Event::Skipped { stage: StageKey(name.into()), why: "its condition is false".into() },
        };
        writer.append(&[skipped("a")]).await.unwrap();
        writer.append(&[skipped("b")]).await.unwrap();
        let second = runs.numbered(&store, &run).await.unwrap();
        assert_eq!((second.position, second.view.stages.len()), (3, 2));
        assert_eq!(first.view.stages.len(), 0, "a view in use does not change");
        assert_eq!(runs.numbered(&store, &run).await.unwrap().position, 3);
    }

    #[test]
    fn only_the_last_used_runs_are_remembered() {
        let runs = FollowedRuns::default();
        let name = |n: usize| RunId(format!("r{n}"));
        let hold = runs.hold(&name(0));
        (1..MAX_RUNS).for_each(|n| drop(runs.slot(&name(n))));
        drop(runs.slot(&name(1)));
        drop(runs.slot(&RunId("new".into())));
        let known = [0, 1, 2, 3].map(|n| runs.knows(&name(n)));
        assert_eq!(known, [true, true, false, true], "r0 is held, and r1 was used after r2");
        drop(hold);
        drop(runs.slot(&RunId("newer".into())));
        assert!(!runs.knows(&name(0)) && runs.knows(&name(3)));
    }
}
