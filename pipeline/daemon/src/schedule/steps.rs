//! Decides which promised runs start and which are stopped, as a pure function of the open ticks and the states of
//! their runs.

use super::state::PendingTick;
use trainyard_spec::schedule::Overlap;

/// Known state of an open tick's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TickRunState {
    /// Not begun.
    Promised,
    /// In progress, or about to be.
    InProgress,
    /// Begun, but no process continues it.
    Abandoned,
    /// Finished.
    Finished,
}

/// Next step for the open tick of this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleStep {
    /// Begin or resume its run.
    Start(usize),
    /// Cancel its run.
    Cancel(usize),
    /// Drop the tick: a newer one replaces it.
    Supersede(usize),
}

/// Returns the next steps, oldest first. A run that has begun is always completed, unless `overlap` cancels it for a
/// newer tick. Runs of backfills and requests start at once: their number was bounded when they were promised.
pub fn steps(overlap: Overlap, open: &[(&PendingTick, TickRunState)]) -> Vec<ScheduleStep> {
    let own: Vec<usize> = (0..open.len()).filter(|i| !open[*i].0.is_additional()).collect();
    let mut steps = Vec::new();
    let newest = own.iter().copied().filter(|i| open[*i].1 != TickRunState::Finished).max_by_key(|i| &open[*i].0.tick);
    let begun = |i: &&usize| matches!(open[**i].1, TickRunState::InProgress | TickRunState::Abandoned);
    let next_in_line = if own.iter().any(|i| begun(&i)) {
        None
    } else {
        own.iter().copied().find(|i| open[*i].1 == TickRunState::Promised)
    };
    for (i, (tick, run)) in open.iter().enumerate() {
        let outdated = overlap == Overlap::Cancel && !tick.is_additional() && newest != Some(i);
        let may_begin = match overlap {
            _ if tick.is_additional() => true,
            Overlap::Allow => true,
            Overlap::Skip | Overlap::Queue => next_in_line == Some(i),
            Overlap::Cancel => !own.iter().any(|o| *o != i && begun(&o)),
        };
        match run {
            TickRunState::Finished => {}
            TickRunState::Promised if outdated => steps.push(ScheduleStep::Supersede(i)),
            TickRunState::InProgress | TickRunState::Abandoned if outdated => steps.push(ScheduleStep::Cancel(i)),
            TickRunState::Abandoned => steps.push(ScheduleStep::Start(i)),
            TickRunState::Promised if may_begin => steps.push(ScheduleStep::Start(i)),
            TickRunState::Promised | TickRunState::InProgress => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::event::{Tick, WorkflowFile};
    use trainyard_core::{Digest, RunId};

    fn open(at: i64, backfill: Option<&str>) -> PendingTick {
        PendingTick {
            tick: Tick::scheduled(at),
            run: RunId(format!("run-{at}")),
            by: "x".into(),
            at,
            definition: WorkflowFile { file: "f.yaml".into(), home: String::new(), texts: Digest::of(b"") },
            backfill: backfill.map(str::to_string),
            requested: None,
        }
    }

    fn next_steps(overlap: Overlap, runs: &[(TickRunState, Option<&str>)]) -> Vec<ScheduleStep> {
        let ticks: Vec<PendingTick> = runs.iter().enumerate().map(|(i, (_, b))| open(i as i64 * 60_000, *b)).collect();
        let open: Vec<(&PendingTick, TickRunState)> =
            ticks.iter().zip(runs).map(|(tick, (run, _))| (tick, *run)).collect();
        steps(overlap, &open)
    }

    #[test]
    fn promised_runs_start_one_after_another() {
        use TickRunState::{Abandoned, Finished, InProgress, Promised};
        let queue = |runs: &[TickRunState]| {
            let runs: Vec<_> = runs.iter().map(|run| (*run, None)).collect();
            next_steps(Overlap::Queue, &runs)
        };
        assert_eq!(queue(&[Promised, Promised]), [ScheduleStep::Start(0)]);
        assert_eq!(queue(&[InProgress, Promised]), []);
        assert_eq!(queue(&[Finished, Promised, Promised]), [ScheduleStep::Start(1)]);
        assert_eq!(queue(&[Abandoned, Promised]), [ScheduleStep::Start(0)], "what began is carried to its end first");
    }

    #[test]
    fn newest_tick_replaces_all_others() {
        use TickRunState::{Abandoned, Finished, InProgress, Promised};
        let cancel = |runs: &[TickRunState]| {
            let runs: Vec<_> = runs.iter().map(|run| (*run, None)).collect();
            next_steps(Overlap::Cancel, &runs)
        };
        assert_eq!(cancel(&[InProgress, Promised]), [ScheduleStep::Cancel(0)]);
        assert_eq!(cancel(&[Finished, Promised]), [ScheduleStep::Start(1)]);
        assert_eq!(cancel(&[Promised, Promised]), [ScheduleStep::Supersede(0), ScheduleStep::Start(1)]);
        assert_eq!(cancel(&[Abandoned, Promised, Promised]), [ScheduleStep::Cancel(0), ScheduleStep::Supersede(1)]);
        assert_eq!(cancel(&[InProgress, Finished]), [], "the last one that is not over stays");
    }

    #[test]
    fn requested_run_starts_at_once_and_is_not_replaced() {
        use TickRunState::{InProgress, Promised};
        let requested = PendingTick { requested: Some(vec!["steps=3".into()]), ..open(0, None) };
        let (own, newer) = (open(60_000, None), open(120_000, None));
        let all = [(&requested, Promised), (&own, InProgress), (&newer, Promised)];
        for overlap in [Overlap::Skip, Overlap::Queue] {
            assert_eq!(steps(overlap, &all), [ScheduleStep::Start(0)], "{overlap:?}");
        }
        assert_eq!(steps(Overlap::Cancel, &all), [ScheduleStep::Start(0), ScheduleStep::Cancel(1)]);
        let begun = [(&requested, InProgress), (&newer, Promised)];
        assert_eq!(steps(Overlap::Skip, &begun), [ScheduleStep::Start(1)], "the schedule does not wait for it");
    }

    #[test]
    fn overlap_allow_starts_all_runs() {
        use TickRunState::{InProgress, Promised};
        let runs = [(InProgress, None), (Promised, None), (Promised, None)];
        assert_eq!(next_steps(Overlap::Allow, &runs), [ScheduleStep::Start(1), ScheduleStep::Start(2)]);
        let backfill = [(InProgress, None), (Promised, Some("b")), (Promised, None)];
        assert_eq!(
            next_steps(Overlap::Queue, &backfill),
            [ScheduleStep::Start(1)],
            "a backfill does not wait for the schedule"
        );
        assert_eq!(next_steps(Overlap::Cancel, &backfill), [ScheduleStep::Cancel(0), ScheduleStep::Start(1)]);
    }
}
