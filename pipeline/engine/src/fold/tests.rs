//! Tests the fold on handwritten journals.

use super::*;
use trainyard_core::event::{GrantSummary, PlannedStage};

fn key(name: &str) -> StageKey {
    StageKey(name.into())
}
fn fold(events: Vec<Event>) -> RunView {
    let mut view = RunView::default();
    for (at, event) in (1..).zip(events) {
        view.apply(&EventRecord { at, event });
    }
    view
}
fn created(stages: &[&str]) -> Event {
    let planned =
        |name: &&str| PlannedStage { stage: key(name), kind: "noop".into(), main_metric: None, after: Vec::new() };
    Event::RunCreated {
        format: 1,
        workflow: "w".into(),
        source: "w.yaml".into(),
        plan_digest: Digest::of(b"plan"),
        params: BTreeMap::new(),
        selection: Selection::default(),
        stages: stages.iter().map(planned).collect(),
    }
}
fn started(stage: &str, attempt: u32) -> Event {
    Event::AttemptStarted {
        stage: key(stage),
        attempt,
        digest: Digest::of(b"d"),
        pool: "local".into(),
        grant: GrantSummary::default(),
    }
}

#[test]
fn a_new_writer_finds_open_attempts_lost_and_failures_open_again() {
    let opened = |epoch| Event::WriterOpened { epoch, writer: format!("w{epoch}") };
    let failed = Event::StageFailed { stage: key("b"), error: Error::bug("x") };
    let view = fold(vec![opened(1), created(&["a", "b"]), started("a", 1), failed, opened(2)]);
    assert_eq!(view.writer, WriterView { epoch: 2, name: "w2".into(), last_seen: 5 });
    let a = view.stage(&key("a")).unwrap();
    assert_eq!((a.status, a.attempts[0].outcome), (StageStatus::Pending, Some(AttemptOutcome::Lost)));
    assert_eq!(view.stage(&key("b")).unwrap().status, StageStatus::Pending);
}

#[test]
fn stages_of_a_run_without_a_writer_do_not_run() {
    let submitted = Event::AttemptSubmitted { stage: key("far"), attempt: 1, handle: "4711".into() };
    let queued = Event::Queued { stage: key("next"), why: "the pool is full".into() };
    let stages = created(&["near", "far", "next"]);
    let view = fold(vec![stages, started("near", 1), started("far", 1), submitted, queued]);
    let shown = |name: &str, is_live| view.stage(&key(name)).unwrap().shown_status(is_live);
    assert_eq!((shown("near", true), shown("near", false)), ("running", "interrupted"));
    assert_eq!((shown("far", true), shown("far", false)), ("running", "running"), "it outlives the engine");
    assert_eq!((shown("next", true), shown("next", false)), ("queued", "pending"));
}

#[test]
fn attempt_found_by_a_new_writer_continues() {
    let opened = |epoch| Event::WriterOpened { epoch, writer: format!("w{epoch}") };
    let submitted = || Event::AttemptSubmitted { stage: key("a"), attempt: 1, handle: "4711".into() };
    let journal = vec![opened(1), created(&["a"]), started("a", 1), submitted(), opened(2)];
    let left = fold(journal.clone());
    let resumed = crate::ResumeState::from_view(&left);
    assert_eq!(resumed.attempts[&key("a")].open.as_ref().unwrap().handle.as_deref(), Some("4711"));
    let mut journal = journal;
    journal.push(submitted());
    let view = fold(journal);
    let a = view.stage(&key("a")).unwrap();
    assert_eq!((a.status, a.attempts[0].outcome, &a.attempts[0].error), (StageStatus::Running, None, &None));
    assert_eq!(view.explain(&key("a"))[1], "attempt 1 on local as 4711: runs");
}

#[test]
fn instances_follow_their_stage() {
    let expand = || Event::StageExpanded { stage: key("a"), instances: vec![key("a[item=0]"), key("a[item=1]")] };
    let view = fold(vec![created(&["a", "b"]), expand(), expand()]);
    let order: Vec<&str> = view.stages.iter().map(|s| s.key().0.as_str()).collect();
    assert_eq!(order, ["a", "a[item=0]", "a[item=1]", "b"]);
    assert_eq!(view.stage(&key("b")).unwrap().kind, "noop");
}

