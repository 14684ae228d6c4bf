//! Python programs that tests run: by `python3`, or by a Python that a variable names.

use crate::kit::{Ran, Sandbox, ran, skipped};
use std::process::Command;

/// Returns whether `python3` exists. Without it, reports a skip.
#[track_caller]
pub fn python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        skipped("there is no python3");
    }
    there
}

/// Creates a sandbox; without `python3` it reports a skip and returns `None`.
#[track_caller]
pub fn python_sandbox() -> Option<Sandbox> {
    python().then(Sandbox::new)
}

/// Returns the Python with these packages that a variable names; without one it reports a skip and returns `None`.
#[track_caller]
pub fn python_with(packages: &str, variable: &str) -> Option<String> {
    let python = std::env::var(variable).ok().filter(|python| !python.is_empty());
    if python.is_none() {
        skipped(&format!("{variable} names no Python with {packages}"));
    }
    python
}

/// Runs a Python in the folder of the sandbox and asserts that it succeeds.
#[track_caller]
pub fn succeeds(python: &str, s: &Sandbox, args: &[&str]) -> Ran {
    ran(Command::new(python).args(args).current_dir(s.path("")).output().unwrap()).code(0)
}

/// Runs a Python script of the sandbox whose last arguments are a call of the binary, and asserts that it succeeds.
#[track_caller]
pub fn call_through(s: &Sandbox, script: &[&str], args: &[&str]) -> Ran {
    let ours = s.command(args);
    let mut command = Command::new("python3");
    command.args(script).arg(ours.get_program()).args(ours.get_args()).current_dir(s.path(""));
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm");
    ran(command.output().unwrap()).code(0)
}
