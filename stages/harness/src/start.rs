//! Starts the program of an episode with its problem and the address of the model.

use crate::address::host_of_url;
use crate::options::HarnessOptions;
use crate::sandbox::SandboxedCommand;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::OnceLock;
use trainyard_core::attempt::LogLevel;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result, Secret};
use trainyard_envs::programs::ProblemItem;
use trainyard_process::{ForkServer, OneShotFolder, OneShotProgram, PYTHON_VARIABLES, ProgramLog};
use trainyard_tables::Problem;

/// Name of the problem's file in the program's folder.
const PROBLEM_FILE: &str = "problem.json";
/// Variables that are the same for all episodes. They disable the tracing of packages, which read them when they are
/// imported.
const CONSTANTS: [(&str, &str); 3] =
    [("TRAINYARD_MODEL", "policy"), ("OPENAI_AGENTS_DISABLE_TRACING", "1"), ("LANGSMITH_TRACING", "false")];
/// Maximum bytes of a variable. Longer questions are only in the file.
const MAX_VARIABLE_BYTES: usize = 64 << 10;

/// Address of the model for one program.
pub struct ModelEndpoint {
    /// URL of the server with the path of the episode.
    pub url: String,
    pub key: Secret,
}

/// Starts the programs of all episodes of an environment.
pub struct ProgramStarter {
    options: HarnessOptions,
    log: ProgramLog,
    /// Name of the program in messages.
    place: String,
    /// Process with the packages of the program, started with the first episode; `None` if processes are not forked.
    fork_server: OnceLock<Option<ForkServer>>,
}

impl ProgramStarter {
    /// Creates a starter without starting a process.
    pub fn new(options: HarnessOptions, log: ProgramLog, place: String) -> Self {
        Self { options, log, place, fork_server: OnceLock::new() }
    }
    /// Copies the files of the program into a new folder, writes the problem, and starts the program.
    ///
    /// Errors: invalid (a file of the program has the name of the problem's file), and those of
    /// [`OneShotFolder::create`] and [`OneShotFolder::start`].
    pub fn start(&self, problem: &Problem, seed: u64, endpoint: &ModelEndpoint) -> Result<OneShotProgram> {
        let options = &self.options;
        let mut folder = OneShotFolder::create(&options.command, &options.files)?;
        let file = folder.path().join(PROBLEM_FILE);
        if file.exists() {
            return Err(Error::invalid(format!(
                "the program has a file `{PROBLEM_FILE}`, which is the name of the file of the problem"
            ))
            .help("rename the file of the program"));
        }
        let json = problem_json(options, problem, seed).to_string();
        std::fs::write(&file, json).map_err(|e| io_error(&file, &e))?;
        let Some(sandbox) = options.sandbox() else {
            return self.fork_or_start(folder, &variables(problem, seed, &file, endpoint));
        };
        let set = variables(problem, seed, &sandbox.folder(folder.path()).join(PROBLEM_FILE), endpoint);
        let python = PYTHON_VARIABLES.iter().map(|(name, _)| *name);
        let names = options.env.iter().map(String::as_str).chain(python).chain(set.iter().map(|(name, _)| *name));
        let names: Vec<&str> = names.collect();
        let SandboxedCommand { command, stop } = sandbox.wrap(folder.command(), folder.path(), &names);
        folder.set_command(command, stop);
        let client = sandbox.client_variables().iter().map(|name| (*name).to_string());
        let passed: Vec<String> = options.env.iter().cloned().chain(client).collect();
        folder.start(&passed, &set, self.log.clone())
    }
    fn fork_or_start(&self, folder: OneShotFolder, set: &[(&str, String)]) -> Result<OneShotProgram> {
        let Some(server) = self.fork_server() else { return folder.start(&self.options.env, set, self.log.clone()) };
        folder.fork(server, &self.options.env, set, self.log.clone()).or_else(|unforked| {
            let (folder, error) = *unforked;
            (self.log)(LogLevel::Warn, &format!("{}: {error}; the program is started instead", self.place));
            folder.start(&self.options.env, set, self.log.clone())
        })
    }
    /// Returns the process from which programs are forked. The first call starts it, and waits for its imports.
    fn fork_server(&self) -> Option<&ForkServer> {
        let start = || {
            let HarnessOptions { command, files, env, fork, .. } = &self.options;
            if !fork || !ForkServer::is_applicable(command) {
                return None;
            }
            let folder = OneShotFolder::create(command, files);
            let server =
                folder.and_then(|folder| ForkServer::start(folder, env, &CONSTANTS.map(text), self.log.clone()));
            let note = |error: &Error| {
                let message = format!("{}: each episode starts the program, without a fork: {error}", self.place);
                (self.log)(LogLevel::Info, &message);
            };
            server.inspect_err(note).ok()
        };
        self.fork_server.get_or_init(start).as_ref()
    }
}