#[test]
fn clock_set_back_adds_no_duration() {
    let mut view = RunView::default();
    for (at, event) in [(9, created(&["a"])), (10, started("a", 1)), (4, Event::StageCancelled { stage: key("a") })] {
        view.apply(&EventRecord { at, event });
    }
    let a = view.stage(&key("a")).unwrap();
    assert_eq!((a.started, a.ended, a.seconds()), (Some(10), Some(4), Some(0.0)));
}

#[test]
fn waits_belong_to_their_attempts() {
    let waiting = |attempt, why: &str| Event::AttemptWaiting { stage: key("a"), attempt, why: why.into() };
    let working = Event::AttemptWorking { stage: key("a"), attempt: 1 };
    let lost = Event::AttemptEnded { stage: key("a"), attempt: 1, outcome: AttemptOutcome::Lost, error: None };
    let first = vec![created(&["a"]), started("a", 1), waiting(1, "Priority"), waiting(1, "Resources"), working];
    let rest = vec![waiting(1, "Requeued"), lost, started("a", 2), waiting(2, "Priority")];
    let view = fold(first.into_iter().chain(rest).collect());
    let a = view.stage(&key("a")).unwrap();
    let wait = |from, until, why: &str| AttemptWait { from, until, why: why.into() };
    assert_eq!(a.attempts[0].waits, [wait(3, Some(5), "Resources"), wait(6, Some(7), "Requeued")]);
    assert_eq!(a.attempts[1].waits, [wait(9, None, "Priority")]);
    assert_eq!((a.waited, a.waiting_since), (3, Some(9)));
}

#[test]
fn explanations_keep_the_case_of_errors() {
    let error = Some(Error::data("/Data/Rows.jsonl: line 2 is not JSON"));
    let ended = Event::AttemptEnded { stage: key("a"), attempt: 1, outcome: AttemptOutcome::Failed, error };
    let view = fold(vec![created(&["a"]), started("a", 1), ended]);
    assert_eq!(view.explain(&key("a"))[1], "attempt 1 on local: failed: /Data/Rows.jsonl: line 2 is not JSON (data)");
}

#[test]
fn explanations_name_every_cause_once() {
    let error = Error::lost("cannot read s3://b/x").caused_by(&std::io::Error::other("connection refused"));
    let ended = Event::AttemptEnded {
        stage: key("a"),
        attempt: 1,
        outcome: AttemptOutcome::Failed,
        error: Some(error.clone()),
    };
    let failed = Event::StageFailed { stage: key("a"), error };
    let view = fold(vec![created(&["a"]), started("a", 1), ended, failed]);
    let lines = view.explain(&key("a"));
    assert_eq!(lines.iter().filter(|l| *l == "caused by: connection refused").count(), 1, "{lines:?}");
}

#[test]
fn a_stage_has_its_times_and_numbers() {
    let ended = Event::AttemptEnded {
        stage: key("a"),
        attempt: 1,
        outcome: AttemptOutcome::Failed,
        error: Some(Error::retryable("net")),
    };
    let retry = Event::RetryScheduled { stage: key("a"), attempt: 2, not_before: 99 };
    let done = Event::AttemptEnded { stage: key("a"), attempt: 2, outcome: AttemptOutcome::Succeeded, error: None };
    let metrics = BTreeMap::from([("loss".to_string(), 0.5)]);
    let published = Event::Published {
        stage: key("a"),
        attempt: 2,
        digest: Digest::of(b"d"),
        generation: 0,
        reason: None,
        adopted: false,
        metrics,
        comparisons: Vec::new(),
        outputs: BTreeMap::new(),
    };
    let view = fold(vec![created(&["a"]), started("a", 1), ended, retry, started("a", 2), done, published]);
    let a = view.stage(&key("a")).unwrap();
    assert_eq!((a.status, a.started, a.ended, a.generation), (StageStatus::Done, Some(2), Some(7), Some(0)));
    assert_eq!(a.attempts.len(), 2);
    assert_eq!(a.seconds(), Some(0.005));
    assert!(view.explain(&key("a"))[1].contains("attempt 1 on local: failed: net"), "{:?}", view.explain(&key("a")));
}
