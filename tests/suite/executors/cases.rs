//! The cases. Stages record their actions in the file `log` of the sandbox, which every executor of the suite can see.

use super::pool::{Pool, attempts, marked, signal};
use crate::kit::{Sandbox, ran, wait_for};
use crate::processes::kill;
use std::process::Child;

/// Returns the outcomes of a stage's attempts in the latest run, in order.
fn outcomes(s: &Sandbox, stage: &str) -> Vec<String> {
    let run = s.run(&["runs", "show", "latest", "--format", "json"]).code(0).json();
    let stages = run["stages"].as_array().unwrap();
    let found = stages.iter().find(|found| found["stage"] == stage || found["key"] == stage || found["name"] == stage);
    let attempts = found.unwrap_or_else(|| panic!("no stage {stage} in {run}"))["attempts"].as_array().unwrap().clone();
    attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap_or("running").to_string()).collect()
}

/// Starts a run of one stage that logs its start, then waits for the file `go`.
fn waiting(s: &Sandbox, pool: &Pool, more: &str) -> Child {
    s.write_placed(
        "waits.yaml",
        &format!(
            "version: 1\nname: waits\nstages:\n  waits:\n    \
             run: 'echo works >> @log; while [ ! -e @go ]; do sleep 0.05; done; echo done >> @log'\n{more}"
        ),
    );
    let child = s.spawn(&["run", "waits.yaml"]);
    wait_for("the stage to work", pool.seconds(20), || s.logged("works") == 1);
    child
}

pub fn exit_codes_are_told(pool: &Pool) {
    let s = pool.sandbox();
    s.write(
        "codes.yaml",
        "version: 1\nname: codes\nstages:\n  good: {run: 'true'}\n  bad: {run: 'echo no luck >&2; exit 7'}\n",
    );
    s.run(&["run", "codes.yaml"]).code(1).says("exit code 7: no luck");
    assert_eq!((outcomes(&s, "good"), outcomes(&s, "bad")), (vec!["succeeded".into()], vec!["failed".to_string()]));
}

pub fn inputs_and_outputs_are_staged(pool: &Pool) {
    let s = pool.sandbox();
    s.write("greet.sh", "printf hello");
    s.write("data/name", "world");
    s.write(
        "staged.yaml",
        "version: 1\nname: staged\nstages:\n  \
         first:\n    files: [greet.sh]\n    run: 'sh greet.sh > ${{ outputs.o }}/text'\n    \
         outputs: {o: {kind: files}}\n  \
         second:\n    files: [data]\n    with: {i: '${{ stages.first.o }}'}\n    \
         run: 'cat ${{ inputs.i }}/text data/name > ${{ outputs.o }}/text'\n    outputs: {o: {kind: files}}\n",
    );
    s.run(&["run", "staged.yaml"]).code(0);
    s.run(&["artifacts", "export", "latest/second/o", "out"]).code(0);
    assert_eq!(s.read("out/text"), "helloworld");
    s.run(&["run", "staged.yaml"]).code(0).prints("2 hit");
}

pub fn a_log_can_be_read_while_it_is_written(pool: &Pool) {
    let s = pool.sandbox();
    s.write_placed(
        "logs.yaml",
        "version: 1\nname: logs\nstages:\n  talks:\n    \
         run: 'echo first words; while [ ! -e @go ]; do sleep 0.05; done; echo last words'\n",
    );
    let child = s.spawn(&["run", "logs.yaml"]);
    let says = |words: &str| s.run(&["logs", "latest", "talks"]).stdout.contains(words);
    wait_for("the first words", pool.seconds(20), || says("first words"));
    assert!(!says("last words"));
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(0);
    assert!(says("first words") && says("last words"));
}

