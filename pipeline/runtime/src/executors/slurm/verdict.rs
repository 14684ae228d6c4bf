//! Maps Slurm's record of a job to the state of its attempt. The functions are pure, except that they update the
//! [`JobHistory`] of the attempt.

use super::ids::JobId;
use super::job_state::JobState;
use super::reasons::{PendingReason, explain};
use super::records::{JobExit, SlurmRecord};
use super::script::REQUEUED;
use crate::executors::{AttemptExit, AttemptState};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};

/// Number of consecutive polls that must not find a job before it counts as lost, because accounting lags the
/// controller.
const MISSED_POLLS: u32 = 3;

/// Slurm's word for a job whose machines went to another job.
const PREEMPTED: &str = "PREEMPTED";

/// Facts about a job that Slurm's current record lacks and this process remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JobHistory {
    /// Whether the engine requested the end of the job.
    pub cancel_requested: bool,
    /// Whether the job was seen running.
    pub started: bool,
    /// Number of consecutive polls that did not find the job.
    pub missed: u32,
}

/// Result of one poll of a job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JobVerdict {
    pub state: AttemptState,
    /// Whether the job is still in the queue and must be removed.
    pub remove: bool,
}

/// Returns the verdict on a job that Slurm knows. `log` is the path of its output.
pub(super) fn judge(id: JobId, record: &SlurmRecord, known: &mut JobHistory, log: &str) -> JobVerdict {
    known.missed = 0;
    let keep = |state| JobVerdict { state, remove: false };
    let remove = |error| JobVerdict { state: AttemptState::Ended(failed(error)), remove: true };
    let requeued = || remove(lost(id, "Slurm requeued it (preempted, or its node failed)").by_preemption());
    let nodes = if record.nodes.is_empty() { String::new() } else { format!(" on {}", record.nodes) };
    if known.cancel_requested && record.state.is_over() {
        return keep(AttemptState::Ended(AttemptExit::cancelled()));
    }
    let error = match &record.state {
        JobState::Pending if known.started && !known.cancel_requested => return requeued(),
        JobState::Pending => {
            return match explain(&record.reason) {
                PendingReason::Pending(why) => {
                    keep(AttemptState::Pending { why: why.map(|why| format!("Slurm job {id}: {why}")) })
                }
                PendingReason::Never(why) => remove(
                    Error::invalid(format!("Slurm job {id} can never start: {why}"))
                        .help("change the pool's options or the stage's `resources`; `sinfo` lists the resources"),
                ),
                PendingReason::Requeued => requeued(),
            };
        }
        JobState::Requeued => return requeued(),
        JobState::Paused(why) => return keep(AttemptState::Pending { why: Some(format!("Slurm job {id}: {why}")) }),
        JobState::Active => {
            known.started = true;
            return keep(AttemptState::Started);
        }
        JobState::Completed => return keep(AttemptState::Ended(AttemptExit::succeeded_unread())),
        JobState::Failed => of_exit(id, record, &nodes, log),
        JobState::TimedOut => {
            let error = Error::retryable(format!("Slurm job {id} exceeded its time limit{nodes}"))
                .help("raise the stage's `timeout` or the pool's `time_limit`, or let the stage do less");
            return keep(AttemptState::Ended(AttemptExit::with_error(AttemptOutcome::TimedOut, error)));
        }
        // The job would run out of memory again on a machine of the same size, so the attempt is not retried.
        JobState::OutOfMemory => Error::invalid(format!("Slurm job {id} ran out of memory{nodes}"))
            .help("request more with the stage's `resources: {memory: …}`, or reduce the memory use of the stage"),
        JobState::Cancelled { by } => {
            let by = by.map_or(String::new(), |uid| format!(" by user {uid}"));
            let error = Error::cancelled(format!("Slurm job {id} was cancelled{by}, not by this run"));
            return keep(AttemptState::Ended(AttemptExit::with_error(AttemptOutcome::Cancelled, error)));
        }
        JobState::Lost(word) => {
            let error = lost(id, &format!("{}{nodes}", in_words(word)));
            if *word == PREEMPTED { error.by_preemption() } else { error }
        }
    };
    keep(AttemptState::Ended(failed(error)))
}

/// Returns the verdict on a job that Slurm does not know. `sure` is whether every source responded; otherwise the poll
/// does not count as missed.
pub(super) fn absent(id: JobId, known: &mut JobHistory, sure: bool) -> JobVerdict {
    known.missed += u32::from(sure);
    let state = if known.cancel_requested && sure {
        // A member of an array that is cancelled before it starts leaves no trace.
        AttemptState::Ended(AttemptExit::cancelled())
    } else if known.missed >= MISSED_POLLS {
        AttemptState::Ended(failed(lost(id, "Slurm no longer knows it")))
    } else if known.started {
        AttemptState::Started
    } else {
        AttemptState::Pending { why: None }
    };
    JobVerdict { state, remove: false }
}

