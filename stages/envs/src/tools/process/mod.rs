//! Implements the tools `process` and `http`: functions of a user program or of a service.
//!
//! [`CustomProgram`] is the running program or the service, and [`session`] keeps the requests of one episode.
//! Environments of these kinds keep their sessions in the same way.

pub mod options;
pub(crate) mod result;
pub mod session;

pub use crate::tools::program::{CustomProgram, ProgramCapabilities};
pub use options::{CustomToolOptions, ToolRole};
pub use session::{CustomSession, OperationReply};

use crate::programs::CustomCodeOptions;
use crate::tools::{AgentTool, PendingToolResult, ToolCall, ToolHost, ToolLimits, ToolSession, ToolSpec};
use result::CallResultSource;
use serde_json::{Map, Value, json};
use session::CALL;
use std::sync::Arc;
use trainyard_core::{Error, ErrorKind, Result};

/// Role in the handshake with programs.
const ROLE: &str = "tool";

/// The tools of a program or a service.
pub struct CustomTools<P>(pub CustomToolOptions<P>);

/// Returns whether an error ends the stage, because it would occur in every other episode: changed tools, or a service
/// that rejects requests.
pub(crate) fn ends_stage(error: &Error) -> bool {
    error.kind != ErrorKind::Retryable && error.kind != ErrorKind::Cancelled
}

impl<P: CustomCodeOptions> AgentTool for CustomTools<P> {
    fn name(&self) -> &'static str {
        P::KIND
    }
    /// Returns no tools, because only the program knows them.
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn offered(&self, host: &Arc<ToolHost>) -> Result<Vec<ToolSpec>> {
        if host.is_idle() {
            return Ok(Vec::new());
        }
        let program = host.program(&self.0.peer, ROLE, "")?;
        if program.capabilities.tools.is_empty() {
            let error = Error::data("the program offers no tool").at(program.peer.place());
            return Err(error.help("write `@tool` above a function, and `run()` or `serve(port)` at the end"));
        }
        Ok(program.capabilities.tools.clone())
    }
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        let session = CustomSession::new(host.program(&self.0.peer, ROLE, "")?, Map::new());
        Ok(Box::new(CustomToolSession { session, max_bytes: limits.output_bytes }))
    }
}

struct CustomToolSession {
    session: CustomSession,
    max_bytes: u64,
}

/// Submits a call of one of a program's tools. Its result is truncated to `max_bytes` bytes.
pub(crate) fn submit(session: &CustomSession, call: &ToolCall, max_bytes: u64) -> PendingToolResult {
    let body = [("tool".to_string(), json!(call.name)), ("arguments".to_string(), call.arguments.clone())];
    let pending = session.submit(CALL, body.into_iter().collect(), format!("a call of `{}`", call.name));
    PendingToolResult::from_source(CallResultSource { pending, max_bytes })
}

impl ToolSession for CustomToolSession {
    /// Submits a call without a name, which the program rejects, because it may have several tools.
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> PendingToolResult {
        submit(&self.session, call, self.max_bytes)
    }
    fn failure(&mut self) -> Option<Error> {
        self.session.failed().filter(ends_stage)
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { session: self.session.fork(), max_bytes: self.max_bytes }))
    }
}
