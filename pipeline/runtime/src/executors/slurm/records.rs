//! Parses the output of `squeue`, `sacct` and `scontrol`. Lines that cannot be parsed are skipped, because the comments
//! of the user's other jobs may contain any text.

use super::ids::{JobId, JobSet};
use super::job_state::JobState;

/// Columns of [`from_squeue`]: jobs, state, reason, nodes, expected start, partition, comment. The comment comes last,
/// since it may hold the separator.
pub(super) const SQUEUE: &str = "%i|%T|%r|%N|%S|%P|%k";
/// Columns of [`from_squeue`] without comments, which are long and repeated for every member of an array.
pub(super) const SQUEUE_WITHOUT_COMMENTS: &str = "%i|%T|%r|%N|%S|%P|";
/// Columns of [`from_sacct`].
pub(super) const SACCT: &str = "JobID,State,ExitCode,DerivedExitCode,NodeList,Comment";

/// Slurm's record of a job, or of some members of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlurmRecord {
    pub jobs: JobSet,
    pub state: JobState,
    /// Exit code and signal, if the tool reports them.
    pub exit: Option<JobExit>,
    /// Why it waits, or why it ended.
    pub reason: String,
    /// Names of its nodes, if it has any.
    pub nodes: String,
    /// When it is expected to start, or started; empty if that is unknown.
    pub start: String,
    pub partition: String,
    pub comment: String,
}

/// Signal that Slurm reports for a step that the kernel stopped for its memory limit.
const OUT_OF_MEMORY: u32 = 125;

/// How a job's script ended: the two numbers of `7:0`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct JobExit {
    pub code: u32,
    pub signal: u32,
}

impl SlurmRecord {
    fn of(jobs: JobSet, state: JobState) -> Self {
        let none = String::new;
        Self {
            jobs,
            state,
            exit: None,
            reason: none(),
            nodes: none(),
            start: none(),
            partition: none(),
            comment: none(),
        }
    }
}

/// Returns the record of a job: its own, or the record of the rest of its array, because members that were cancelled
/// together before they started have no separate line. Returns `None` if neither exists.
pub(super) fn find(records: &[SlurmRecord], id: JobId) -> Option<&SlurmRecord> {
    let own = records.iter().find(|r| r.jobs.names(id));
    own.or_else(|| records.iter().find(|r| r.jobs.is_rest_of_its_array(id) && r.state.is_over()))
}

/// Parses the lines of `squeue --noheader --format=`[`SQUEUE`].
pub(super) fn from_squeue(text: &str) -> Vec<SlurmRecord> {
    text.lines().filter_map(squeue_line).collect()
}

fn squeue_line(line: &str) -> Option<SlurmRecord> {
    let mut columns = line.splitn(7, '|');
    let mut next = || columns.next().map(plain);
    let record = SlurmRecord::of(JobSet::parse(next()?)?, JobState::parse(next()?));
    let (reason, nodes, start, partition, comment) = (next()?, next()?, next()?, next()?, next()?);
    Some(SlurmRecord {
        reason: reason.into(),
        nodes: nodes.into(),
        start: start.into(),
        partition: partition.into(),
        comment: comment.into(),
        ..record
    })
}

/// Returns the state of a job, which Slurm calls a failure if only a step ran out of memory: on several nodes the
/// attempts are a step of `srun`, which outlives them. `steps` is the worst end of a step.
fn with_steps(state: JobState, steps: Option<JobExit>) -> JobState {
    let out_of_memory = steps.is_some_and(|exit| exit.signal == OUT_OF_MEMORY);
    if state == JobState::Failed && out_of_memory { JobState::OutOfMemory } else { state }
}

/// Parses the lines of `sacct --allocations --noheader --parsable2 --format=`[`SACCT`].
pub(super) fn from_sacct(text: &str) -> Vec<SlurmRecord> {
    text.lines().filter_map(sacct_line).collect()
}

fn sacct_line(line: &str) -> Option<SlurmRecord> {
    let mut columns = line.splitn(6, '|');
    let mut next = || columns.next().map(plain);
    let (jobs, state) = (JobSet::parse(next()?)?, JobState::parse(next()?));
    let (own, steps, nodes, comment) = (exit(next()?), exit(next()?), next()?, next()?);
    let record = SlurmRecord::of(jobs, with_steps(state, steps));
    Some(SlurmRecord { exit: own, nodes: nodes.into(), comment: comment.into(), ..record })
}

/// Parses the line of `scontrol --details --oneliner show job ID`. Valid only for this executor's jobs, whose names
/// have no spaces.
pub(super) fn from_scontrol(text: &str, id: JobId) -> Option<SlurmRecord> {
    let line = text.lines().next()?;
    let value = |key: &str| line.split(' ').find_map(|field| field.strip_prefix(key)?.strip_prefix('=')).map(plain);
    let steps = value("DerivedExitCode").and_then(exit);
    let state = with_steps(JobState::parse(value("JobState")?), steps);
    let record = SlurmRecord::of(JobSet::parse(&id.to_string())?, state);
    let text = |key: &str| value(key).unwrap_or_default().to_string();
    Some(SlurmRecord {
        exit: value("ExitCode").and_then(exit),
        reason: text("Reason"),
        nodes: text("NodeList"),
        ..record
    })
}

/// Maps the words of Slurm for a missing value to the empty text.
fn plain(column: &str) -> &str {
    let column = column.trim();
    if matches!(column, "(null)" | "N/A" | "None" | "None assigned" | "Unknown") { "" } else { column }
}

