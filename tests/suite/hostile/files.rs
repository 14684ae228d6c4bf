//! Workflow and site files: bombs, cycles, devices, numbers beyond every range, escape sequences.

use super::table::{Case, cases};
use super::{assert_none, bounded};
use crate::kit::Sandbox;

const HEAD: &str = "version: 1\nname: x\nstages:\n";

fn table() -> Vec<Case> {
    cases(include_str!("files.txt"))
}

pub fn count() -> usize {
    table().len()
}

#[test]
fn mistakes_of_hostile_files_are_named() {
    let mut failures = Vec::new();
    for case in table() {
        let s = Sandbox::new();
        for (name, content) in case.files("x.yaml", "HEAD", HEAD) {
            s.write(&name, content);
        }
        let ran = bounded(&s, case.name, &["check", "x.yaml"]);
        case.judge(&ran, &mut failures);
        if ran.stderr.contains('\u{1b}') || ran.stdout.contains('\u{1b}') {
            failures.push(format!("{}: an escape sequence reaches the terminal", case.name));
        }
    }
    assert_none(&failures);
}

#[test]
fn parents_and_parts_that_are_pipes_are_not_waited_for() {
    for text in ["extends: ./pipe.yaml\nname: x\n", "version: 1\nname: x\nstages:\n  a: {uses: ./pipe.yaml}\n"] {
        let s = Sandbox::new();
        s.write("x.yaml", text);
        assert!(std::process::Command::new("mkfifo").arg(s.path("pipe.yaml")).status().unwrap().success());
        let mut failures = Vec::new();
        super::judge(text, &bounded(&s, text, &["check", "x.yaml"]), 2, "not a regular file", &mut failures);
        assert_none(&failures);
    }
}
