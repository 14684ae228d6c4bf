//! Follows a run for its page: the parts of its state that change while it runs, and which stages changed since when.

use crate::followed::{FollowedRuns, RunHold};
use crate::status::{elapsed_millis, is_live, stages_over, state};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{AttemptNumber, Clock, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_runtime::progress::{read_progress_of, reporting_attempts};
use trainyard_store::{AttemptStream, Store};

/// Turns between two reads of progress.
const PROGRESS_EVERY: u64 = 2;
/// Running stages whose progress is read in one turn.
const PROGRESS_PER_TURN: usize = 32;
/// Turns between two checks of logs.
const LOGS_EVERY: u64 = 4;
/// Running stages whose logs are checked.
const MAX_LOGS: usize = 8;
/// Maximum chunks by which the position of a log moves in one check.
const LOG_CHUNKS: u32 = 64;
/// Milliseconds after the end of a stage in which a new subscriber gets its state, since its page may be older.
const RECENT: i64 = 60_000;
/// Maximum number of stages in one message.
const MAX_STAGES: usize = 500;

/// Changing parts of a run's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveRun {
    /// Displayed status.
    pub status: &'static str,
    /// Whether the run has ended.
    pub is_over: bool,
    /// Milliseconds from the creation of the run to now, or to its end.
    pub elapsed_millis: i64,
    /// Number of stages that are over.
    pub over: usize,
    /// Number of all stages.
    pub all: usize,
    /// Time of the last record, in Unix milliseconds.
    pub last_seen: i64,
    /// Stages in plan order.
    pub stages: Vec<LiveStage>,
}

/// Changing parts of a stage's state.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveStage {
    /// Stage key.
    pub stage: String,
    /// Displayed status.
    pub status: &'static str,
    /// Number of attempts.
    pub attempts: usize,
    /// Seconds of an ended stage.
    pub seconds: Option<f64>,
    /// End, in Unix milliseconds.
    pub ended: Option<i64>,
    /// Reason for waiting.
    pub why: Option<String>,
    /// Error of a failed stage.
    pub error: Option<String>,
    /// Last progress of a running stage.
    pub progress: Option<ProgressRecord>,
    /// Number of chunks of the log of the last attempt; `None` if the log is not followed.
    pub log: Option<u32>,
}

/// State of a run and the numbers of the last changes of its stages.
#[derive(Debug, Clone, Default)]
pub struct LiveSnapshot {
    /// Number of the snapshot, from 1; 0 before the first.
    pub version: u64,
    /// Reason why the run cannot be followed now.
    pub problem: Option<String>,
    /// State of the run.
    pub run: LiveRun,
    /// Number of the snapshot in which each stage changed, in the order of `run.stages`.
    changed: Vec<u64>,
}

/// Follows one run turn by turn.
pub struct RunFollower {
    runs: Arc<FollowedRuns>,
    run: RunId,
    _hold: RunHold,
    turns: u64,
    position: Option<u64>,
    was_live: Option<bool>,
    is_open: bool,
    progress: BTreeMap<StageKey, ProgressRecord>,
    /// Position among the running stages, of which a turn reads some.
    next_progress: usize,
    logs: BTreeMap<StageKey, (AttemptNumber, u32)>,
}

impl RunFollower {
    /// Returns a follower that has read nothing yet.
    pub fn new(runs: Arc<FollowedRuns>, run: RunId) -> Self {
        Self {
            _hold: runs.hold(&run),
            runs,
            run,
            turns: 0,
            position: None,
            was_live: None,
            is_open: true,
            progress: BTreeMap::new(),
            next_progress: 0,
            logs: BTreeMap::new(),
        }
    }

    /// Reads what is new; `None` if nothing changed. Without news, a turn is one request, and now and then one for each
    /// running stage. Errors: those of [`FollowedRuns::view`].
    pub async fn turn(&mut self, store: &Store, clock: &dyn Clock) -> Result<Option<LiveRun>> {
        let numbered = self.runs.numbered(store, &self.run).await?;
        let view = numbered.view;
        let is_live = is_live(&view, clock);
        let mut has_news = self.position != Some(numbered.position) || self.was_live != Some(is_live);
        if self.turns.is_multiple_of(PROGRESS_EVERY) && self.is_open {
            has_news |= self.read_progress(store, &view).await?;
        }
        if self.turns.is_multiple_of(LOGS_EVERY) && self.is_open {
            has_news |= self.check_logs(store, &view).await?;
        }
        self.turns += 1;
        (self.position, self.was_live) = (Some(numbered.position), Some(is_live));
        self.is_open = view.finished.is_none();
        Ok(has_news.then(|| self.live_run(&view, is_live, clock)))
    }

