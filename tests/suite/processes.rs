//! Processes that tests start, find and kill.

use std::process::{Child, Command};

/// A process that is killed with the end of its test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills a process and waits for its end.
#[track_caller]
pub fn kill(process: &mut Child) {
    process.kill().unwrap();
    process.wait().unwrap();
}

/// Sends a signal to the process of an id, or to a group of processes if `-` is before the id.
#[track_caller]
pub fn signal(name: &str, id: &str) {
    assert!(Command::new("kill").args([name, "--", id]).status().unwrap().success(), "{name} {id}");
}

/// Returns the ids of the processes whose command line matches a pattern.
pub fn matching(pattern: &str) -> Vec<String> {
    let found = Command::new("pgrep").args(["-f", "--", pattern]).output().unwrap();
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_string).collect()
}
