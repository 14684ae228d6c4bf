//! Implements the tool `python`, an interpreter session in a worker process.
//!
//! The interpreter is monty, a subset of Python written in Rust, or the user's CPython; the tool's description to the
//! model depends on it. A result is the program's output, the `repr` of its last expression, and the last line of an
//! exception. Variables persist across calls, also after an exception. A call that hits its time limit, or ends its
//! interpreter, leaves the session as it was before.

use crate::tools::host::ProgramSession;
use crate::tools::tool::text_argument;
use crate::tools::{AgentTool, PendingToolResult, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};

/// Maximum length of one program in bytes.
pub const MAX_PROGRAM_BYTES: usize = 64 << 10;

/// Description of the embedded interpreter for the model.
const MONTY: &str = "Runs a Python program and returns what it prints and the value of its last expression. \
Variables stay between calls. The Python is a subset of Python 3: functions, lambdas, comprehensions, f-strings, \
exceptions, simple classes; no inheritance, generators (yield), match, del, or complex numbers. Modules: sys, typing, \
math, json, re, datetime, unicodedata, itertools (count, repeat), dataclasses, collections, functools (reduce, \
partial), base64, binascii. No files, network or clock.";

/// Description of CPython for the model.
const CPYTHON: &str = "Runs a Python 3 program and returns what it prints and the value of its last expression. \
Variables and files in the current folder stay between calls. No network, processes, threads, subfolders, or files \
elsewhere.";

/// Documentation page.
const DOC: &str = "Runs Python programs in worker processes. A result is what the program prints, the `repr` of its\n\
last expression, and the last line of an exception. Variables stay between calls.\n\n\
`interpreter: monty` (the default) is built in: a subset of Python 3 without files, network or clock. Its results\n\
are the same everywhere, and its calls take microseconds.\n\n\
`interpreter: cpython` is an installed Python with its packages (`pip install` them there), in a process per session\n\
that is confined by Landlock and seccomp. Without them (Linux before 5.13) it is rejected: nothing runs unconfined. A\n\
program can read the interpreter's installation and packages, and has one folder for files (64 MiB in up to 256\n\
files, no subfolders). It has no network, processes, threads, timers or other files, and is stopped between calls.\n\
`limits.memory_bytes` holds per session and is address space beyond the interpreter's own;\n\
`limits.recursion_depth` and `limits.suspensions` do not apply.\n\n\
Hashes and `random` have fixed seeds; the clock and the system's random numbers are real. After a fork or the loss of\n\
its process, a session is rebuilt by running its programs again; if their results then differ, the episode is an\n\
infrastructure failure and enters no update. The log of a stage names its Python. The stage digest contains the\n\
options `program` and `version`, but neither the packages nor the interpreter itself.\n\n\
    tools: [{kind: python, interpreter: cpython, program: /opt/agent/bin/python, version: \"3.12\"}]";

/// Interpreter of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PythonInterpreter {
    /// Embedded interpreter, a subset of Python 3.
    #[default]
    Monty,
    /// The user's Python 3.
    Cpython,
}

/// Options of the tool `python`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PythonOptions {
    /// `monty`, a subset of Python 3 that is built in, or `cpython`, an installed Python 3 in a sandbox.
    #[serde(skip_serializing_if = "is_monty")]
    pub interpreter: PythonInterpreter,
    /// The interpreter for `cpython`, such as that of a virtual environment; null = `python3` of the PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The version that the interpreter for `cpython` must have, such as `3.12`; null = any. Results may depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

fn is_monty(interpreter: &PythonInterpreter) -> bool {
    *interpreter == PythonInterpreter::Monty
}

impl PartOptions for PythonOptions {
    const KIND: &'static str = "python";
    const SUMMARY: &'static str = "a Python session in a sandboxed worker process";
    const DOC: &'static str = DOC;
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (name, value) in [("program", &self.program), ("version", &self.version)] {
            let Some(value) = value else { continue };
            let pointer = format!("/{name}");
            if self.interpreter == PythonInterpreter::Monty {
                let problem = OptionProblem::new(pointer, format!("`{name}` has no effect with `interpreter: monty`"));
                problems.push(problem.help("set `interpreter: cpython`, or remove the option"));
            } else if value.is_empty() {
                problems.push(
                    OptionProblem::new(pointer, format!("`{name}` is empty"))
                        .help("remove the option, or name an interpreter or version"),
                );
            }
        }
        if let Some(version) = &self.version
            && !version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
        {
            let problem = OptionProblem::new("/version", format!("`{version}` is not a version"));
            problems.push(problem.help("write for example \"3.12\" or \"3.12.4\""));
        }
        problems
    }
}

pub struct Python(pub PythonOptions);

impl AgentTool for Python {
    fn name(&self) -> &'static str {
        PythonOptions::KIND
    }
    fn specs(&self) -> Vec<ToolSpec> {
        let description = match self.0.interpreter {
            PythonInterpreter::Monty => MONTY,
            PythonInterpreter::Cpython => CPYTHON,
        };
        vec![ToolSpec {
            name: self.name().to_string(),
            description: description.to_string(),
            parameters: json!({
                "type": "object",
                "properties": {"code": {"type": "string", "description": "the program"}},
                "required": ["code"],
            }),
        }]
    }
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        let PythonOptions { interpreter, program, version } = &self.0;
        let program = match interpreter {
            PythonInterpreter::Monty => host.open(limits)?,
            PythonInterpreter::Cpython => {
                host.open_cpython(limits, program.as_deref().map(Path::new), version.as_deref())?
            }
        };
        Ok(Box::new(PythonSession { host: Arc::clone(host), program }))
    }
}

/// Session that keeps its host alive.
struct PythonSession {
    host: Arc<ToolHost>,
    program: ProgramSession,
}

impl ToolSession for PythonSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        match text_argument("python", "code", arguments) {
            Err(error) => PendingToolResult::ready(error),
            Ok(code) if code.len() > MAX_PROGRAM_BYTES => PendingToolResult::ready(ToolResult::error(format!(
                "error: the program is longer than {MAX_PROGRAM_BYTES} bytes"
            ))),
            Ok(code) => self.program.submit(code),
        }
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { host: Arc::clone(&self.host), program: self.program.fork() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(options: Value) -> Vec<String> {
        let options: PythonOptions = serde_json::from_value(options).unwrap();
        options.check().into_iter().map(|problem| problem.pointer).collect()
    }

    /// Checks the serialized form, on which the digests of stage configs depend.
    #[test]
    fn defaults_are_not_serialized() {
        assert_eq!(serde_json::to_value(PythonOptions::default()).unwrap(), json!({}));
        let complete = json!({"interpreter": "cpython", "program": "/opt/bin/python", "version": "3.12"});
        let options: PythonOptions = serde_json::from_value(complete.clone()).unwrap();
        assert_eq!(serde_json::to_value(options).unwrap(), complete);
    }

    #[test]
    fn options_without_effect_or_meaning_are_rejected() {
        assert!(problems(json!({})).is_empty() && problems(json!({"interpreter": "cpython"})).is_empty());
        assert!(problems(json!({"interpreter": "cpython", "version": "3.12"})).is_empty());
        assert_eq!(problems(json!({"program": "/usr/bin/python3", "version": "3"})), ["/program", "/version"]);
        assert_eq!(problems(json!({"interpreter": "cpython", "program": ""})), ["/program"]);
        assert_eq!(problems(json!({"interpreter": "cpython", "version": ">=3.12"})), ["/version"]);
        assert!(serde_json::from_value::<PythonOptions>(json!({"interpreter": "pypy"})).is_err());
    }
}
