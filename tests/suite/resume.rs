//! Any process may die at any moment; the same command ends in the same artifacts.

use crate::kit::{Sandbox, wait_for};

const SLOW: &str = r#"
version: 1
name: slow
stages:
  one:
    run: echo one >> LOG; printf 1 > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
  two:
    with: {i: "${{ stages.one.o }}"}
    run: echo two >> LOG; while [ ! -e GO ]; do sleep 0.05; done; cat ${{ inputs.i }}/x > ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

fn slow(s: &Sandbox) {
    s.write("slow.yaml", SLOW.replace("LOG", s.path("log").to_str().unwrap()).replace("GO", s.path("go").to_str().unwrap()));
}

fn logged(s: &Sandbox, word: &str) -> usize {
    std::fs::read_to_string(s.path("log")).unwrap_or_default().lines().filter(|l| *l == word).count()
}

#[test]
fn a_killed_engine_is_taken_over_under_the_same_run_id() {
    let s = Sandbox::new();
    slow(&s);
    let mut child = s.spawn(&["run", "slow.yaml"]);
    wait_for("stage two", 20, || logged(&s, "two") == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    s.write("go", "");
    let ran = s.run(&["run", "slow.yaml"]).code(0);
    assert!(ran.stderr.contains("resum") || ran.stdout.contains("resum"), "it must say that it resumed\n{}{}", ran.stdout, ran.stderr);
    assert_eq!((logged(&s, "one"), logged(&s, "two")), (1, 2));
    let runs = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    assert_eq!(runs.as_array().unwrap().len(), 1, "{runs}");
}

#[test]
fn the_attempt_dies_with_its_engine() {
    let s = Sandbox::new();
    slow(&s);
    let mut child = s.spawn(&["run", "slow.yaml"]);
    wait_for("stage two", 20, || logged(&s, "two") == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let marker = s.path("go").display().to_string();
    wait_for("the attempt's end", 10, || {
        let left = std::process::Command::new("pgrep").args(["-f", &marker]).output().unwrap();
        left.stdout.is_empty()
    });
}

#[test]
fn an_interrupt_ends_with_130_and_the_run_goes_on_later() {
    let s = Sandbox::new();
    slow(&s);
    let mut child = s.spawn(&["run", "slow.yaml"]);
    wait_for("stage two", 20, || logged(&s, "two") == 1);
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    s.write("go", "");
    s.run(&["run", "slow.yaml"]).code(0);
    assert_eq!(logged(&s, "one"), 1, "stage one came from the cache");
}