    /// Reads the progress of the next running stages; returns whether any changed.
    async fn read_progress(&mut self, store: &Store, view: &RunView) -> Result<bool> {
        let open = reporting_attempts(view);
        let known = self.progress.len();
        self.progress.retain(|key, _| view.stage(key).is_some_and(|stage| stage.status == StageStatus::Running));
        let mut has_news = self.progress.len() != known;
        let start = if self.next_progress < open.len() { self.next_progress } else { 0 };
        self.next_progress = start + PROGRESS_PER_TURN;
        let chosen = open.into_iter().skip(start).take(PROGRESS_PER_TURN).collect();
        for (key, record) in read_progress_of(store, &self.run, chosen).await? {
            has_news |= self.progress.get(&key) != Some(&record);
            self.progress.insert(key, record);
        }
        Ok(has_news)
    }

    /// Moves the positions of the logs of the first running stages; returns whether any moved.
    async fn check_logs(&mut self, store: &Store, view: &RunView) -> Result<bool> {
        let open: Vec<_> = reporting_attempts(view).into_iter().take(MAX_LOGS).collect();
        self.logs.retain(|key, (attempt, _)| open.iter().any(|(open, number)| open == key && number == attempt));
        let mut has_news = false;
        for (key, attempt) in open {
            let position = match self.logs.get(&key) {
                Some((_, position)) => *position,
                None => store.next_chunk(&self.run, &key, attempt, AttemptStream::Log).await?,
            };
            let mut chunks = store.chunks(&self.run, &key, attempt, AttemptStream::Log, position);
            let mut next = position;
            while next < position + LOG_CHUNKS && chunks.next().await?.is_some() {
                next += 1;
            }
            has_news |= self.logs.insert(key, (attempt, next)) != Some((attempt, next));
        }
        Ok(has_news)
    }

    fn live_run(&self, view: &RunView, is_live: bool, clock: &dyn Clock) -> LiveRun {
        let (over, all) = stages_over(view);
        LiveRun {
            status: state(view, clock),
            is_over: view.finished.is_some(),
            elapsed_millis: elapsed_millis(view, clock),
            over,
            all,
            last_seen: view.writer.last_seen,
            stages: view.stages.iter().map(|stage| self.live_stage(stage, is_live)).collect(),
        }
    }

    fn live_stage(&self, stage: &StageView, is_live: bool) -> LiveStage {
        let key = stage.key();
        LiveStage {
            stage: key.0.clone(),
            status: stage.shown_status(is_live),
            attempts: stage.attempts.len(),
            seconds: stage.seconds(),
            ended: stage.ended,
            why: stage.why.clone(),
            error: stage.error.as_ref().filter(|_| stage.status == StageStatus::Failed).map(ToString::to_string),
            progress: self.progress.get(key).filter(|_| stage.status == StageStatus::Running).cloned(),
            log: self.logs.get(key).map(|(_, position)| *position),
        }
    }
}

impl LiveRun {
    /// Returns the running stage that the page names: the first with progress, or else the first.
    pub fn current(&self) -> Option<&LiveStage> {
        let running = || self.stages.iter().filter(|stage| stage.status == StageStatus::Running.name());
        running().find(|stage| stage.progress.is_some()).or_else(|| running().next())
    }
}

impl LiveSnapshot {
    /// Returns the snapshot of a new state after this one.
    #[must_use]
    pub fn next(&self, run: LiveRun) -> Self {
        let version = self.version + 1;
        let known: HashMap<&str, (&LiveStage, u64)> =
            self.run.stages.iter().zip(&self.changed).map(|(s, at)| (s.stage.as_str(), (s, *at))).collect();
        let changed = run.stages.iter().map(|stage| match known.get(stage.stage.as_str()) {
            Some((old, at)) if *old == stage => *at,
            Some(_) | None => version,
        });
        Self { version, problem: None, changed: changed.collect(), run }
    }

    /// Returns a snapshot of the same state, which cannot be followed now.
    #[must_use]
    pub fn with_problem(&self, problem: String) -> Self {
        Self { version: self.version + 1, problem: Some(problem), ..self.clone() }
    }

