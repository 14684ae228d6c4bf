//! The suite of hostile inputs: each case ends in time and within a bound of memory, without a panic, with the expected
//! exit code and a message that names the fault.
//!
//! Tables list the cases: here those of files and of rows, in the modules `hostile_*` those of model folders, requests,
//! hubs and slots. Programs that attack the interpreters are in `stages/envs/tests/hostile`, queries of
//! models in `stages/envs/tests/sql.rs` and `hostile_data`, MCP servers in `stages/envs/tests/mcp`.

pub mod files;
pub mod rows;
pub mod table;

use crate::kit::{Ran, Sandbox};
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Maximum seconds of a command.
const SECONDS: u64 = 60;
/// Maximum memory of a command or a server, in KiB.
pub const MEMORY: u64 = 2 << 20;

/// Runs the binary within the bounds of time and memory.
pub fn bounded(s: &Sandbox, name: &str, args: &[&str]) -> Ran {
    bounded_command(name, s.command(args))
}

/// Runs a command within the bounds of time and memory.
pub fn bounded_command(name: &str, mut command: Command) -> Ran {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let mut exceeded = Some(format!("did not end within {SECONDS} s"));
    let mut code = None;
    for _ in 0..SECONDS * 50 {
        if let Some(status) = child.try_wait().unwrap() {
            (code, exceeded) = (status.code(), None);
            break;
        }
        let memory = peak_memory(child.id());
        if memory > MEMORY {
            exceeded = Some(format!("took {memory} KiB of memory"));
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    if exceeded.is_some() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let ran = Ran { code: code.unwrap_or(-1), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    if let Some(exceeded) = exceeded {
        panic!("{name}: {command:?} {exceeded}: {}", message(&ran));
    }
    ran
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    let mut pipe = pipe.unwrap();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Returns the largest memory of a process so far in KiB; 0 if it has ended.
pub fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the messages of a command on one line, without the frames and breaks of diagnostics.
pub fn message(ran: &Ran) -> String {
    let drawn = |c: char| c.is_whitespace() || "│╰─·╭├▶┬▲".contains(c);
    let words = ran.stderr.split(drawn).chain(ran.stdout.split_whitespace());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Appends a failure if a command panicked, or ended with another exit code or without these words.
pub fn judge(name: &str, ran: &Ran, code: i32, words: &str, failures: &mut Vec<String>) {
    let said = message(ran);
    if ran.code != code || !said.contains(words) || said.contains("panicked") {
        let start: String = said.chars().take(600).collect();
        failures.push(format!("{name}: exit code {}, not {code}, or lacks `{words}`, or panicked: {start}", ran.code));
    }
}

/// Asserts that there are no failures.
#[track_caller]
pub fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} cases\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn at_least_three_hundred_cases_are_listed() {
    let programs = include_str!("../../../stages/envs/tests/hostile/programs.txt").matches("\n--- ").count();
    let counts = [
        ("files", files::count()),
        ("rows", rows::count()),
        ("model folders", crate::hostile_models::count()),
        ("requests", crate::hostile_http::count()),
        ("hubs", crate::hostile_hubs::count()),
        ("slots", crate::hostile_slots::count()),
        // Each runs in both interpreters.
        ("programs", 2 * programs),
    ];
    for (subject, count) in counts {
        assert!(count >= 5, "only {count} cases of {subject}");
    }
    let here: usize = counts.iter().filter(|(subject, _)| *subject != "programs").map(|(_, count)| count).sum();
    assert!(here >= 300, "only {here} cases of this suite: {counts:?}");
}
