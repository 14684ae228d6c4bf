//! The `python` tool: an interpreter session in a worker process.
//!
//! The interpreter is monty, a subset of Python written in Rust; the description tells the model which subset. A result
//! is what the program prints, the `repr` of its last expression, and the last line of an exception. Variables persist
//! across calls, also after an exception. A call that hits its time or memory limit leaves the session as it was
//! before.

use crate::tools::host::ProgramSession;
use crate::tools::tool::text_argument;
use crate::tools::{Ticket, Tool, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// Maximum length of one program in bytes.
pub const MAX_PROGRAM_BYTES: usize = 64 << 10;

/// What the model and the page are told.
pub const DOC: &str = "Runs a Python program and returns what it prints and the value of its last expression. \
Variables stay between calls. The Python is a subset of Python 3: functions, lambdas, comprehensions, f-strings, \
exceptions, simple classes; no inheritance, generators (yield), match, del, or complex numbers. Modules: sys, typing, \
math, json, re, datetime, unicodedata, itertools (count, repeat), dataclasses, collections, functools (reduce, \
partial), base64, binascii. No files, network or clock.";

/// The tool `python`.
pub struct Python;

impl Tool for Python {
    fn name(&self) -> &'static str {
        "python"
    }
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name().to_string(),
            description: DOC.to_string(),
            parameters: json!({
                "type": "object",
                "properties": {"code": {"type": "string", "description": "the program"}},
                "required": ["code"],
            }),
        }
    }
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(PythonSession { host: Arc::clone(host), program: host.open(limits)? }))
    }
}

/// Keeps the host alive as long as the session.
struct PythonSession {
    host: Arc<ToolHost>,
    program: ProgramSession,
}

impl ToolSession for PythonSession {
    fn submit(&mut self, arguments: &Value) -> Ticket {
        match text_argument("python", "code", arguments) {
            Err(refused) => Ticket::ready(refused),
            Ok(code) if code.len() > MAX_PROGRAM_BYTES => {
                Ticket::ready(ToolResult::error(format!("error: the program is longer than {MAX_PROGRAM_BYTES} bytes")))
            }
            Ok(code) => self.program.submit(code),
        }
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { host: Arc::clone(&self.host), program: self.program.fork() }))
    }
}
