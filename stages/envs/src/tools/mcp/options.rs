//! Defines the options of the tool `mcp`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, SecretName};
use trainyard_http::BaseUrl;
use trainyard_process::{ProgramOptions, command_schema, files_schema};

/// Parts of a server that episodes share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SessionKind {
    /// A separate server for every episode, or at a URL a separate session, from its first call to its end.
    #[default]
    Episode,
    /// All episodes use the same servers, which must keep no state between calls.
    Shared,
}

/// An MCP server whose tools the agent may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McpOptions {
    /// Server as a program that uses its standard input and output: `[npx, -y, some-server]`. A word that names a file
    /// next to the workflow file is a source: its content is part of the stage digest, and it is available where the
    /// stage runs. Either this or `url` is given.
    #[schemars(schema_with = "command_schema")]
    pub command: Vec<String>,
    /// Files and folders that the server finds in its working folder under their names; sources too, and patterns are
    /// allowed. Every server has a separate working folder, which is removed with it.
    #[schemars(schema_with = "files_schema")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Names of environment variables that the server gets in addition to `HOME`, `LANG`, `LC_ALL`, `PATH`, `TMPDIR`
    /// and `TZ`. Their values are not part of the stage digest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Server as a service with the transport "streamable HTTP": `http://127.0.0.1:3001/mcp`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// Key of the service, by its name in the site file: `{secret: NAME}`; null = no key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretName>,
    /// Names of the tools that are offered to the agent, in this order; empty = all tools of the server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Prefix of every tool name, to distinguish the tools of several servers: `files_`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Parts that episodes share: `episode` (a separate server for each) or `shared`.
    pub session: SessionKind,
    /// Servers that run at the same time: exactly so many with `session: shared`, otherwise at most so many, and
    /// further episodes wait. With `url`: calls in flight.
    #[schemars(range(min = 1, max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<usize>,
    /// Time limit of one call: `30s`, `2m`. A server that takes longer is killed.
    pub timeout: String,
    /// Bytes of a result that the agent reads; the rest is left out, with a note in the result.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub output_bytes: usize,
}

impl Default for McpOptions {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            files: Vec::new(),
            env: Vec::new(),
            url: String::new(),
            api_key: None,
            allow: Vec::new(),
            prefix: String::new(),
            session: SessionKind::default(),
            servers: None,
            timeout: "30s".to_string(),
            output_bytes: 8_192,
        }
    }
}

/// Default number of servers of episodes that run at the same time, and of calls of a service in flight.
const DEFAULT_SERVERS: usize = 64;

impl McpOptions {
    /// Returns the server as a program. With a server for each episode, every server has a single process.
    pub fn program(&self) -> ProgramOptions {
        ProgramOptions {
            command: self.command.clone(),
            files: self.files.clone(),
            workers: if self.session == SessionKind::Shared { self.servers() } else { 1 },
            timeout: self.timeout.clone(),
            env: self.env.clone(),
            ..ProgramOptions::default()
        }
    }
    /// Returns the number of servers, or calls in flight.
    pub fn servers(&self) -> usize {
        let local_and_shared = self.session == SessionKind::Shared && self.url.is_empty();
        self.servers.unwrap_or(if local_and_shared { 1 } else { DEFAULT_SERVERS })
    }
    /// Returns the name of the server's part in messages.
    pub fn part() -> &'static str {
        "tool `mcp`"
    }
}

impl PartOptions for McpOptions {
    const KIND: &'static str = "mcp";
    const SUMMARY: &'static str = "tools of a server that speaks the Model Context Protocol";
    const DOC: &'static str = include_str!("mcp.md");
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let is_program = self.url.is_empty();
        match (self.command.is_empty(), is_program) {
            (true, true) => problems.push(
                OptionProblem::new("/command", "the server has neither a `command` nor a `url`")
                    .help("write for example `command: [npx, -y, some-server]`, or set `url`"),
            ),
            (false, false) => problems.push(
                OptionProblem::new("/url", "the server has both a `command` and a `url`").help("remove one of them"),
            ),
            _ => {}
        }
        if is_program {
            let program = self
                .program()
                .problems()
                .into_iter()
                .filter(|problem| !["/command", "/workers"].contains(&problem.pointer.as_str()));
            problems.extend(program);
            if self.api_key.is_some() {
                let problem = OptionProblem::new("/api_key", "`api_key` applies only to a server with a `url`");
                problems.push(problem.help("pass the key in an environment variable: `env: [NAME]`"));
            }
        } else {
            if let Err(e) = BaseUrl::exact(&self.url) {
                let problem = OptionProblem::new("/url", e.message);
                problems.push(e.help.into_iter().fold(problem, OptionProblem::help));
            }
            if let Err(e) = self.program().time() {
                problems.push(OptionProblem::new("/timeout", e.message));
            }
            for (pointer, is_given) in [("/files", !self.files.is_empty()), ("/env", !self.env.is_empty())] {
                if is_given {
                    problems.push(OptionProblem::new(pointer, "applies only to a server with a `command`"));
                }
            }
        }
        if let Some(servers) = self.servers {
            problems.extend(OptionProblem::out_of_range("/servers", servers, 1..=1024));
        }
        problems.extend(OptionProblem::out_of_range("/output_bytes", self.output_bytes, 16..=1 << 20));
        let mut names = BTreeSet::new();
        let twice = self.allow.iter().enumerate().filter(|(_, name)| !names.insert(*name));
        problems.extend(twice.map(|(index, name)| {
            OptionProblem::new(format!("/allow/{index}"), format!("tool `{name}` is listed twice"))
        }));
        problems
    }
}
