//! Defines the options of the environment `harness`.

use crate::address::{LOOPBACK, check_advertise, parse_bind};
use crate::sandbox::{Sandbox, SandboxOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::units::parse_duration;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::Toolbox;
use trainyard_envs::environments::EnvironmentOptions;
use trainyard_envs::formats::registry as formats;
use trainyard_envs::programs::VerifierOptions;
use trainyard_process::{ProgramOptions, command_schema, files_schema};

/// Effect of a program's failure after its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OnFailure {
    /// The episode ends without an answer: agents fail on outputs of the model.
    #[default]
    End,
    /// The episode counts as an infrastructure failure: no reward, and no update.
    Skip,
    /// The stage fails.
    Fail,
}

/// A program that is an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HarnessOptions {
    /// The program and its arguments: `[python3, agent.py]`. A word that names a file next to the workflow file is a
    /// source: its content is a part of the stage digest, and it is copied to the machine of the stage. The program
    /// itself may also be on the PATH. It is started once for every episode.
    #[schemars(schema_with = "command_schema")]
    pub command: Vec<String>,
    /// Further files and folders that the program requires; sources too, and patterns are allowed. They are in its
    /// working folder, each under its own name. The folder belongs to one episode and is removed afterwards.
    #[schemars(schema_with = "files_schema")]
    pub files: Vec<String>,
    /// Names of environment variables that the program gets in addition to `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR`,
    /// `TZ` and those with the address of the model. Their values are not a part of the stage digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Options for the program, copied unchanged into the file of the problem.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub options: Value,
    /// Maximum time from the program's start or a response to its next request or its exit: `30s`, `5m`. A program that
    /// exceeds it is killed, and its episode is an infrastructure failure. Time in which the model samples does not
    /// count.
    pub timeout: String,
    /// Maximum requests of one episode.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Format of calls where the chat template does not describe tools itself: as the option of the same name of other
    /// environments. `code` suits a program that offers one tool.
    #[schemars(schema_with = "formats::schema")]
    pub format: String,
    /// Add descriptions of the tools that the program offers to its system message. Where the chat template describes
    /// tools itself, it does that instead.
    pub describe_tools: bool,
    /// Address at which the server of the model listens: an IP address with or without a port. With `0.0.0.0`,
    /// containers and other machines reach it. Every call to an address of the network must have the key of its
    /// episode.
    #[serde(skip_serializing_if = "is_loopback")]
    pub bind: String,
    /// Address that the program gets: a host (`gpu-7`), a host with a port, or a URL. Empty = that of `bind`; in a
    /// container with its own network, the name of this machine there. All calls must then have the key of their
    /// episode.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advertise: String,
    /// Sandbox in which the program runs: `{kind: command, prefix: [bwrap, …]}`, `{kind: podman, image: …}` or `{kind:
    /// docker, image: …}`; null = as a process of the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxOptions>,
    /// Import the packages of a Python program once, and fork the process of each episode. Where that is not possible
    /// (not on Linux, in a sandbox, packages that start threads), each episode starts the program.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub fork: bool,
    /// Effect of the program's failure after its first request: `end`, `skip` or `fail`.
    pub on_failure: OnFailure,
    /// Put the problem's answer into its file: for programs that judge themselves, and whose model cannot read files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub show_answer: bool,
    /// A program that decides whether an answer is right, in place of the verifier that problems name: `{kind: process,
    /// command: [python3, my_verifier.py]}`; null = the verifier of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierOptions>,
}

impl Default for HarnessOptions {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            files: Vec::new(),
            env: Vec::new(),
            options: Value::Null,
            timeout: "5m".to_string(),
            max_turns: 32,
            format: "hermes".to_string(),
            describe_tools: true,
            bind: LOOPBACK.to_string(),
            advertise: String::new(),
            sandbox: None,
            fork: true,
            on_failure: OnFailure::End,
            show_answer: false,
            verifier: None,
        }
    }
}

fn is_loopback(bind: &str) -> bool {
    bind == LOOPBACK
}

impl HarnessOptions {
    /// Returns the sandbox of the program, if it has one.
    pub fn sandbox(&self) -> Option<&dyn Sandbox> {
        self.sandbox.as_ref().map(SandboxOptions::sandbox)
    }
    /// Returns the address that programs get in place of that of `bind`; empty if that is the one.
    pub fn advertised(&self) -> &str {
        let is_any = parse_bind(&self.bind).is_ok_and(|address| address.ip().is_unspecified());
        match self.sandbox().and_then(Sandbox::host) {
            Some(host) if self.advertise.is_empty() && is_any => host,
            _ => &self.advertise,
        }
    }
    fn address_problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let of = |pointer: &str, error: Error| {
            error.help.into_iter().fold(OptionProblem::new(pointer, error.message), OptionProblem::help)
        };
        if !self.advertise.is_empty() {
            problems.extend(check_advertise(&self.advertise).err().map(|error| of("/advertise", error)));
        }
        match parse_bind(&self.bind) {
            Err(error) => problems.push(of("/bind", error)),
            Ok(address) if address.ip().is_unspecified() && self.advertised().is_empty() => {
                let message = format!("`{}` is no address that a program can reach", self.bind);
                let help = "name this machine as programs reach it: `advertise: gpu-7`";
                problems.push(OptionProblem::new("/advertise", message).help(help));
            }
            Ok(address) if address.ip().is_loopback() && self.advertise.is_empty() => {
                if self.sandbox().and_then(Sandbox::host).is_some() {
                    let message = "a container with its own network does not reach 127.0.0.1 of this machine";
                    let help = "write `bind: 0.0.0.0`, or `network: host` in the sandbox";
                    problems.push(OptionProblem::new("/bind", message).help(help));
                }
            }
            Ok(_) => {}
        }
        problems
    }
    /// Returns the maximum time that the program may take between two requests. Errors: invalid, for text that is not a
    /// duration, or zero.
    pub fn time(&self) -> Result<Duration> {
        let time = parse_duration(&self.timeout).map_err(Error::invalid)?;
        if time.is_zero() {
            return Err(Error::invalid("the timeout of a request is zero").help("write for example `5m`"));
        }
        Ok(time)
    }
    fn program(&self) -> ProgramOptions {
        let Self { command, files, env, timeout, .. } = self.clone();
        ProgramOptions { command, files, env, timeout, ..ProgramOptions::default() }
    }
}