fn of_exit(id: JobId, record: &SlurmRecord, nodes: &str, log: &str) -> Error {
    let see = format!("its output is in {log}, its log in `trainyard logs`");
    let job = format!("Slurm job {id}");
    match record.exit.unwrap_or_default() {
        // Slurm reports its failure to set up the job's output as signal 53.
        JobExit { signal: 53, .. } => Error::invalid(format!("{job}: Slurm could not open {log}{nodes}"))
            .help("the pool's `log_folder` must exist on the nodes, and this user must be allowed to write there"),
        JobExit { signal: signal @ (4 | 6 | 7 | 8 | 11 | 31), .. } => {
            Error::bug(format!("{job} crashed (signal {signal}){nodes}")).help(see)
        }
        // On several nodes `srun` reports a kill as exit code 137, of which accounting keeps 9. Attempts never return
        // that code themselves.
        JobExit { signal: 9, .. } | JobExit { code: 9 | 137, .. } => {
            Error::lost(format!("{job} was stopped from outside (signal 9){nodes}")).help(format!(
                "if its machine ran out of memory, request more with the stage's `resources: {{memory: …}}`; {see}"
            ))
        }
        JobExit { signal: signal @ 1.., .. } => {
            Error::lost(format!("{job} was stopped from outside (signal {signal}){nodes}")).help(see)
        }
        JobExit { code: REQUEUED, .. } => lost(id, &format!("Slurm started it a second time{nodes}")),
        JobExit { code: code @ (126 | 127), .. } => {
            Error::invalid(format!("{job} could not start its program{nodes} (exit code {code})"))
                .help(format!("the program must exist on the nodes under the same path; {see}"))
        }
        JobExit { code: 0, .. } => {
            let reason = if record.reason.is_empty() { "no reason given" } else { &record.reason };
            lost(id, &format!("Slurm could not start it{nodes} ({reason})")).help(see)
        }
        JobExit { code, .. } => {
            Error::bug(format!("{job} ended with exit code {code} without an error{nodes}")).help(see)
        }
    }
}

fn in_words(word: &str) -> &'static str {
    match word {
        PREEMPTED => "it was preempted for a job of higher priority",
        "NODE_FAIL" => "its node failed",
        "BOOT_FAIL" => "its node did not boot",
        _ => "its cluster revoked it",
    }
}

fn lost(id: JobId, why: &str) -> Error {
    Error::lost(format!("Slurm job {id} is lost: {why}"))
}

fn failed(error: Error) -> AttemptExit {
    let outcome = if error.kind == ErrorKind::Lost { AttemptOutcome::Lost } else { AttemptOutcome::Failed };
    AttemptExit::with_error(outcome, error)
}

#[cfg(test)]
mod tests {
    use super::super::records::{find, from_sacct, from_squeue};
    use super::*;

    fn id(text: &str) -> JobId {
        JobId::parse(text).unwrap()
    }
    fn of_line(line: &str, known: &mut JobHistory) -> JobVerdict {
        let record = &from_squeue(line)[0];
        judge(id("1"), record, known, "/logs/1.log")
    }
    fn over(verdict: &JobVerdict) -> (AttemptOutcome, ErrorKind, String) {
        let AttemptState::Ended(ended) = &verdict.state else { panic!("{verdict:?}") };
        let error = ended.error.as_ref().unwrap_or_else(|| panic!("{ended:?}"));
        (ended.outcome, error.kind, error.to_string())
    }

    #[test]
    fn recorded_ends_map_to_outcomes() {
        use AttemptOutcome::{Cancelled, Failed, Lost};
        let records = from_sacct(include_str!("recorded/sacct.txt"));
        for (job, outcome, kind, part) in [
            ("1", Failed, ErrorKind::Bug, "ended with exit code 7 without an error on node1"),
            ("3", Failed, ErrorKind::Invalid, "could not start its program"),
            ("4", Failed, ErrorKind::Invalid, "could not open /logs/x.log on node1"),
            ("6_0", Cancelled, ErrorKind::Cancelled, "was cancelled by user 0, not by this run"),
            ("6_1", Lost, ErrorKind::Lost, "its node failed"),
            ("9", Failed, ErrorKind::Invalid, "ran out of memory on node1"),
            ("10", Lost, ErrorKind::Lost, "signal 9"),
            ("24", Failed, ErrorKind::Invalid, "ran out of memory on node[1-2]"),
            ("25", Lost, ErrorKind::Lost, "signal 9"),
            ("11", Failed, ErrorKind::Bug, "crashed (signal 11)"),
            ("17", Lost, ErrorKind::Lost, "preempted for a job of higher priority on node2"),
        ] {
            let record = find(&records, id(job)).unwrap();
            let verdict = judge(id(job), record, &mut JobHistory::default(), "/logs/x.log");
            let found = over(&verdict);
            assert_eq!((found.0, found.1, verdict.remove), (outcome, kind, false), "{job}: {}", found.2);
            assert!(found.2.contains(part) && found.2.contains(&format!("job {job}")), "{job}: {}", found.2);
        }
        let preempted = |job: &str| {
            let record = find(&records, id(job)).unwrap();
            let AttemptState::Ended(ended) = judge(id(job), record, &mut JobHistory::default(), "").state else {
                panic!()
            };
            ended.error.unwrap().preempted
        };
        assert_eq!(["17", "6_1", "10", "1"].map(preempted), [true, false, false, false]);
        let well = judge(id("2"), find(&records, id("2")).unwrap(), &mut JobHistory::default(), "");
        assert_eq!(well.state, AttemptState::Ended(AttemptExit::succeeded_unread()));
    }

