//! Runs the tutorial, `docs/tutorial.md`, from an empty folder.
//!
//! An HTML comment before a fenced block says what the block is:
//!
//! - `file: NAME`: the content of a file
//! - `run`: commands of a shell, which succeed; `run: fails`: commands that fail
//! - `output`: lines of the output of the commands before it; `output: varies`: output that is not compared, since
//!   sampled episodes may differ between machines
//!
//! An output line matches if one line of the real output contains its words. Words with a digit are ignored, since
//! times, digests and figures differ between machines. `…` is any text, and a line of `…` alone matches always.

use crate::kit::{Ran, Sandbox, ran, repository};
use crate::python_programs::python_sandbox;
use std::process::{Command, Stdio};

/// A marked block of the page.
struct Block {
    mark: String,
    body: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(mark) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let fence = lines.next().unwrap_or_default();
        assert!(fence.starts_with("```"), "no block after the mark `{mark}`: {fence}");
        let body: String = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect();
        found.push(Block { mark: mark.to_owned(), body });
    }
    found
}

/// Returns the words of a line without digits, joined by single spaces.
fn words(line: &str) -> String {
    let kept: Vec<&str> = line.split_whitespace().filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect();
    kept.join(" ")
}

/// Returns whether a line of real output contains the parts of a line of the page, in order.
fn matches(shown: &str, real: &str) -> bool {
    let mut rest = real;
    shown.split('…').map(words).all(|part| match rest.find(&part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

fn shell(s: &Sandbox, commands: &str) -> Ran {
    let folders = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-eu", "-c", commands])
        .current_dir(s.path("railway"))
        .env("PATH", format!("{}:{folders}", s.path("bin").display()))
        .env("TRAINYARD_HOME", s.path("home"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    ran(output)
}

#[test]
fn the_tutorial_runs_from_an_empty_folder_and_prints_its_output() {
    let Some(s) = python_sandbox() else { return };
    for folder in ["bin", "railway"] {
        std::fs::create_dir(s.path(folder)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_trainyard"), s.path("bin/trainyard")).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/tutorial.md")).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= 40, "{} marked blocks", blocks.len());
    let mut printed = String::new();
    for Block { mark, body } in &blocks {
        match mark.as_str() {
            "run" | "run: fails" => {
                let done = shell(&s, body);
                printed = format!("{}\n{}", done.stdout, done.stderr);
                assert_eq!(done.code != 0, mark == "run: fails", "exit code {} of\n{body}\n{printed}", done.code);
            }
            "output" => {
                let real: Vec<String> = printed.lines().map(words).collect();
                for line in body.lines() {
                    assert!(real.iter().any(|real| matches(line, real)), "no line `{line}` in\n{printed}");
                }
            }
            "output: varies" => {}
            _ => {
                let name = mark.strip_prefix("file: ").unwrap_or_else(|| panic!("unknown mark `{mark}`"));
                s.write(&format!("railway/{name}"), body);
            }
        }
    }
}