impl PartOptions for HarnessOptions {
    const KIND: &'static str = "harness";
    const SUMMARY: &'static str = "an unchanged agent: any program that calls a model over HTTP";
    const DOC: &'static str = include_str!("harness.md");
    fn check(&self) -> Vec<OptionProblem> {
        self.check_with(&Toolbox::standard())
    }
}

impl EnvironmentOptions for HarnessOptions {
    fn check_with(&self, toolbox: &Toolbox) -> Vec<OptionProblem> {
        let mut problems = self.program().problems();
        problems.extend(OptionProblem::out_of_range("/max_turns", self.max_turns, 1..=1000));
        if !toolbox.formats.names().contains(&self.format.as_str()) {
            let message = format!("unknown format `{}`", self.format);
            problems.push(
                OptionProblem::new("/format", message)
                    .help(format!("use one of: {}", toolbox.formats.names().join(", "))),
            );
        }
        problems.extend(self.address_problems());
        let sandbox = self.sandbox().map(Sandbox::problems).unwrap_or_default();
        problems.extend(sandbox.into_iter().map(|problem| problem.with_prefix("/sandbox")));
        let verifier = self.verifier.iter().flat_map(VerifierOptions::problems);
        problems.extend(verifier.map(|problem| problem.with_prefix("/verifier")));
        problems
    }
    fn fill_schema(schema: &mut Value, toolbox: &Toolbox) {
        schema["properties"]["format"]["enum"] = json!(toolbox.formats.names());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_options_are_reported_with_pointers() {
        let good = HarnessOptions { command: vec!["sh".into()], ..HarnessOptions::default() };
        assert_eq!(good.check(), []);
        let bad = HarnessOptions {
            command: Vec::new(),
            timeout: "soon".into(),
            max_turns: 0,
            format: "xml".into(),
            env: vec!["A=1".into()],
            ..good
        };
        let places: Vec<String> = bad.check().into_iter().map(|p| p.pointer).collect();
        assert_eq!(places, ["/command", "/timeout", "/env/0", "/max_turns", "/format"]);
        assert!(serde_json::from_value::<HarnessOptions>(json!({"comand": ["sh"]})).is_err());
    }

    #[test]
    fn address_must_be_reachable() {
        let places = |options: Value| -> Vec<String> {
            let mut all = json!({"command": ["sh"]});
            all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            let options: HarnessOptions = serde_json::from_value(all).unwrap();
            options.check().into_iter().map(|problem| problem.pointer).collect()
        };
        let docker = |network: &str| json!({"kind": "docker", "image": "a", "network": network});
        for good in [
            json!({"bind": "10.0.0.7:8080"}),
            json!({"bind": "0.0.0.0", "advertise": "gpu-7"}),
            json!({"bind": "0.0.0.0", "sandbox": docker("")}),
            json!({"sandbox": docker("host")}),
            json!({"advertise": "http://gate:80", "sandbox": docker("agents")}),
            json!({"sandbox": {"kind": "command", "prefix": ["env"]}}),
        ] {
            assert!(places(good.clone()).is_empty(), "{good}");
        }
        assert_eq!(places(json!({"bind": "0.0.0.0"})), ["/advertise"]);
        assert_eq!(places(json!({"bind": "localhost", "advertise": "a b"})), ["/advertise", "/bind"]);
        assert_eq!(places(json!({"sandbox": docker("")})), ["/bind"]);
        assert_eq!(places(json!({"sandbox": {"kind": "podman"}, "bind": "0.0.0.0"})), ["/sandbox/image"]);
        let options = HarnessOptions {
            bind: "0.0.0.0".into(),
            sandbox: serde_json::from_value(docker("")).unwrap(),
            ..HarnessOptions::default()
        };
        assert_eq!(options.advertised(), "host.docker.internal");
    }

    #[test]
    fn unset_options_are_not_in_digest() {
        let keys = serde_json::to_value(HarnessOptions::default()).unwrap();
        let keys: Vec<&String> = keys.as_object().unwrap().keys().collect();
        let shown = ["command", "describe_tools", "files", "format", "max_turns", "on_failure", "timeout"];
        assert_eq!(keys, shown);
    }
}