fn text((name, value): (&'static str, &str)) -> (&'static str, String) {
    (name, value.to_string())
}

/// Returns a problem as JSON for the program, without its answer unless `show_answer` is set.
fn problem_json(options: &HarnessOptions, problem: &Problem, seed: u64) -> Value {
    let mut body = serde_json::to_value(ProblemItem::new(problem)).unwrap_or_default();
    if let Some(map) = body.as_object_mut() {
        if !options.show_answer {
            ["answer", "reference", "verifier"].iter().for_each(|key| drop(map.remove(*key)));
        }
        map.insert("seed".to_string(), json!(seed));
        if !options.options.is_null() {
            map.insert("options".to_string(), options.options.clone());
        }
    }
    body
}

fn variables(problem: &Problem, seed: u64, file: &Path, endpoint: &ModelEndpoint) -> Vec<(&'static str, String)> {
    let (url, key) = (&endpoint.url, endpoint.key.reveal());
    let question = problem.messages.iter().rfind(|m| m.role == "user").map_or("", |m| m.content.as_str());
    let mut list = vec![
        ("TRAINYARD_PROBLEM", file.display().to_string()),
        ("TRAINYARD_SEED", seed.to_string()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_BASE", format!("{url}/v1")),
        ("OPENAI_API_KEY", key.to_string()),
        ("ANTHROPIC_BASE_URL", url.to_string()),
        ("ANTHROPIC_API_KEY", key.to_string()),
    ];
    list.extend(CONSTANTS.map(text));
    let direct = match host_of_url(url) {
        "127.0.0.1" => "127.0.0.1".to_string(),
        host => format!("127.0.0.1,{host}"),
    };
    list.extend(["NO_PROXY", "no_proxy"].map(|name| (name, direct.clone())));
    if question.len() <= MAX_VARIABLE_BYTES && !question.contains('\0') {
        list.push(("TRAINYARD_QUESTION", question.to_string()));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn answer_is_written_only_with_show_answer() {
        let problem = Problem {
            id: "p".into(),
            messages: vec![Message::new("user", "2+2?")],
            answer: "4".into(),
            ..Problem::default()
        };
        let hidden = problem_json(&HarnessOptions::default(), &problem, 7);
        assert_eq!(
            (&hidden["id"], &hidden["prompt"][0]["content"], &hidden["seed"]),
            (&json!("p"), &json!("2+2?"), &json!(7))
        );
        assert!(hidden.get("answer").is_none() && hidden.get("verifier").is_none());
        let options = HarnessOptions { show_answer: true, options: json!({"a": 1}), ..HarnessOptions::default() };
        let shown = problem_json(&options, &problem, 7);
        assert_eq!((&shown["answer"], &shown["options"]["a"]), (&json!("4"), &json!(1)));
    }
    #[test]
    fn advertised_host_is_reached_without_a_proxy() {
        let of = |url: &str| {
            let endpoint = ModelEndpoint { url: url.to_string(), key: Secret::new("k") };
            let list = variables(&Problem::default(), 1, Path::new("/program/problem.json"), &endpoint);
            let value = |name: &str| list.iter().find(|(known, _)| *known == name).unwrap().1.clone();
            [value("NO_PROXY"), value("OPENAI_BASE_URL"), value("OPENAI_API_KEY"), value("TRAINYARD_PROBLEM")]
        };
        assert_eq!(of("http://127.0.0.1:9/e/1")[..2], ["127.0.0.1", "http://127.0.0.1:9/e/1/v1"]);
        let remote = of("http://gpu-7:9/e/1");
        assert_eq!(remote, ["127.0.0.1,gpu-7", "http://gpu-7:9/e/1/v1", "k", "/program/problem.json"]);
    }
}
