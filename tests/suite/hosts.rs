//! Commands of one run share the process that hosts them, and are independent of each other.

use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::{kill, matching, signal};
use std::process::Child;

/// Creates a sandbox whose machine has this many CPUs.
fn machine(cpus: u32) -> Sandbox {
    let s = Sandbox::new();
    s.write("trainyard.yaml", format!("version: 1\npools:\n  - {{name: here, cpus: {cpus}}}\n"));
    s
}

/// Finds the process of the commands: the only one that is started as an attempt here.
fn host(s: &Sandbox) -> String {
    matching(&format!("attempt file://{}", s.store().display())).join("\n")
}

/// A process that leaves its session, its parent and its environment ends when the last command has ended, at the
/// latest.
#[test]
fn what_hides_from_a_command_ends_with_the_commands() {
    let s = machine(1);
    s.write_placed(
        "hides.yaml",
        "version: 1\nname: hides\nstages:\n  one:\n    \
         run: '(env -i setsid sh -c \"echo \\$\\$ > @new; mv @new @pid; exec sleep 600\" > /dev/null 2>&1 \
         < /dev/null &); while [ ! -e @pid ]; do sleep 0.05; done'\n",
    );
    s.run(&["run", "hides.yaml"]).code(0);
    let pid = s.read("pid").trim().to_string();
    assert!(pid.parse::<u32>().is_ok(), "{pid}");
    wait_for("the end of what the command left", 10, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    });
}

#[test]
fn commands_share_one_process_and_each_has_its_own_log() {
    let s = machine(4);
    s.write_placed(
        "share.yaml",
        "version: 1\nname: share\nstages:\n  each:\n    matrix: {n: [1, 2, 3, 4, 5, 6]}\n    \
         run: 'echo $PPID ${{ matrix.n }} >> @log; echo said ${{ matrix.n }}; echo more >&2; \
         echo ${{ matrix.n }} > ${{ outputs.o }}/n'\n    outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "share.yaml"]).code(0).prints("6 done");
    let parents: Vec<String> = s.log().iter().map(|line| line.split(' ').next().unwrap().to_string()).collect();
    assert_eq!((parents.len(), parents.iter().all(|pid| *pid == parents[0])), (6, true), "{parents:?}");
    assert_eq!(host(&s), "", "it ends with the run");
    for n in 1..=6 {
        let logs = s.run(&["logs", "latest", &format!("each[n={n}]")]).code(0).prints(&format!("said {n}"));
        assert_eq!(logs.stdout.matches("said").count(), 1, "{}", logs.stdout);
    }
    assert_eq!(s.files("home/scratch"), ["lock"]);
    assert_eq!(s.files("home/slots"), ["lock"]);
}

#[test]
fn what_a_command_leaves_is_ended_and_what_its_neighbor_leaves_is_not() {
    let s = machine(4);
    s.write_placed(
        "leaves.yaml",
        "version: 1\nname: leaves\nstages:\n  \
         waits: {run: '(setsid sh -c \"while [ ! -e @go ]; do sleep 0.05; done; echo waited >> @log\" &); \
         echo waits >> @log; while ! grep -q waited @log; do sleep 0.05; done'}\n  \
         leaves: {run: 'while ! grep -q waits @log; do sleep 0.05; done; (setsid sleep 1000 &); sleep 0.2'}\n  \
         after: {needs: [leaves], run: 'touch @go'}\n",
    );
    s.run(&["run", "leaves.yaml"]).code(0).prints("3 done");
    s.run(&["logs", "latest", "leaves"]).code(0).prints("processes that outlived the command and were killed: 1");
    assert!(!s.run(&["logs", "latest", "waits"]).stdout.contains("outlived"));
}

#[test]
fn all_that_a_host_carried_are_lost_with_it_and_tried_again() {
    let s = machine(3);
    s.write_placed(
        "three.yaml",
        "version: 1\nname: three\nstages:\n  each:\n    matrix: {n: [1, 2, 3]}\n    \
         run: 'echo ${{ matrix.n }} >> @log; while [ ! -e @go ]; do sleep 0.05; done'\n",
    );
    let child = s.spawn(&["run", "three.yaml"]);
    wait_for("three commands", 30, || s.log().len() == 3);
    signal("-KILL", &host(&s));
    wait_for("three more", 30, || s.log().len() == 6);
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(0).prints("3 done");
}

/// Starts a run that holds the whole machine, and writes the workflow to run after its engine is killed.
fn engine_killed() -> (Sandbox, Child) {
    let s = machine(1);
    s.write_placed(
        "first.yaml",
        "version: 1\nname: first\nstages:\n  \
         first: {run: 'trap \"\" TERM; echo first >> @log; while [ ! -e @go ]; do sleep 0.05; done; \
         echo ended >> @log'}\n",
    );
    s.write_placed("next.yaml", "version: 1\nname: next\nstages:\n  next: {run: 'echo next >> @log'}\n");
    let child = s.spawn(&["run", "first.yaml"]);
    wait_for("the first command", 30, || s.log() == ["first"]);
    (s, child)
}

#[test]
fn slots_last_as_long_as_the_host_of_a_dead_engine() {
    let (s, mut engine) = engine_killed();
    kill(&mut engine);
    let next = s.spawn(&["run", "next.yaml"]);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(s.log(), ["first"], "the machine is taken until the host has ended the command");
    ran(next.wait_with_output().unwrap()).code(0);
    assert_eq!(s.log(), ["first", "next"]);
}

#[test]
fn slots_last_as_long_as_a_command_that_nobody_is_left_to_end() {
    let (s, mut engine) = engine_killed();
    let host = host(&s);
    engine.kill().unwrap();
    signal("-KILL", &host);
    engine.wait().unwrap();
    let next = s.spawn(&["run", "next.yaml"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(s.log(), ["first"], "the machine is taken");
    s.write("go", "");
    ran(next.wait_with_output().unwrap()).code(0);
    assert_eq!(s.log(), ["first", "ended", "next"]);
}

#[test]
fn a_command_is_measured_by_its_own_memory() {
    let s = machine(1);
    s.write(
        "memory.yaml",
        "version: 1\nname: memory\nstages:\n  large:\n    \
         run: 'head -c 300000000 /dev/zero | tail -c 300000000 | wc -c > ${{ outputs.o }}/n'\n    \
         outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "memory.yaml"]).code(0);
    let shown = s.run(&["artifacts", "show", "latest/large/o", "--format", "json"]).code(0).json();
    let peak = shown["measured"]["peak_memory_bytes"].as_u64().unwrap_or_else(|| panic!("{shown}"));
    assert!((300_000_000..2_000_000_000).contains(&peak), "{peak}");
}