    /// Returns the stages that changed after a version, and the number of those that are left out. Version 0 stands for
    /// a page that was just opened: it gets the stages that are not over, and those that ended in the last minute.
    pub fn since(&self, version: u64) -> (Vec<&LiveStage>, usize) {
        let is_new = |(stage, changed): &(&LiveStage, &u64)| match version {
            0 => **changed > 1 || stage.ended.is_none_or(|at| at >= self.run.last_seen - RECENT),
            _ => **changed > version,
        };
        let mut stages: Vec<&LiveStage> =
            self.run.stages.iter().zip(&self.changed).filter(is_new).map(|(stage, _)| stage).collect();
        let left_out = stages.len().saturating_sub(MAX_STAGES);
        stages.truncate(MAX_STAGES);
        (stages, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::event::{Event, EventRecord, GrantSummary};
    use trainyard_store::{JournalWriter, StoreOptions};

    fn stage(name: &str, status: &'static str, ended: Option<i64>) -> LiveStage {
        LiveStage { stage: name.into(), status, ended, ..LiveStage::default() }
    }

    fn names(snapshot: &LiveSnapshot, version: u64) -> Vec<&str> {
        snapshot.since(version).0.into_iter().map(|stage| stage.stage.as_str()).collect()
    }

    #[test]
    fn snapshots_number_the_changes_of_stages() {
        let run = |stages: Vec<LiveStage>| LiveRun { stages, last_seen: 100_000, ..LiveRun::default() };
        let (old, recent) = (stage("old", "done", Some(1_000)), stage("recent", "done", Some(90_000)));
        let first = LiveSnapshot::default().next(run(vec![old.clone(), recent.clone(), stage("a", "running", None)]));
        assert_eq!(first.version, 1);
        assert_eq!(names(&first, 0), ["recent", "a"], "a new page knows the stage that ended long ago");
        let done = stage("a", "done", Some(100_000));
        let second = first.next(run(vec![old.clone(), recent.clone(), done.clone()]));
        let third = second.next(run(vec![old, recent, done, stage("b", "queued", None)]));
        assert_eq!((names(&third, 2), names(&third, 1), names(&third, 3)), (vec!["b"], vec!["a", "b"], vec![]));
        let broken = third.with_problem("the store is away".into());
        assert_eq!((broken.version, names(&broken, 3).len()), (4, 0));
        assert_eq!(broken.next(broken.run.clone()).problem, None);
    }

    #[test]
    fn messages_are_bounded() {
        let stages = (0..MAX_STAGES + 7).map(|n| stage(&n.to_string(), "queued", None)).collect();
        let snapshot = LiveSnapshot::default().next(LiveRun { stages, ..LiveRun::default() });
        let (shown, left_out) = snapshot.since(0);
        assert_eq!((shown.len(), left_out), (MAX_STAGES, 7));
    }

    #[tokio::test]
    async fn turns_report_events_progress_and_logs_once() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (run, key) = (RunId("20261121-041530-02a0001".into()), StageKey("rl".into()));
        let clock = ManualClock::at_millis(5_000);
        let record = |event| EventRecord { at: 1_000, event };
        let opened =
            |epoch| serde_json::to_value(record(Event::WriterOpened { epoch, writer: "other:1:1:1".into() })).unwrap();
        let (mut writer, _) = JournalWriter::open(&store, &run, "w", opened).await.unwrap();
        let mut follower = RunFollower::new(Arc::default(), run.clone());
        let first = follower.turn(&store, &clock).await.unwrap().unwrap();
        assert_eq!((first.status, first.all), ("running", 0));
        assert_eq!(follower.turn(&store, &clock).await.unwrap(), None);
        let started = Event::AttemptStarted {
            stage: key.clone(),
            attempt: 1,
            digest: Digest::of(b"d"),
            pool: "gpu".into(),
            grant: GrantSummary::default(),
        };
        writer.append(&[record(started)]).await.unwrap();
        let second = follower.turn(&store, &clock).await.unwrap().unwrap();
        assert_eq!((second.stages[0].status, second.stages[0].log), ("running", None));
        let progress = ProgressRecord {
            format: 1,
            at: 4_000,
            done: 3,
            total: 9,
            unit: "steps".into(),
            rate: None,
            seconds_left: None,
            metric: None,
        };
        store.put_progress(&run, &key, 1, &progress).await.unwrap();
        store.put_chunk(&run, &key, 1, AttemptStream::Log, 0, "line\n".into()).await.unwrap();
        let mut changes = Vec::new();
        for _ in 0..4 {
            changes.extend(follower.turn(&store, &clock).await.unwrap());
        }
        let last = changes.last().unwrap();
        assert_eq!(last.current().unwrap().progress, Some(progress));
        assert_eq!((last.stages[0].log, changes.len() <= 2), (Some(1), true));
        assert_eq!(follower.turn(&store, &clock).await.unwrap(), None);
    }
}
