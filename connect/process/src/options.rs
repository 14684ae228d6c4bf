//! Defines the options that all roles of a program share.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use trainyard_core::units::parse_duration;
use trainyard_core::{Error, OptionProblem, Result};

/// Default of `start`: imports of large libraries are slow.
const DEFAULT_START: &str = "2m";

fn is_default_start(start: &str) -> bool {
    start == DEFAULT_START
}

/// A program and its execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProgramOptions {
    /// The program and its arguments: `[python3, my_program.py]`. A word that names a file next to the workflow file is
    /// a source: its content is a part of the stage digest, and it is copied to the machine of the stage. The program
    /// itself may also be on the PATH.
    #[schemars(schema_with = "command_schema")]
    pub command: Vec<String>,
    /// Further files and folders that the program requires, such as modules that it imports; sources too, and patterns
    /// are allowed. They are in its working folder, each under its own name. The folder contains no other files.
    #[schemars(schema_with = "files_schema")]
    pub files: Vec<String>,
    /// Processes of the program that run at the same time. An episode of a tool or an environment stays with one.
    #[schemars(range(min = 1, max = 256))]
    pub workers: usize,
    /// Timeout of one request: `30s`, `2m`. A process that exceeds it is killed.
    pub timeout: String,
    /// Time in which a process must be ready: `10m` for a program that loads a model. It is at least `timeout`.
    #[serde(skip_serializing_if = "is_default_start")]
    pub start: String,
    /// Command that ends what a process of the program leaves and that is not one of its descendants, such as a
    /// container: `[sh, -c, 'docker rm --force "$TRAINYARD_PROGRAM"']`. It runs each time that a process has ended or
    /// was killed, for at most 10 s; its failure is ignored. The variable holds a name that is unique for each process;
    /// the program gets it, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
    /// Names of environment variables that the program gets in addition to `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR`
    /// and `TZ`. Their values are not a part of the stage digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Options for the program, passed unchanged.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            files: Vec::new(),
            workers: 1,
            timeout: "30s".to_string(),
            start: DEFAULT_START.to_string(),
            stop: Vec::new(),
            env: Vec::new(),
            options: Value::Null,
        }
    }
}

/// Returns the schema of a list of words. Words that name files are sources.
pub fn command_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "format": "command" } })
}

/// Returns the schema of a list of files and folders that are sources.
pub fn files_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "format": "sources" } })
}

impl ProgramOptions {
    /// Returns all problems that types cannot express; pointers are relative to the options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        if self.command.first().is_none_or(String::is_empty) {
            let problem = OptionProblem::new("/command", "the command is empty");
            problems.push(problem.help("write for example `command: [python3, my_reward.py]`"));
        }
        problems.extend(OptionProblem::out_of_range("/workers", self.workers, 1..=256));
        if let Err(error) = self.time() {
            problems.push(OptionProblem::new("/timeout", error.message));
        }
        if self.stop.first().is_some_and(String::is_empty) {
            let problem = OptionProblem::new("/stop/0", "the stop command names no program");
            problems.push(problem.help("write for example `stop: [docker, rm, --force, my-container]`"));
        }
        if let Err(error) = self.own_start_time() {
            problems.push(OptionProblem::new("/start", error.message));
        }
        let mut names = BTreeSet::new();
        for (at, name) in self.env.iter().enumerate() {
            if name.is_empty() || name.contains(['=', '\0']) || !names.insert(name) {
                let problem = OptionProblem::new(
                    format!("/env/{at}"),
                    format!("`{name}` is not a valid variable name, or is listed twice"),
                );
                problems.push(
                    problem.help(
                        "list each variable once, without a value: values come from the environment of the stage",
                    ),
                );
            }
        }
        problems
    }
    /// Returns the timeout of one request. Errors: invalid, for text that is not a duration, or zero.
    pub fn time(&self) -> Result<Duration> {
        let time = parse_duration(&self.timeout).map_err(Error::invalid)?;
        if time.is_zero() {
            return Err(Error::invalid("the timeout of a request is zero").help("write for example `30s`"));
        }
        Ok(time)
    }
    /// Returns the time in which a process must be ready, at least the timeout of a request. Errors: invalid, for text
    /// that is not a duration, or zero.
    pub fn start_time(&self) -> Result<Duration> {
        Ok(self.own_start_time()?.max(self.time()?))
    }
    fn own_start_time(&self) -> Result<Duration> {
        let time = parse_duration(&self.start).map_err(Error::invalid)?;
        if time.is_zero() {
            return Err(Error::invalid("the time of a start is zero").help("write for example `10m`"));
        }
        Ok(time)
    }
    /// Returns the command shortened for messages.
    pub fn shown(&self) -> String {
        let word = |word: &String| word.rsplit('/').next().unwrap_or(word).to_string();
        let words: Vec<String> = self.command.iter().take(4).map(word).collect();
        let more = if self.command.len() > 4 { " …" } else { "" };
        let text = format!("{}{more}", words.join(" "));
        if text.len() > 80 { format!("{}…", text.chars().take(60).collect::<String>()) } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_reported_with_pointers() {
        let good = ProgramOptions { command: vec!["sh".into()], ..ProgramOptions::default() };
        assert_eq!(good.problems(), []);
        let bad = ProgramOptions {
            workers: 0,
            timeout: "30".into(),
            env: vec!["A".into(), "A".into(), "B=1".into()],
            ..ProgramOptions::default()
        };
        let places: Vec<String> = bad.problems().into_iter().map(|p| p.pointer).collect();
        assert_eq!(places, ["/command", "/workers", "/timeout", "/env/1", "/env/2"]);
        assert!(ProgramOptions { timeout: "0s".into(), ..good.clone() }.time().is_err());
        for (start, timeout, seconds) in [("2m", "30s", 120), ("10m", "30s", 600), ("10s", "5m", 300)] {
            let options = ProgramOptions { start: start.into(), timeout: timeout.into(), ..good.clone() };
            assert_eq!((options.start_time().unwrap().as_secs(), options.problems()), (seconds, Vec::new()));
        }
        let unready = ProgramOptions { start: "soon".into(), ..good.clone() };
        assert_eq!(unready.problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>(), ["/start"]);
        let unnamed = ProgramOptions { stop: vec![String::new()], ..good.clone() };
        assert_eq!(unnamed.problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>(), ["/stop/0"]);
        let written = serde_json::to_value(&good).unwrap();
        assert!(["start", "stop"].iter().all(|name| written.get(name).is_none()), "digests of older files stay");
        let shown = ProgramOptions { command: vec!["python3".into(), "/w/x/my.py".into()], ..good };
        assert_eq!(shown.shown(), "python3 my.py");
    }
}
