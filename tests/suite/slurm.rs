//! Stages as jobs of a real Slurm: effects of the queue on them, and the leftovers of a killed engine.
//!
//! `.ci/slurm -- cargo test …` starts one (its partitions and nodes are named there) and sets `TRAINYARD_TEST_SLURM`;
//! without the variable the tests report that they are skipped. They run with and without accounting.

use crate::kit::{Ran, Sandbox, ran, skipped, wait_for};
use crate::processes::{kill, matching};
use std::collections::BTreeSet;
use std::process::{Child, Command};

/// Seconds that a job may wait in the queue that all tests share.
const JOB_WAIT_S: u64 = 180;

/// Creates a sandbox whose only pool is Slurm, with options in addition to the defaults.
#[track_caller]
fn cluster(options: &str) -> Option<Sandbox> {
    if std::env::var_os("TRAINYARD_TEST_SLURM").is_none() {
        skipped("TRAINYARD_TEST_SLURM does not say that there is a Slurm");
        return None;
    }
    let s = Sandbox::new();
    let site = format!(
        "version: 1\npools:\n- {{name: cluster, executor: slurm, nodes: 3, cpus: 8, memory: 4000MiB, gpus: 2, \
         with: {{poll: 500ms, log_folder: @logs, gres: \"gpu:h100\"{options}}}}}\n"
    );
    s.write_placed("trainyard.yaml", &site);
    Some(s)
}

/// Writes a workflow of one stage, whose lines are given without their indentation.
fn workflow(s: &Sandbox, stage: &str) {
    let lines: String = stage.lines().map(|line| format!("    {line}\n")).collect();
    s.write_placed("w.yaml", &format!("version: 1\nname: w\nstages:\n  one:\n{lines}"));
}

fn run(s: &Sandbox) -> Ran {
    s.run(&["run", "w.yaml"])
}