    #[test]
    fn pending_job_reports_reason_and_hopeless_job_is_removed() {
        let mut known = JobHistory::default();
        let waits = of_line("1|PENDING|Priority||N/A|low|", &mut known);
        let AttemptState::Pending { why: Some(why) } = &waits.state else { panic!("{waits:?}") };
        assert_eq!(why, "Slurm job 1: Priority (jobs of higher priority come first)");
        assert_eq!(of_line("1|PENDING|None||N/A|low|", &mut known).state, AttemptState::Pending { why: None });
        let never = of_line("1|PENDING|PartitionTimeLimit||N/A|low|", &mut known);
        assert!(never.remove);
        assert_eq!((over(&never).0, over(&never).1), (AttemptOutcome::Failed, ErrorKind::Invalid));
    }

    #[test]
    fn requeued_job_is_lost_and_removed() {
        for lines in [
            ["1|RUNNING|None|n1||low|", "1|PENDING|BeginTime||N/A|low|"],
            ["1|RUNNING|None|n1||low|", "1|REQUEUED|None||N/A|low|"],
            ["1|PENDING|Resources|||low|", "1|REQUEUE_HOLD|None||N/A|low|"],
            ["1|CONFIGURING|None|n1||low|", "1|PENDING|launch failed requeued held||N/A|low|"],
        ] {
            let mut known = JobHistory::default();
            assert!(!of_line(lines[0], &mut known).remove);
            let verdict = of_line(lines[1], &mut known);
            assert!(verdict.remove, "{lines:?}: {verdict:?}");
            assert_eq!(over(&verdict).0, AttemptOutcome::Lost);
            let AttemptState::Ended(AttemptExit { error: Some(error), .. }) = verdict.state else {
                panic!("{lines:?}")
            };
            assert!(error.preempted, "it uses up no retry: {error}");
        }
    }

    #[test]
    fn configuring_or_suspended_job_waits() {
        let mut known = JobHistory::default();
        for state in ["CONFIGURING", "RUNNING", "SUSPENDED", "RUNNING", "COMPLETING"] {
            let verdict = of_line(&format!("1|{state}|None|n1||low|"), &mut known);
            let waits = matches!(verdict.state, AttemptState::Pending { why: Some(_) });
            assert_eq!(waits, state.ends_with("ING") && state.starts_with("CONF") || state == "SUSPENDED", "{state}");
            assert!(waits || verdict.state == AttemptState::Started);
        }
    }

    #[test]
    fn requested_end_is_a_cancellation() {
        for line in ["1|CANCELLED|None|||low|", "1|FAILED|NonZeroExitCode|n1||low|", "1|COMPLETED|None|n1||low|"] {
            let mut known = JobHistory { cancel_requested: true, started: true, ..JobHistory::default() };
            let verdict = of_line(line, &mut known);
            assert_eq!(over(&verdict).0, AttemptOutcome::Cancelled, "{line}");
        }
        let mut known = JobHistory { cancel_requested: true, ..JobHistory::default() };
        assert_eq!(over(&absent(id("6_4"), &mut known, true)).0, AttemptOutcome::Cancelled);
    }

    #[test]
    fn unknown_job_is_lost_after_three_polls() {
        let mut known = JobHistory { started: true, ..JobHistory::default() };
        for _ in 0..10 {
            assert_eq!(absent(id("1"), &mut known, false).state, AttemptState::Started, "accounting is away");
        }
        assert_eq!(absent(id("1"), &mut known, true).state, AttemptState::Started);
        assert_eq!(absent(id("1"), &mut known, true).state, AttemptState::Started);
        of_line("1|RUNNING|None|n1||low|", &mut known);
        let ended: Vec<bool> =
            (0..3).map(|_| matches!(absent(id("1"), &mut known, true).state, AttemptState::Ended(_))).collect();
        assert_eq!(ended, [false, false, true]);
    }

    #[test]
    fn special_exit_codes_map_to_outcomes() {
        for (exit, outcome, part) in [
            ("97:0", AttemptOutcome::Lost, "a second time"),
            ("0:0", AttemptOutcome::Lost, "could not start it on n1 (no reason given)"),
            ("0:15", AttemptOutcome::Lost, "signal 15"),
            ("137:0", AttemptOutcome::Lost, "signal 9"),
            ("126:0", AttemptOutcome::Failed, "could not start its program"),
            ("1:0", AttemptOutcome::Failed, "exit code 1"),
        ] {
            let record = &from_sacct(&format!("1|FAILED|{exit}|0:0|n1|c"))[0];
            let found = over(&judge(id("1"), record, &mut JobHistory::default(), "/l"));
            assert!(found.0 == outcome && found.2.contains(part), "{exit}: {found:?}");
        }
    }
}
