//! `artifacts gc` and pins on whole runs: removed and kept objects, and their effect on later runs.

use crate::kit::Sandbox;
use crate::processes::kill;
use crate::slow_chain;
use serde_json::{Value, json};
use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

const CHAIN: &str = r#"
version: 1
name: chain
params:
  tail: {type: string, default: a}
stages:
  first:
    run: echo first >> @log; printf hello > ${{ outputs.o }}/x
    outputs: {o: {kind: files}}
  second:
    with: {i: "${{ stages.first.o }}"}
    run: |
      echo second >> @log
      cat ${{ inputs.i }}/x > ${{ outputs.o }}/y
      printf %s ${{ params.tail }} >> ${{ outputs.o }}/y
    outputs: {o: {kind: files}}
"#;

/// Creates a sandbox whose chain has run twice; its second stage has two results, the first of them from the older run.
fn chains() -> Sandbox {
    let s = Sandbox::new();
    s.write_placed("chain.yaml", CHAIN);
    for tail in ["tail=a", "tail=b"] {
        s.run(&["run", "chain.yaml", "-p", tail]).code(0);
    }
    s
}

/// Sets the age of all objects in the store to years.
fn age(s: &Sandbox) {
    for name in s.files(".trainyard") {
        let file = File::open(s.store().join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
    }
}

/// Number of files that record the writers of the sandbox's published results, which are not read again.
const CLAIMS: u64 = 3;

fn gc(s: &Sandbox, options: &[&str]) -> Value {
    s.run(&[&["artifacts", "gc", "--format", "json"], options].concat()).code(0).json()
}

/// Returns the ids of all runs, newest first.
fn runs(s: &Sandbox) -> Vec<String> {
    let list = s.run(&["runs", "list", "--format", "json"]).code(0).json();
    list.as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_string()).collect()
}

#[test]
fn a_dry_run_shows_sizes_by_stage_and_changes_nothing() {
    let s = chains();
    age(&s);
    let before = s.files(".trainyard");
    let shown = gc(&s, &["--dry-run", "--keep-last", "1"]);
    assert_eq!(shown["manifests"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!((&shown["objects"], &shown["removed"]), (&json!([]), &Value::Null), "{shown}");
    let amount = |objects: u64, bytes: u64| json!({"objects": objects, "bytes": bytes});
    let none = amount(0, 0);
    let expected = json!([
        {"workflow": "chain", "stage": "first", "kept": amount(1, 5), "given_up": none, "garbage": none},
        {"workflow": "chain", "stage": "second", "kept": amount(1, 6), "given_up": amount(1, 6), "garbage": none},
    ]);
    assert_eq!(shown["stages"], expected);
    s.run(&["artifacts", "gc", "--dry-run", "--keep-last", "1"]).code(0).prints("removed later").prints("1 result");
    assert_eq!(s.files(".trainyard"), before);
    s.run(&["artifacts", "gc"]).code(0).prints(&format!("removed {CLAIMS} files"));
    s.run(&["artifacts", "gc"]).code(0).prints("nothing to remove");
}

#[test]
fn what_was_given_up_is_computed_again_and_its_files_go_later() {
    let s = chains();
    let older = runs(&s).pop().unwrap();
    age(&s);
    let removed = &gc(&s, &["--keep-last", "1"])["removed"];
    assert_eq!((&removed["manifests"], &removed["files"]), (&json!(1), &json!(CLAIMS)));
    s.run(&["artifacts", "show", &format!("{older}/second/o")])
        .code(1)
        .says("its files were given up by `artifacts gc`");
    s.run(&["plan", "chain.yaml", "-p", "tail=a"]).code(0).prints("given up");
    assert_eq!(gc(&s, &["--keep-last", "1"])["removed"]["files"], 0, "they were given up only now");
    age(&s);
    let removed = &gc(&s, &[])["removed"];
    assert_eq!((&removed["files"], &removed["bytes"]), (&json!(1), &json!(6)));
    s.run(&["run", "chain.yaml", "-p", "tail=a"]).code(0).says("first: hit").says("second: done");
    assert_eq!((s.logged("first"), s.logged("second")), (1, 3));
    s.run(&["artifacts", "export", "latest/second/o", "out"]).code(0);
    assert_eq!(s.read("out/y"), "helloa");
    s.run(&["run", "chain.yaml", "-p", "tail=b"]).code(0).says("second: hit");
}

#[test]
fn a_pin_keeps_what_would_go() {
    let s = chains();
    let older = format!("{}/second/o", runs(&s).pop().unwrap());
    s.run(&["artifacts", "pins"]).code(0).prints("no pins");
    s.run(&["artifacts", "pin", &older, "--note", "in the paper"]).code(0).prints("pinned stage `second`");
    s.run(&["artifacts", "pin", &older]).code(0).prints("was already pinned");
    let pins = s.run(&["artifacts", "pins", "--format", "json"]).code(0).json();
    assert_eq!(
        (&pins[0]["stage"], &pins[0]["note"], &pins[0]["bytes"]),
        (&json!("second"), &json!("in the paper"), &json!(6))
    );
    s.run(&["artifacts", "pins"]).code(0).prints("in the paper");
    age(&s);
    assert_eq!(gc(&s, &["--keep-last", "1"])["manifests"], json!([]));
    s.run(&["artifacts", "unpin", &older]).code(0).prints("unpinned");
    s.run(&["artifacts", "unpin", &older]).code(0).prints("has no pin");
    age(&s);
    assert_eq!(gc(&s, &["--keep-last", "1"])["removed"]["manifests"], 1);
    s.run(&["artifacts", "pin", "latest/none/o"]).code(2).says("none");
}

#[test]
fn old_runs_go_only_if_asked_and_an_unfinished_one_stays_with_all_that_it_reached() {
    let s = chains();
    let mut child = slow_chain::start(&s, 1);
    kill(&mut child);
    assert_eq!(runs(&s).len(), 3);
    age(&s);
    assert_eq!(gc(&s, &["--keep-last", "1"])["removed"]["runs"], 0);
    age(&s);
    let told = s.run(&["artifacts", "gc", "--runs-older-than", "30d"]).code(0);
    told.prints("2 runs").prints("1 run without an end");
    let left = runs(&s);
    assert_eq!(left.len(), 1);
    s.run(&["logs", &left[0]]).code(0);
    // The run resumes where it stopped, and results of finished runs are still hits.
    s.write("go", "");
    s.run(&["run", "slow.yaml"]).code(0).says("resuming run").says("one: hit").says("two: done");
    s.run(&["run", "chain.yaml", "-p", "tail=b"]).code(0).says("second: hit");
    assert_eq!(s.logged("one"), 1);
}

#[test]
fn limits_that_make_no_sense_are_refused() {
    let s = chains();
    for (option, value, words) in [
        ("--older-than", "5m", "is shorter than 1h00m"),
        ("--older-than", "5", "is not a duration"),
        ("--keep-last", "0", "0 is not in 1.."),
        ("--runs-older-than", "week", "is not a duration"),
    ] {
        s.run(&["artifacts", "gc", option, value]).code(2).says(words);
    }
    s.write("trainyard.yaml", "version: 1\nstore_outage: 2h\n");
    s.run(&["artifacts", "gc", "--older-than", "3h"]).code(2).says("is shorter than 4h00m");
}
