//! Requests runs of workflow files, with or without a schedule. A request is a record of the log of the workflow, so
//! that a run whose daemon dies before it begins is begun by the next daemon of the folder.

use crate::log::ScheduleLog;
use crate::operations::{Actor, OpenTick};
use crate::schedule::event::{ScheduleEvent, Tick, WorkflowFile};
use crate::schedule::state::ClosedTick;
use trainyard_core::{Error, Result, RunId};
use trainyard_store::Store;

/// Requested run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedRun {
    /// Run id; the run may not have begun.
    pub run: RunId,
    /// Whether the run is over: its end, as far as the log knows it.
    pub closed: Option<ClosedTick>,
}

/// Records a request of a run with these arguments of `-p`, independently of a schedule, a pause and other runs.
/// Errors: those of the store.
pub async fn request(
    store: &Store,
    workflow: &str,
    actor: Actor<'_>,
    file: &WorkflowFile,
    params: &[String],
) -> Result<OpenTick> {
    let mut log = ScheduleLog::open(store, workflow).await?;
    let now = actor.clock.unix_millis();
    let chance = actor.chance.child(workflow, &[now.cast_unsigned(), log.state().next]);
    let mark = chance.at("request", &[]).next_u32();
    let tick = Tick::manual(now, mark);
    let run = RunId(format!("{}{mark:08x}", RunId::new(actor.clock, &chance).0));
    let event = ScheduleEvent::Requested {
        tick: tick.clone(),
        run: run.clone(),
        workflow: file.clone(),
        params: params.to_vec(),
    };
    match log.append(now, actor.name, |_| Some(event.clone())).await? {
        Some(_) => Ok(OpenTick { tick: tick.id, run, backfill: None }),
        None => Err(Error::bug(format!("a request of a run of `{workflow}` was not recorded"))),
    }
}

/// Returns the runs of a workflow that its log remembers, newest first: open ones, then those that ended.
pub async fn recent(store: &Store, workflow: &str) -> Result<Vec<RequestedRun>> {
    let log = ScheduleLog::open(store, workflow).await?;
    let open = log.state().open.iter().rev().map(|open| RequestedRun { run: open.run.clone(), closed: None });
    let closed = log.state().recent.iter().rev().filter_map(|closed| {
        let run = closed.run.clone()?;
        Some(RequestedRun { run, closed: Some(closed.clone()) })
    });
    Ok(open.chain(closed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations;
    use crate::schedule::event::TickOutcome;
    use trainyard_core::clock::ManualClock;
    use trainyard_core::{Chance, Digest};
    use trainyard_store::StoreOptions;

    /// 2026-11-21T04:15:30Z.
    const NOW: i64 = 1_795_234_530_000;

    #[tokio::test]
    async fn requests_without_a_schedule_are_remembered_and_are_no_schedule() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let clock = ManualClock::at_millis(NOW);
        let file = WorkflowFile { file: "sft.yaml".into(), home: "here".into(), texts: Digest::of(b"t") };
        let actor = |number| Actor { clock: &clock, chance: Chance::new(number), name: "pages:ada" };
        let params = ["steps=3".to_string()];
        let first = request(&store, "sft", actor(1), &file, &params).await.unwrap();
        let second = request(&store, "sft", actor(2), &file, &[]).await.unwrap();
        assert_ne!(first.run, second.run);
        let mut log = ScheduleLog::open(&store, "sft").await.unwrap();
        let open = log.state().open[0].clone();
        assert_eq!((open.requested.as_deref(), open.by.as_str()), (Some(&params[..]), "pages:ada"));
        assert_eq!(open.definition, file);
        assert_eq!(log.state().own().count(), 0, "it is no run of the schedule");
        assert!(operations::list(&store, NOW).await.unwrap().is_empty());
        let ended = ScheduleEvent::Ended { run: first.run.clone(), outcome: TickOutcome::Failed, why: None };
        log.append(NOW, "daemon", |_| Some(ended.clone())).await.unwrap();
        let recent = recent(&store, "sft").await.unwrap();
        let short: Vec<_> = recent.iter().map(|r| (&r.run, r.closed.as_ref().and_then(|c| c.outcome))).collect();
        assert_eq!(short, [(&second.run, None), (&first.run, Some(TickOutcome::Failed))]);
    }
}
