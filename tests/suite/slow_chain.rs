//! A workflow whose second stage waits until a test writes the file `go`. Each stage adds its name to the file `log`.

use crate::kit::{Sandbox, wait_for};
use std::process::Child;

const SLOW: &str = r#"
version: 1
name: slow
stages:
  one:
    run: echo one >> @log; printf 1 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
  two:
    with: {i: "${{ stages.one.o }}"}
    run: echo two >> @log; while [ ! -e @go ]; do sleep 0.05; done; cat ${{ inputs.i }}/x > ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

/// Writes the workflow as `slow.yaml`.
pub fn write(s: &Sandbox) {
    s.write_placed("slow.yaml", SLOW);
}

/// Starts the workflow, and waits until its second stage runs for the `times`-th time.
#[track_caller]
pub fn start(s: &Sandbox, times: usize) -> Child {
    write(s);
    let child = s.spawn(&["run", "slow.yaml"]);
    wait_for("stage two", 30, || s.logged("two") == times);
    child
}