fn exit(text: &str) -> Option<JobExit> {
    let (code, signal) = text.split_once(':')?;
    Some(JobExit { code: code.parse().ok()?, signal: signal.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> JobId {
        JobId::parse(text).unwrap()
    }
    fn seen(records: &[SlurmRecord], of: &str) -> (JobState, String) {
        let record = find(records, id(of)).unwrap_or_else(|| panic!("{of}"));
        (record.state.clone(), record.reason.clone())
    }

    #[test]
    fn recorded_squeue_output_is_parsed() {
        let records = from_squeue(include_str!("recorded/squeue.txt"));
        let lines = include_str!("recorded/squeue.txt").lines().count();
        assert_eq!(records.len(), lines);
        let waits = |reason: &str| (JobState::Pending, reason.to_string());
        assert_eq!(seen(&records, "6_5"), waits("JobArrayTaskLimit"));
        assert_eq!(seen(&records, "6_3").0, JobState::Active);
        assert_eq!(seen(&records, "9"), (JobState::OutOfMemory, "OutOfMemory".into()));
        assert_eq!(seen(&records, "12"), waits("PartitionTimeLimit"));
        assert_eq!(seen(&records, "20"), waits("Resources"));
        let waiting = find(&records, id("20")).unwrap();
        assert_eq!((waiting.start.as_str(), waiting.nodes.as_str()), ("2026-11-22T13:15:35", ""));
        assert_eq!(find(&records, id("2")).unwrap().comment, "a|b|c");
        assert_eq!(find(&records, id("6_6")), None);
        assert_eq!(find(&records, id("99")), None);
    }

    #[test]
    fn recorded_sacct_output_is_parsed() {
        let records = from_sacct(include_str!("recorded/sacct.txt"));
        assert_eq!(records.len(), include_str!("recorded/sacct.txt").lines().count());
        let exit = |of: &str| {
            let record = find(&records, id(of)).unwrap();
            (record.state.clone(), record.exit.map(|e| (e.code, e.signal)))
        };
        assert_eq!(exit("1"), (JobState::Failed, Some((7, 0))));
        assert_eq!(exit("10"), (JobState::Failed, Some((0, 9))));
        assert_eq!(exit("9"), (JobState::OutOfMemory, Some((0, 125))));
        assert_eq!(exit("24"), (JobState::OutOfMemory, Some((1, 0))), "on two nodes");
        assert_eq!(exit("6_0"), (JobState::Cancelled { by: Some(0) }, Some((0, 0))));
        assert_eq!(exit("6_1"), (JobState::Lost("NODE_FAIL"), Some((0, 0))));
        assert_eq!(exit("6_3"), (JobState::Active, Some((0, 0))));
        assert_eq!(exit("17"), (JobState::Lost("PREEMPTED"), Some((0, 0))));
        assert_eq!(find(&records, id("20")).unwrap().nodes, "", "`None assigned` is none");
        assert_eq!(find(&records, id("14")), None, "it waits, held: only the queue knows");
    }

    #[test]
    fn recorded_scontrol_output_is_parsed() {
        let record = from_scontrol(include_str!("recorded/scontrol.txt"), id("1")).unwrap();
        assert_eq!(record.state, JobState::Failed);
        assert_eq!(record.exit, Some(JobExit { code: 7, signal: 0 }));
        assert_eq!((record.reason.as_str(), record.nodes.as_str()), ("NonZeroExitCode", "node1"));
        let member = from_scontrol(include_str!("recorded/scontrol_member.txt"), id("6_0")).unwrap();
        assert_eq!(
            (member.state, member.exit),
            (JobState::Cancelled { by: None }, Some(JobExit { code: 0, signal: 15 }))
        );
        let step = from_scontrol(include_str!("recorded/scontrol_step.txt"), id("24")).unwrap();
        assert_eq!((step.state, step.exit), (JobState::OutOfMemory, Some(JobExit { code: 1, signal: 0 })));
        assert_eq!(from_scontrol("Job 6_4 not found\n", id("6_4")), None);
        assert_eq!(from_scontrol("", id("6_4")), None);
    }

    #[test]
    fn member_without_a_line_has_the_state_of_its_cancelled_array() {
        let rest = from_squeue("6|CANCELLED|JobArrayTaskLimit|||low|c\n6_1|RUNNING|None|n1||low|c\n");
        assert_eq!(seen(&rest, "6_5").0, JobState::Cancelled { by: None });
        assert_eq!(seen(&rest, "6_1").0, JobState::Active);
        let alive = from_squeue("6|PENDING|Resources|||low|c\n");
        assert_eq!(find(&alive, id("6_5")), None);
    }

    #[test]
    fn unparsable_lines_are_skipped() {
        let text = "\n\u{1b}[31m\nslurm_load_jobs error\n12+0|RUNNING|None|n|s|p|c\n7|RUNNING\n\
            8|RUNNING|None|n1|N/A|low|a|b|c\n9|GOING_UP|None|n1||low|(null)\n9|||||\n";
        let records = from_squeue(text);
        assert_eq!(records.len(), 2, "{records:?}");
        assert_eq!(records[0].comment, "a|b|c");
        assert_eq!((&records[1].state, records[1].comment.as_str()), (&JobState::Active, ""));
        assert!(from_sacct("1.batch|FAILED|7:0||n|\nheader\n1|FAILED\n").is_empty());
        assert_eq!(from_sacct("1|FAILED|x||n|c\n")[0].exit, None);
    }
}
