//! A store that an older program wrote stays readable: its results are hits, its unfinished stages continue.
//!
//! `tests/fixtures/older-store` holds the workflows, their store, and `make.sh`, which writes it
//! by a program when the version of a stage kind was raised.

use crate::kit::{Sandbox, repository};
use serde_json::Value;
use std::process::Command;

fn older_store() -> Sandbox {
    let s = Sandbox::new();
    let fixture = repository().join("tests/fixtures/older-store");
    for entry in std::fs::read_dir(&fixture).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            s.write(path.file_name().unwrap().to_str().unwrap(), std::fs::read(&path).unwrap());
        }
    }
    std::fs::create_dir_all(s.store()).unwrap();
    let unpacked =
        Command::new("tar").arg("xzf").arg(fixture.join("store.tar.gz")).arg("-C").arg(s.store()).status().unwrap();
    assert!(unpacked.success());
    s
}

/// Runs of the store, oldest first.
fn runs(s: &Sandbox) -> Vec<Value> {
    let mut runs = s.run(&["runs", "list", "--format", "json"]).code(0).json().as_array().unwrap().clone();
    runs.reverse();
    runs
}

#[test]
fn results_of_an_older_program_are_hits() {
    let s = older_store();
    s.run(&["run", "whole.yaml"]).code(0).prints("15 stages, 14 hit, 1 skipped");
}

#[test]
fn finished_runs_of_an_older_program_are_shown() {
    let s = older_store();
    let id = runs(&s)[0]["run"].as_str().unwrap().to_string();
    s.run(&["runs", "show", &id]).code(0).prints("compare");
    s.run(&["logs", &id]).code(0);
    for output in ["rl/trajectories", "evaluate/results", "synthesize/problems", "sft/model", "report/report"] {
        let output = output.replace("rl/", "rl[algorithm=grpo]/");
        s.run(&["artifacts", "show", &format!("{id}/{output}")]).code(0);
    }
}

/// Runs a workflow whose run was killed; its stage must continue after the step of its newest resume point.
fn continues(workflow: &str, stage: &str) {
    let steps = std::fs::read_to_string(repository().join("tests/fixtures/older-store/steps")).unwrap();
    let step = steps.lines().find_map(|l| l.strip_prefix(&format!("{workflow} "))).unwrap();
    let s = older_store();
    let before = runs(&s).len();
    let ran = s.run(&["run", &format!("{workflow}.yaml")]).code(0);
    assert!(ran.stdout.contains("2 done, 3 hit"), "{}", ran.stdout);
    assert_eq!(runs(&s).len(), before, "the killed run continues under its id");
    let id = ran.stdout.lines().find_map(|l| l.strip_prefix("run ")).unwrap().split(' ').next().unwrap();
    s.run(&["logs", id, stage]).code(0).prints(&format!("resuming after step {step}"));
}

#[test]
fn fine_tuning_continues() {
    continues("half-sft", "sft");
}

#[test]
fn practice_with_a_critic_a_curriculum_and_replay_continues() {
    continues("half-rl", "synchronous");
}

#[test]
fn asynchronous_practice_continues() {
    continues("half-asynchronous", "asynchronous");
}
