//! Whole runs whose attempts have no pipes to their engine and continue without it.

use crate::kit::{Sandbox, wait_for};
use crate::processes::kill;

/// Creates a sandbox whose attempts outlive their engine.
fn kept() -> Sandbox {
    let s = Sandbox::new();
    s.write("trainyard.yaml", "version: 1\npools:\n  - {name: here, with: {orphans: keep}}\n");
    s
}

const TWO: &str = r#"
version: 1
name: two
stages:
  one:
    run: echo hello; echo one >> @log; cat table.txt > ${{ outputs.o }}/x
    files: [table.txt]
    outputs: {o: {kind: files}}
  two:
    with: {i: "${{ stages.one.o }}"}
    run: echo two >> @log; while [ ! -e @go ]; do sleep 0.05; done; cat ${{ inputs.i }}/x > ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

fn two(s: &Sandbox) {
    s.write_placed("two.yaml", TWO);
    s.write("table.txt", "1");
}

fn log(s: &Sandbox) -> String {
    std::fs::read_to_string(s.path("log")).unwrap_or_default()
}

#[test]
fn a_run_is_the_same_without_pipes() {
    let (kept, piped) = (kept(), Sandbox::new());
    for s in [&kept, &piped] {
        two(s);
        s.write("go", "");
        s.run(&["run", "two.yaml"]).code(0);
        s.run(&["logs", "latest", "one"]).code(0).prints("hello");
        s.run(&["artifacts", "export", "latest/two/o", "out"]).code(0);
        assert_eq!(s.read("out/y"), "1");
    }
    let beats = |s: &Sandbox| s.files(".trainyard/runs").iter().filter(|f| f.ends_with("heartbeat.json")).count();
    assert_eq!((beats(&kept), beats(&piped)), (2, 0), "one had no pipes, and the other had");
}

#[test]
fn a_failure_without_pipes_is_told_like_any_other() {
    let s = kept();
    s.write(
        "fails.yaml",
        "version: 1\nname: fails\nstages:\n  fails: {run: \"echo no such table >&2; exit 3\", retry: {attempts: 1}}\n",
    );
    let run = s.run(&["run", "fails.yaml"]).code(1).says("ended with exit code 3: no such table");
    let logs = s.run(&["logs", "latest"]).code(0).prints("no such table");
    let errors = logs.stdout.lines().filter(|line| line.contains("ended with exit code 3")).count();
    assert_eq!(errors, 1, "{}{}", logs.stdout, run.stderr);
}

#[test]
fn an_attempt_goes_on_while_its_engine_is_dead() {
    let s = kept();
    two(&s);
    let mut child = s.spawn(&["run", "two.yaml"]);
    wait_for("stage two", 60, || log(&s) == "one\ntwo\n");
    // The handle of the attempt is in the journal, or the attempt is found by its key.
    kill(&mut child);
    let again = s.spawn(&["run", "two.yaml"]);
    s.write("go", "");
    crate::kit::ran(again.wait_with_output().unwrap()).code(0);
    assert_eq!(log(&s), "one\ntwo\n", "each stage was computed once");
    let results = s.files(".trainyard/runs").iter().filter(|f| f.ends_with("/two/1/result.json")).count();
    assert_eq!(results, 1);
}