fn slurm(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Waits until Slurm's books show the end of a job, and returns its state and exit code: those of accounting, or of the
/// controller where there is no accounting.
fn books(job: &str) -> String {
    let query = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    let ended = || {
        let accounted = query("sacct", &["-X", "-n", "-P", "-o", "state,exitcode", "-j", job]);
        if !accounted.is_empty() {
            return accounted;
        }
        let shown = query("scontrol", &["show", "job", job]);
        let field = |name: &str| shown.split_whitespace().find_map(|word| word.strip_prefix(name));
        format!("{}|{}", field("JobState=").unwrap_or_default(), field("ExitCode=").unwrap_or_default())
    };
    wait_for("the end of the job in the books", JOB_WAIT_S, || {
        !["RUNNING", "COMPLETING"].iter().any(|s| ended().contains(s))
    });
    ended()
}

#[test]
fn a_stage_runs_as_a_job_and_gets_the_gpus_that_slurm_gives() {
    let Some(s) = cluster(", constraint: \"h100&nvlink\", environment: {TOLD: \"it's\"}, setup: export SET=up") else {
        return;
    };
    workflow(
        &s,
        "run: echo \"$SLURM_JOB_ID $SLURM_JOB_NAME\" >> @log; \
         echo \"$CUDA_VISIBLE_DEVICES $TOLD $SET\" > ${{ outputs.o }}/x\noutputs: {o: {kind: files}}\n\
         resources: {gpus: 2, memory: 100MiB}",
    );
    run(&s).code(0);
    s.run(&["artifacts", "export", "latest/one/o", "out"]).code(0);
    assert_eq!(s.read("out/x"), "0,1 it's up\n");
    let log = s.log();
    assert!(log.len() == 1 && log[0].ends_with(" w/one"), "{log:?}");
    run(&s).code(0).says("hit");
    assert_eq!(s.log().len(), 1);
}

/// This Slurm does not confine jobs to their devices.
#[test]
fn a_stage_without_gpus_sees_none() {
    for (options, seen) in [("", "[]"), (", hide_gpus: false", "[unset]")] {
        let Some(s) = cluster(options) else { return };
        workflow(&s, "run: echo \"[${CUDA_VISIBLE_DEVICES-unset}]\" >> @log\nresources: {memory: 100MiB}");
        run(&s).code(0);
        assert_eq!(s.log(), [seen]);
    }
}

#[test]
fn an_exit_code_is_that_of_the_stage_and_the_log_is_kept() {
    let Some(s) = cluster("") else { return };
    workflow(&s, "run: echo about to fail >&2; exit 7");
    run(&s).code(1).says("exit code 7");
    s.run(&["logs", "latest", "one"]).code(0).prints("about to fail");
}

#[test]
fn a_program_that_is_not_on_the_nodes_is_named() {
    let Some(s) = cluster(", setup: exec /nowhere/trainyard") else { return };
    workflow(&s, "run: echo never");
    run(&s).code(1).says("could not start its program").says("exit code 127");
    s.run(&["logs", "latest", "one"]).code(0).prints("/nowhere/trainyard");
}

#[test]
fn what_no_node_has_is_refused_in_slurms_words() {
    let Some(s) = cluster(", constraint: b200") else { return };
    workflow(&s, "run: echo never");
    run(&s).code(1).says("Invalid feature specification").says("sinfo");
    let Some(s) = cluster(", partition: nowhere") else { return };
    workflow(&s, "run: echo never");
    run(&s).code(1).says("nowhere");
}

#[test]
fn what_can_never_start_is_taken_out_of_the_queue() {
    let Some(s) = cluster(", time_limit: 10h") else { return };
    workflow(&s, "run: echo never\ndescription: unstartable");
    run(&s).code(1).says("PartitionTimeLimit").says("time_limit");
}

#[test]
fn cancelling_a_run_ends_its_job_and_all_that_it_started() {
    let Some(s) = cluster("") else { return };
    workflow(&s, "run: echo $SLURM_JOB_ID > @log; setsid sleep 2718.2 & sleep 2718.2");
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the job", JOB_WAIT_S, || !s.log().is_empty());
    s.run(&["runs", "cancel", "latest"]).code(0);
    ran(child.wait_with_output().unwrap()).code(130);
    wait_for("the end of the processes", 30, || matching("sleep 2718.2").is_empty());
    let job = &s.log()[0];
    let left = slurm("squeue", &["--noheader", "--format=%i"]);
    assert!(!left.lines().any(|line| line == job), "{left}");
}

#[test]
fn a_job_that_still_waits_is_cancelled_without_a_start() {
    let Some(s) = cluster(", extra: [--begin=now+3600]") else { return };
    workflow(&s, "run: echo never >> @log");
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("its reason", JOB_WAIT_S, || s.run(&["explain", "latest", "one"]).stdout.contains("BeginTime"));
    s.run(&["runs", "cancel", "latest"]).code(0);
    ran(child.wait_with_output().unwrap()).code(130);
    assert_eq!(s.log(), [""; 0]);
}

#[test]
fn a_timeout_ends_the_job() {
    let Some(s) = cluster("") else { return };
    workflow(&s, "run: setsid sleep 1414.2 & sleep 1414.2\ntimeout: 3s");
    run(&s).code(1).says("timeout");
    wait_for("the end of the processes", 30, || matching("sleep 1414.2").is_empty());
}

#[test]
fn a_job_that_uses_more_memory_than_it_asked_for_says_so_and_is_not_tried_again() {
    let Some(s) = cluster("") else { return };
    if std::env::var_os("TRAINYARD_TEST_SLURM_MEMORY").is_none() {
        return skipped("this Slurm does not limit memory");
    }
    workflow(
        &s,
        "run: echo try >> @log; head -c 400000000 /dev/zero | tail\nresources: {memory: 120MiB}\n\
         retry: {attempts: 3, backoff: 1s..1s}",
    );
    run(&s).code(1).says("out of memory").says("resources");
    assert_eq!(s.log().len(), 1);
}

#[test]
fn several_nodes_whose_attempts_are_killed_are_lost_and_tried_again() {
    let Some(s) = cluster("") else { return };
    workflow(
        &s,
        "run: \"echo try >> @log; if [ $(grep -c . @log) -gt 2 ]; then exit 0; fi; sleep 1; kill -9 $PPID; sleep 5\"\n\
         resources: {nodes: 2, memory: 300MiB, wait: 2m}\nretry: {attempts: 3, backoff: 1s..1s}",
    );
    run(&s).code(0).says("signal 9");
    assert_eq!(s.log().len(), 4, "once on each node, and again");
}

#[test]
fn a_fan_out_is_one_array() {
    let Some(s) = cluster("") else { return };
    s.write_placed(
        "w.yaml",
        "version: 1\nname: w\nstages:\n  many:\n    \
         matrix: {n: [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]}\n    \
         run: echo \"$SLURM_ARRAY_JOB_ID ${{ matrix.n }}\" >> @log; echo ${{ matrix.n }} > ${{ outputs.o }}/n\n    \
         outputs: {o: {kind: files}}\n    resources: {memory: 100MiB}\n",
    );
    run(&s).code(0);
    let log = s.log();
    let arrays: BTreeSet<&str> = log.iter().filter_map(|line| line.split(' ').next()).collect();
    let members: BTreeSet<&str> = log.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!((log.len(), arrays.len(), members.len()), (20, 1, 20), "{log:?}");
}

/// Starts a run whose stage waits for the file `go`, and waits until the stage has started.
fn slow(s: &Sandbox) -> Child {
    workflow(
        s,
        "run: echo $SLURM_JOB_ID >> @log; while [ ! -e @go ]; do sleep 0.2; done; echo 1 > ${{ outputs.o }}/x\n\
         outputs: {o: {kind: files}}",
    );
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the stage", JOB_WAIT_S, || !s.log().is_empty());
    child
}

fn status(s: &Sandbox) -> String {
    let list = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    list[0]["status"].as_str().unwrap_or_default().to_string()
}

#[test]
fn a_killed_engine_leaves_its_jobs_and_the_next_one_finds_them() {
    let Some(s) = cluster("") else { return };
    let mut child = slow(&s);
    kill(&mut child);
    assert_eq!(status(&s), "unfinished");
    let second = s.spawn(&["run", "w.yaml"]);
    wait_for("the second engine", JOB_WAIT_S, || status(&s) == "running");
    s.write("go", "");
    ran(second.wait_with_output().unwrap()).code(0).says("resuming run");
    assert_eq!(s.log().len(), 1, "it was started once");
}

#[test]
fn a_job_that_ended_while_nobody_watched_is_not_started_again() {
    let Some(s) = cluster("") else { return };
    let mut child = slow(&s);
    kill(&mut child);
    s.write("go", "");
    let job = s.log().remove(0);
    wait_for("the end of the job", JOB_WAIT_S, || {
        !slurm("squeue", &["--noheader", "--format=%i"]).lines().any(|line| line == job)
    });
    run(&s).code(0);
    assert_eq!(s.log().len(), 1);
}

#[test]
fn a_job_that_somebody_cancels_fails_its_stage() {
    let Some(s) = cluster("") else { return };
    let child = slow(&s);
    slurm("scancel", &[&s.log()[0]]);
    let ended = ran(child.wait_with_output().unwrap());
    let ended = ended.code(1).says("was cancelled").says("not by this run");
    assert_eq!(s.log().len(), 1, "{}", ended.stderr);
}

/// The node of the first alternative is taken by another job for longer than the stage waits; those of the second are
/// free.
#[test]
fn a_stage_that_gets_no_machine_goes_to_its_other_alternative() {
    let Some(s) = cluster("") else { return };
    let pool = |name: &str, partition: &str, tag: &str, priority: u32| {
        format!(
            "- {{name: {name}, executor: slurm, cpus: 8, memory: 4000MiB, tags: [{tag}], priority: {priority}, \
             with: {{poll: 500ms, log_folder: @logs, partition: {partition}}}}}\n"
        )
    };
    let pools = pool("first", "spare", "spot", 5) + &pool("second", "main", "own", 0);
    s.write_placed("trainyard.yaml", &format!("version: 1\npools:\n{pools}"));
    let taken = ["--parsable", "--partition=spare", "--ntasks=1", "--cpus-per-task=8", "--mem=100"];
    let taken = slurm("sbatch", &[&taken[..], &["--output=/dev/null", "--wrap=sleep 300"]].concat());
    wait_for("the other job", JOB_WAIT_S, || {
        slurm("squeue", &["--noheader", "--format=%T", "-j", &taken]) == "RUNNING"
    });
    workflow(
        &s,
        "run: echo $SLURMD_NODENAME >> @log\n\
         resources: {memory: 100MiB, cpus: 2, wait: 45s, any_of: [{tags: [spot]}, {tags: [own]}]}\n\
         retry: {attempts: 8, backoff: 1s..1s}",
    );
    let ended = run(&s);
    slurm("scancel", &[&taken]);
    ended.code(0).says("no machine accepted the attempt within 45.0s");
    assert_eq!(s.log().len(), 1);
    let shown = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let attempts = shown["stages"][0]["attempts"].as_array().unwrap();
    let pools: Vec<&str> = attempts.iter().filter_map(|attempt| attempt["pool"].as_str()).collect();
    // Jobs of other tests may hold the second one for a while, too.
    assert_eq!((&pools[..2], pools.last()), (&["first", "second"][..], Some(&"second")));
}

/// The partition `low` is preempted by `high`; Slurm requeues preempted jobs if allowed.
#[test]
fn a_preempted_job_uses_up_no_retry() {
    let Some(s) = cluster(", partition: low") else { return };
    workflow(
        &s,
        "run: echo $SLURM_JOB_ID >> @log; while [ ! -e @go ]; do sleep 0.2; done\nresources: {cpus: 8}\n\
         retry: {attempts: 1, backoff: 1s..1s}",
    );
    let child = s.spawn(&["run", "w.yaml"]);
    wait_for("the stage", JOB_WAIT_S, || s.log().len() == 1);
    slurm("sbatch", &["--partition=high", "--ntasks=8", "--mem=50", "--output=/dev/null", "--wrap=sleep 3"]);
    wait_for("the second attempt", 120, || s.log().len() == 2);
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(0);
    let jobs: BTreeSet<String> = s.log().into_iter().collect();
    assert_eq!(jobs.len(), 2, "another job, not the same one again");
}

#[test]
fn slurms_own_time_limit_is_told_as_one() {
    let Some(s) = cluster(", time_limit: 1s") else { return };
    workflow(&s, "run: trap '' TERM; while true; do sleep 1; done\nretry: {attempts: 1}");
    run(&s).code(1).says("exceeded its time limit");
}

#[test]
fn a_stage_on_two_nodes_is_one_job_with_a_process_on_each() {
    let Some(s) = cluster("") else { return };
    workflow(
        &s,
        "run: echo \"$SLURM_JOB_ID $SLURMD_NODENAME $TRAINYARD_NODE_RANK $TRAINYARD_NODES $TRAINYARD_NODE_ADDRESSES\" \
         >> @log; echo $TRAINYARD_NODE_RANK > ${{ outputs.o }}/rank\noutputs: {o: {kind: files}}\n\
         resources: {nodes: 2, memory: 300MiB, wait: 2m}",
    );
    run(&s).code(0);
    let log = s.log();
    let column = |at: usize| log.iter().filter_map(|l| l.split(' ').nth(at)).collect::<BTreeSet<&str>>();
    assert_eq!((log.len(), column(0).len(), column(1).len()), (2, 1, 2), "{log:?}");
    assert_eq!((column(2), column(3)), (["0", "1"].into(), ["2"].into()), "{log:?}");
    assert_eq!(column(4).len(), 1, "both were told the same: {log:?}");
    let job = log[0].split(' ').next().unwrap();
    assert_eq!(books(job), "COMPLETED|0:0", "the attempt ends nothing of Slurm");
    s.run(&["artifacts", "export", "latest/one/o", "out"]).code(0);
    assert_eq!(s.read("out/rank"), "0\n");
}

/// Begins, announces a checkpoint on the first node, and kills its attempt on both once the store has the checkpoint.
const KILLED_NODES: &str = r#"
if [ -n "${TRAINYARD_RESUME-}" ]; then
  echo "$TRAINYARD_NODE_RANK resumes after $(cat "$TRAINYARD_RESUME/step")" >> @log
  exit 0
fi
echo "$TRAINYARD_NODE_RANK begins" >> @log
mkdir c
echo 5 > c/step
if [ "$TRAINYARD_NODE_RANK" = 0 ]; then
  echo '{"checkpoint": "c", "step": 5}' >> "$TRAINYARD_METRICS"
else
  echo '{"checkpoint": "nowhere", "step": 9}' >> "$TRAINYARD_METRICS"
fi
while ! ls @.trainyard/checkpoints/*/*/*.json > /dev/null 2>&1; do sleep 0.2; done
sleep 1
kill -9 $PPID
sleep 5
"#;

#[test]
fn all_nodes_resume_from_a_checkpoint_of_the_first() {
    let Some(s) = cluster("") else { return };
    s.write_placed("nodes.sh", KILLED_NODES);
    workflow(
        &s,
        "run: . @nodes.sh\nresources: {nodes: 2, memory: 300MiB, wait: 2m}\n\
         retry: {attempts: 3, backoff: 1s..1s}",
    );
    run(&s).code(0).says("signal 9");
    let mut log = s.log();
    log.sort();
    assert_eq!(log, ["0 begins", "0 resumes after 5", "1 begins", "1 resumes after 5"]);
}

#[test]
fn a_node_that_fails_ends_the_stage_and_is_named() {
    let Some(s) = cluster("") else { return };
    workflow(
        &s,
        "run: if [ $TRAINYARD_NODE_RANK = 1 ]; then sleep 3; echo no link >&2; exit 5; fi; echo $SLURM_JOB_ID >> @log; \
         sleep 2929.2\nresources: {nodes: 2, memory: 300MiB}",
    );
    // The reason must not depend on which process ends first.
    for round in 1..=5 {
        let ended = run(&s).code(1).says("node 1").says("no link");
        assert!(!ended.stderr.contains("from outside"), "{}", ended.stderr);
        wait_for("the end of the processes", 30, || matching("sleep 2929.2").is_empty());
        let log = s.log();
        assert_eq!(log.len(), round, "a certain failure is not tried again: {log:?}");
        assert_eq!(books(&log[round - 1]), "FAILED|1:0", "the exit code is that of the attempt");
    }
}
