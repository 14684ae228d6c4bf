//! Decides which promised runs start, and which are stopped: a pure function of the open ticks and the states of their
//! runs.

use super::state::Open;
use trainyard_spec::schedule::Overlap;

/// Known state of an open tick's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Not begun.
    Promised,
    /// In progress, or about to be.
    Going,
    /// Begun, but no process continues it.
    Abandoned,
    /// Finished.
    Over,
}

/// Next step for the open tick of this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Begin or resume its run.
    Start(usize),
    /// Cancel its run.
    Cancel(usize),
    /// Drop the tick: a newer one replaces it.
    Supersede(usize),
}

/// Returns the next steps, oldest first. A run that has begun is always completed, unless it is to be canceled. Runs of
/// backfills start at once: their number was bounded when they were promised.
pub fn steps(overlap: Overlap, open: &[(&Open, Run)]) -> Vec<Step> {
    let own: Vec<usize> = (0..open.len()).filter(|i| open[*i].0.backfill.is_none()).collect();
    let mut steps = Vec::new();
    let newest = own.iter().copied().filter(|i| open[*i].1 != Run::Over).max_by_key(|i| &open[*i].0.tick);
    let begun = |i: &&usize| matches!(open[**i].1, Run::Going | Run::Abandoned);
    let next_in_line =
        if own.iter().any(|i| begun(&i)) { None } else { own.iter().copied().find(|i| open[*i].1 == Run::Promised) };
    for (i, (tick, run)) in open.iter().enumerate() {
        let outdated = overlap == Overlap::Cancel && tick.backfill.is_none() && newest != Some(i);
        let may_begin = match overlap {
            _ if tick.backfill.is_some() => true,
            Overlap::Allow => true,
            Overlap::Skip | Overlap::Queue => next_in_line == Some(i),
            Overlap::Cancel => !own.iter().any(|o| *o != i && begun(&o)),
        };
        match run {
            Run::Over => {}
            Run::Promised if outdated => steps.push(Step::Supersede(i)),
            Run::Going | Run::Abandoned if outdated => steps.push(Step::Cancel(i)),
            Run::Abandoned => steps.push(Step::Start(i)),
            Run::Promised if may_begin => steps.push(Step::Start(i)),
            Run::Promised | Run::Going => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::event::{Definition, Tick};
    use trainyard_core::{Digest, RunId};
    use trainyard_spec::Schedule;

    fn open(at: i64, backfill: Option<&str>) -> Open {
        Open {
            tick: Tick::of_clock(at),
            run: RunId(format!("run-{at}")),
            by: "x".into(),
            at,
            definition: Definition {
                schedule: Schedule::cron("* * * * *", "UTC"),
                file: "f.yaml".into(),
                home: String::new(),
                texts: Digest::of(b""),
            },
            backfill: backfill.map(str::to_string),
        }
    }

    fn told(overlap: Overlap, runs: &[(Run, Option<&str>)]) -> Vec<Step> {
        let ticks: Vec<Open> = runs.iter().enumerate().map(|(i, (_, b))| open(i as i64 * 60_000, *b)).collect();
        let open: Vec<(&Open, Run)> = ticks.iter().zip(runs).map(|(tick, (run, _))| (tick, *run)).collect();
        steps(overlap, &open)
    }

    #[test]
    fn promised_runs_start_in_turn() {
        use Run::{Abandoned, Going, Over, Promised};
        let queue = |runs: &[Run]| {
            let runs: Vec<_> = runs.iter().map(|run| (*run, None)).collect();
            told(Overlap::Queue, &runs)
        };
        assert_eq!(queue(&[Promised, Promised]), [Step::Start(0)]);
        assert_eq!(queue(&[Going, Promised]), []);
        assert_eq!(queue(&[Over, Promised, Promised]), [Step::Start(1)]);
        assert_eq!(queue(&[Abandoned, Promised]), [Step::Start(0)], "what began is carried to its end first");
    }

    #[test]
    fn the_newest_takes_the_place_of_all_others() {
        use Run::{Abandoned, Going, Over, Promised};
        let cancel = |runs: &[Run]| {
            let runs: Vec<_> = runs.iter().map(|run| (*run, None)).collect();
            told(Overlap::Cancel, &runs)
        };
        assert_eq!(cancel(&[Going, Promised]), [Step::Cancel(0)]);
        assert_eq!(cancel(&[Over, Promised]), [Step::Start(1)]);
        assert_eq!(cancel(&[Promised, Promised]), [Step::Supersede(0), Step::Start(1)]);
        assert_eq!(cancel(&[Abandoned, Promised, Promised]), [Step::Cancel(0), Step::Supersede(1)]);
        assert_eq!(cancel(&[Going, Over]), [], "the last one that is not over stays");
    }

    #[test]
    fn all_at_once_where_that_is_allowed() {
        use Run::{Going, Promised};
        let runs = [(Going, None), (Promised, None), (Promised, None)];
        assert_eq!(told(Overlap::Allow, &runs), [Step::Start(1), Step::Start(2)]);
        let backfill = [(Going, None), (Promised, Some("b")), (Promised, None)];
        assert_eq!(told(Overlap::Queue, &backfill), [Step::Start(1)], "a backfill does not wait for the schedule");
        assert_eq!(told(Overlap::Cancel, &backfill), [Step::Cancel(0), Step::Start(1)]);
    }
}