pub fn cancelling_kills_the_whole_tree(pool: &Pool) {
    let s = pool.sandbox();
    s.write_placed(
        "tree.yaml",
        "version: 1\nname: tree\nstages:\n  tree:\n    \
         run: 'sleep 1000 & (trap \"\" TERM; sleep 1001) & setsid sleep 1002 & echo works >> @log; wait'\n",
    );
    let child = s.spawn(&["run", "tree.yaml"]);
    wait_for("the stage to work", pool.seconds(20), || s.logged("works") == 1);
    assert!(marked(&s).len() >= 4, "the attempt and its commands carry its mark");
    s.run(&["runs", "cancel", "latest"]).code(0);
    ran(child.wait_with_output().unwrap()).code(130);
    wait_for("the end of the tree", pool.seconds(20), || marked(&s).is_empty());
    assert_eq!(outcomes(&s, "tree"), ["cancelled"]);
}

pub fn a_timeout_ends_the_attempt(pool: &Pool) {
    let s = pool.sandbox();
    s.write(
        "slow.yaml",
        "version: 1\nname: slow\nstages:\n  slow: {run: 'sleep 1000', timeout: 2s, retry: {attempts: 1}}\n",
    );
    s.run(&["run", "slow.yaml"]).code(1).says("timeout");
    wait_for("the end of the tree", pool.seconds(20), || marked(&s).is_empty());
    assert_eq!(outcomes(&s, "slow"), ["timed_out"]);
}

/// The shell below the command holds a text of 400 MB; the attempt is not retried.
pub fn more_memory_than_was_asked_for_ends_the_attempt(pool: &Pool) {
    let s = pool.sandbox();
    s.write_placed(
        "hog.yaml",
        "version: 1\nname: hog\nstages:\n  hog:\n    \
         run: 'echo works >> @log; (x=$(head -c 400000000 /dev/zero | tr \"\\\\0\" x); sleep 1000); sleep 1000'\n    \
         resources: {memory: 200MiB}\n    retry: {attempts: 3, backoff: 1s..1s}\n",
    );
    s.run(&["run", "hog.yaml"]).code(1).says("ran out of memory");
    wait_for("the end of the tree", pool.seconds(20), || marked(&s).is_empty());
    assert_eq!((outcomes(&s, "hog"), s.logged("works")), (vec!["failed".into()], 1));
}

pub fn an_attempt_keeps_its_deadline_without_an_engine(pool: &Pool) {
    let s = pool.sandbox();
    let mut child = waiting(&s, pool, "    timeout: 4s\n    retry: {attempts: 1}\n");
    kill(&mut child);
    wait_for("the end of the tree", pool.seconds(40), || marked(&s).is_empty());
    assert_eq!(s.logged("done"), 0);
}

pub fn the_next_engine_takes_attempts_over(pool: &Pool) {
    let s = pool.sandbox();
    let mut child = waiting(&s, pool, "");
    kill(&mut child);
    if pool.outlives_engine {
        std::thread::sleep(std::time::Duration::from_secs(3));
        assert!(!attempts(&s).is_empty(), "the attempt lives without its engine");
    }
    let next = s.spawn(&["run", "waits.yaml"]);
    if !pool.outlives_engine {
        wait_for("the second attempt", pool.seconds(20), || s.logged("works") == 2);
    }
    s.write("go", "");
    ran(next.wait_with_output().unwrap()).code(0).says("resuming run");
    assert_eq!(s.logged("works"), if pool.outlives_engine { 1 } else { 2 });
    assert_eq!(s.logged("done"), 1);
}

/// Engines are killed at any moment around the launch; each attempt writes its URL when it begins.
pub fn no_attempt_is_launched_twice(pool: &Pool) {
    let s = pool.sandbox();
    s.write_placed(
        "once.yaml",
        "version: 1\nname: once\nstages:\n  once:\n    \
         run: 'echo ${TRAINYARD_ATTEMPT%% *} >> @log; while [ ! -e @go ]; do sleep 0.05; done'\n",
    );
    for millis in [20, 60, 120, 200, 300, 500, 800, 1_500] {
        let mut child = s.spawn(&["run", "once.yaml"]);
        std::thread::sleep(std::time::Duration::from_millis(millis));
        kill(&mut child);
    }
    let last = s.spawn(&["run", "once.yaml"]);
    wait_for("the stage to work", pool.seconds(20), || !s.log().is_empty());
    s.write("go", "");
    ran(last.wait_with_output().unwrap()).code(0);
    let mut begun = s.log();
    begun.sort();
    let all = begun.len();
    begun.dedup();
    assert_eq!(begun.len(), all, "{begun:?}");
    if pool.outlives_engine {
        assert_eq!(all, 1, "every engine found the attempt of the first: {begun:?}");
    }
}

