//! Tests a reconciler with scripted effects: runs that cannot begin, and runs that other daemons own.

use super::*;
use crate::effects::{DaemonEffects, DaemonNotification, RunProcessState, StartRunRequest};
use crate::schedule::event::{Definition, ScheduleEvent, TickOutcome};
use futures::future::BoxFuture;
use std::sync::Mutex;
use trainyard_core::Digest;
use trainyard_core::clock::ManualClock;
use trainyard_core::event::{Event as RunEvent, EventRecord, RunOutcome};
use trainyard_spec::Schedule;
use trainyard_spec::schedule::{Overlap, ScheduleStart, Trigger};
use trainyard_store::{JournalWriter, StoreOptions};

/// 2026-11-21T00:00:00Z.
const BEGIN: i64 = 1_795_219_200_000;
/// 2027-01-01T00:00:00Z, the first tick.
const TICK: i64 = 1_798_761_600_000;

#[derive(Default)]
struct Script {
    started: Mutex<Vec<RunId>>,
    cancelled: Mutex<Vec<RunId>>,
    notifications: Mutex<Vec<DaemonNotification>>,
    /// Result of every process, which ends at once.
    ends: Option<(Option<i32>, &'static str)>,
}

impl DaemonEffects for Script {
    fn is_alive(&self, name: &str) -> Option<bool> {
        match name {
            "alive" | "me" => Some(true),
            "elsewhere" => None,
            _ => Some(false),
        }
    }
    fn start<'a>(&'a self, request: &'a StartRunRequest) -> BoxFuture<'a, Result<()>> {
        self.started.lock().unwrap().push(request.run.clone());
        Box::pin(async { Ok(()) })
    }
    fn process(&self, run: &RunId) -> RunProcessState {
        match (self.started.lock().unwrap().contains(run), self.ends) {
            (false, _) => RunProcessState::None,
            (true, None) => RunProcessState::Alive,
            (true, Some((code, stderr))) => RunProcessState::Ended { code, stderr: stderr.to_string() },
        }
    }
    fn forget(&self, _: &RunId) {}
    fn cancel(&self, run: &RunId) {
        self.cancelled.lock().unwrap().push(run.clone());
    }
    fn notify(&self, notification: DaemonNotification) {
        self.notifications.lock().unwrap().push(notification);
    }
}

struct Stage {
    store: Store,
    clock: ManualClock,
    script: Script,
    reconciler: ScheduleReconciler,
}

impl Stage {
    async fn new(script: Script) -> Self {
        Self::of(Schedule::cron("0 0 1 1 *", "UTC"), script).await
    }
    async fn of(schedule: Schedule, script: Script) -> Self {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let mut log = ScheduleLog::open(&store, "s").await.unwrap();
        let definition =
            Definition { schedule, file: "f.yaml".to_string(), home: String::new(), texts: Digest::of(b"") };
        log.append(BEGIN, "x", |_| Some(ScheduleEvent::Defined { definition: definition.clone() })).await.unwrap();
        let reconciler = ScheduleReconciler::new(log, "me", Chance::new(1));
        Self { store, clock: ManualClock::at_millis(BEGIN), script, reconciler }
    }
    async fn pass_after(&mut self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.pass().await.unwrap();
    }
    async fn pass(&mut self) -> Result<Option<i64>> {
        let context = ReconcileContext { store: &self.store, clock: &self.clock, effects: &self.script };
        self.reconciler.pass(context).await
    }
    async fn promise(&mut self, by: &str) -> RunId {
        let run = RunId("20261121-000000-0000001".into());
        let tick = crate::schedule::event::Tick::manual(BEGIN, 1);
        let event = ScheduleEvent::Fired { tick, run: run.clone(), passed_over: 0, backfill: None, listing: None };
        self.reconciler.log().append(BEGIN, by, |_| Some(event.clone())).await.unwrap();
        run
    }
    fn starts(&self) -> usize {
        self.script.started.lock().unwrap().len()
    }
}

fn event(event: RunEvent) -> serde_json::Value {
    EventRecord { at: BEGIN, event }.to_value().unwrap()
}

#[tokio::test]
async fn run_with_an_invalid_file_is_given_up_and_reported() {
    let mut stage = Stage::new(Script { ends: Some((Some(2), "f.yaml has 1 error")), ..Script::default() }).await;
    stage.promise("me").await;
    stage.pass_after(1).await;
    stage.pass_after(1).await;
    let last = stage.reconciler.state().last.clone().unwrap();
    assert_eq!((last.outcome, last.why.as_deref()), (Some(TickOutcome::NotStarted), Some("f.yaml has 1 error")));
    assert!(stage.reconciler.state().open.is_empty());
    assert!(matches!(&stage.script.notifications.lock().unwrap()[..], [DaemonNotification::NotStarted { .. }]));
}

#[tokio::test]
async fn failing_sensor_does_not_delay_a_promised_run() {
    let on = Trigger::Files("nowhere://bucket/incoming".to_string());
    let schedule = Schedule { overlap: Overlap::Queue, ..Schedule::new(ScheduleStart::On { on }) };
    let mut stage = Stage::of(schedule, Script::default()).await;
    let failed = async {
        while stage.pass().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), failed).await.expect("the sensor fails");
    stage.promise("me").await;
    stage.pass().await.unwrap_err();
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn crashed_run_is_retried_up_to_a_limit() {
    let mut stage = Stage::new(Script { ends: Some((None, "killed")), ..Script::default() }).await;
    stage.promise("me").await;
    stage.pass_after(1).await;
    stage.pass_after(0).await;
    stage.pass_after(0).await;
    assert_eq!(stage.starts(), 1, "not at once");
    for _ in 0..40 {
        stage.pass_after(301).await;
    }
    assert_eq!(stage.starts(), 10);
    let mut recent = stage.reconciler.state().recent.iter();
    assert!(recent.any(|past| past.outcome == Some(TickOutcome::NotStarted) && past.tick.id.contains("by-hand")));
}

#[tokio::test]
async fn runs_of_another_live_daemon_are_not_started() {
    for (by, first, after_silence) in [("alive", 0, 0), ("elsewhere", 0, 1), ("gone", 1, 1)] {
        let mut stage = Stage::new(Script::default()).await;
        stage.promise(by).await;
        stage.pass_after(1).await;
        assert_eq!(stage.starts(), first, "{by}");
        stage.pass_after(31).await;
        assert_eq!(stage.starts(), after_silence, "{by} after 31 s");
    }
}

#[tokio::test]
async fn journal_shows_whether_a_run_has_a_live_writer() {
    let mut stage = Stage::new(Script::default()).await;
    let run = stage.promise("alive").await;
    let opened = |epoch| event(RunEvent::WriterOpened { epoch, writer: "gone".into() });
    let (mut writer, _) = JournalWriter::open(&stage.store, &run, "gone", opened).await.unwrap();
    stage.pass_after(1).await;
    assert_eq!(stage.starts(), 1, "its writer is gone");
    writer.append(&[event(RunEvent::RunFinished { outcome: RunOutcome::Failed })]).await.unwrap();
    stage.pass_after(1).await;
    assert_eq!(stage.reconciler.state().last.as_ref().unwrap().outcome, Some(TickOutcome::Failed));
    assert_eq!(stage.starts(), 1);
}

#[tokio::test]
async fn tick_with_an_object_gets_no_second_run() {
    let mut stage = Stage::new(Script::default()).await;
    let tick = crate::schedule::event::Tick::scheduled(TICK);
    let object = serde_json::json!({
        "format": 1, "schedule": "s", "tick": tick, "run": "20261120-000000-0000000", "by": "long ago", "at": BEGIN,
    });
    stage.store.fire_tick("s", &tick.id, object.to_string().into()).await.unwrap();
    stage.pass_after((TICK - BEGIN).unsigned_abs() / 1_000 + 1).await;
    assert_eq!(stage.starts(), 0);
    let last = stage.reconciler.state().last.clone().unwrap();
    assert_eq!((last.tick, last.outcome), (tick, Some(TickOutcome::Superseded)));
}