/// Ends the attempt unexpectedly; its second try succeeds.
fn ended_from_outside(pool: &Pool, name: &str) {
    let s = pool.sandbox();
    // An attempt that records its own end knows that the machine was taken away, which uses up no retry.
    let tries = if name == "TERM" && pool.outlives_engine { 1 } else { 2 };
    let child = waiting(&s, pool, &format!("    retry: {{attempts: {tries}, backoff: 0s..0s}}\n"));
    let found = attempts(&s);
    assert_eq!(found.len(), 1, "{found:?}");
    signal(&found, name);
    wait_for("the second attempt", pool.seconds(30), || s.logged("works") == 2);
    s.write("go", "");
    ran(child.wait_with_output().unwrap()).code(0);
    assert_eq!(outcomes(&s, "waits"), ["lost", "succeeded"]);
}

pub fn a_killed_attempt_is_lost_and_tried_again(pool: &Pool) {
    ended_from_outside(pool, "KILL");
}

/// Batch systems send SIGTERM to the processes that they remove from a machine.
pub fn a_preempted_attempt_is_lost_and_tried_again(pool: &Pool) {
    ended_from_outside(pool, "TERM");
}

/// Two runs compute one stage, each attempt with a different output; the one that ends last changes nothing.
pub fn a_late_attempt_publishes_nothing(pool: &Pool) {
    let s = pool.sandbox();
    s.write_placed(
        "late.yaml",
        "version: 1\nname: late\nstages:\n  late:\n    \
         run: 'echo works >> @log; n=$(grep -c works @log); while [ ! -e @go$n ]; do sleep 0.05; done; \
         echo $n > ${{ outputs.o }}/n; echo done $n >> @log'\n    outputs: {o: {kind: files}}\n",
    );
    let mut first = s.spawn(&["run", "late.yaml"]);
    wait_for("the first attempt", pool.seconds(20), || s.logged("works") == 1);
    let run = s.run(&["runs", "list", "--format", "json"]).code(0).json()[0]["run"].as_str().unwrap().to_string();
    kill(&mut first);
    s.write("go2", "");
    s.run(&["run", "late.yaml", "--new"]).code(0);
    assert_eq!(s.log().last().unwrap(), "done 2");
    s.write("go1", "");
    if pool.outlives_engine {
        wait_for("the end of the late attempt", pool.seconds(20), || s.logged("done 1") == 1);
    }
    s.run(&["runs", "resume", &run]).code(0);
    for reference in ["latest/late/o".to_string(), format!("{run}/late/o")] {
        let folder = format!("out-{}", reference.len());
        s.run(&["artifacts", "export", &reference, &folder]).code(0);
        assert_eq!(s.read(&format!("{folder}/n")), "2\n", "{reference}");
    }
    let manifests = s.files(".trainyard/artifacts").into_iter().filter(|file| file.ends_with(".json")).count();
    assert_eq!(manifests, 1, "published once");
}

pub fn many_attempts_run_at_once(pool: &Pool) {
    let s = pool.sandbox();
    let numbers: Vec<String> = (0..pool.at_once).map(|n| n.to_string()).collect();
    s.write_placed(
        "many.yaml",
        &format!(
            "version: 1\nname: many\nstages:\n  many:\n    matrix: {{n: [{}]}}\n    \
             run: 'echo ${{{{ matrix.n }}}} >> @log; echo ${{{{ matrix.n }}}} > ${{{{ outputs.o }}}}/n'\n    \
             outputs: {{o: {{kind: files}}}}\n",
            numbers.join(", ")
        ),
    );
    s.run(&["run", "many.yaml"]).code(0).prints(&format!("{} done", pool.at_once));
    let mut seen: Vec<usize> = s.log().iter().map(|line| line.parse().unwrap()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..pool.at_once).collect::<Vec<_>>());
}
