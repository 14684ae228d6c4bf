//! Implements the tool `mcp`: tools of a server that implements the Model Context Protocol (`docs/mcp.md`,
//! `docs/design/0034-outside.md`).
//!
//! `protocol` defines the messages, `protocol_session` their order, and `local` and `remote` the connections to
//! servers; `event_stream` parses the responses that `remote` gets. The other code treats a server as a user program: a
//! lost session is rebuilt by repeating its requests and comparing the results. `server` implements the other side of
//! the protocol.

pub mod event_stream;
mod local;
pub mod options;
pub(crate) mod protocol;
mod protocol_session;
mod remote;
pub mod server;
mod tool_list;

pub use options::{McpOptions, SessionKind};
pub use server::ToolServer;

use crate::tools::pending_result::PendingResultSource;
use crate::tools::process::{CustomProgram, CustomSession, OperationReply, ends_stage, submit};
use crate::tools::{AgentTool, PendingToolResult, ToolCall, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use protocol_session::McpProtocol;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tool_list::McpToolList;
use trainyard_api::PartOptions as _;
use trainyard_core::{Error, Result};
use trainyard_process::{ProgramFault, ProgramService, SessionLocation};

/// The tools of a server.
pub struct McpTool(pub McpOptions);

impl McpTool {
    /// Returns the server. Starts it if it does not run.
    fn program(&self, host: &Arc<ToolHost>) -> Result<Arc<CustomProgram>> {
        let options = &self.0;
        host.shared("mcp", options, |log| {
            let protocol =
                Arc::new(McpProtocol { listing: Arc::new(McpToolList::new(options)), max_bytes: options.output_bytes });
            let peer: Arc<dyn ProgramService> = if !options.url.is_empty() {
                Arc::new(remote::RemoteMcpServer::new(options, protocol, host.secrets(), log.clone())?)
            } else if options.session == SessionKind::Shared {
                Arc::new(local::SharedMcpServers::new(options, protocol, log.clone())?)
            } else {
                Arc::new(local::EpisodeMcpServers::new(options, protocol, log.clone())?)
            };
            CustomProgram::from_service(peer, log)
        })
    }
}

impl AgentTool for McpTool {
    fn name(&self) -> &'static str {
        McpOptions::KIND
    }
    /// Returns no tools, because only the server knows them.
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn offered(&self, host: &Arc<ToolHost>) -> Result<Vec<ToolSpec>> {
        if host.is_idle() { Ok(Vec::new()) } else { Ok(self.program(host)?.capabilities.tools.clone()) }
    }
    fn open(&self, host: &Arc<ToolHost>, _: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        let program = self.program(host)?;
        Ok(match self.0.session {
            SessionKind::Episode => Box::new(McpEpisodeSession(CustomSession::new(program, Map::new()))),
            SessionKind::Shared => Box::new(McpSharedSession { program, failure: Arc::default() }),
        })
    }
}

/// Server that keeps state for the episode.
struct McpEpisodeSession(CustomSession);

impl ToolSession for McpEpisodeSession {
    /// Submits a call without a name, which the server rejects, because it may have several tools.
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> PendingToolResult {
        // The results are truncated already.
        submit(&self.0, call, u64::MAX)
    }
    fn failure(&mut self) -> Option<Error> {
        self.0.failed().filter(ends_stage)
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self(self.0.fork())))
    }
}

/// Session of stateless servers, whose calls belong to no session.
struct McpSharedSession {
    program: Arc<CustomProgram>,
    failure: Arc<Mutex<Option<Error>>>,
}

/// Source of the result of a call without a session.
struct SharedResultSource {
    pending: trainyard_process::PendingProgramResponse,
    failure: Arc<Mutex<Option<Error>>>,
}

impl PendingResultSource for SharedResultSource {
    fn poll(&self) -> Option<ToolResult> {
        self.wait(Duration::ZERO)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        let response = if wait.is_zero() { self.pending.poll() } else { self.pending.wait(wait) }?;
        let reply = match response {
            Ok(reply) => OperationReply::Value(reply.value),
            Err(ProgramFault::Exception(exception)) => OperationReply::Raised(exception),
            Err(ProgramFault::TimedOut(error)) => OperationReply::Failed { error, late: true },
            Err(ProgramFault::Lost(error) | ProgramFault::Outage(error)) => {
                if ends_stage(&error) {
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                }
                OperationReply::Failed { error, late: false }
            }
        };
        Some(crate::tools::process::result::result(&reply, u64::MAX))
    }
}

impl ToolSession for McpSharedSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> PendingToolResult {
        let body = [("tool".to_string(), json!(call.name)), ("arguments".to_string(), call.arguments.clone())];
        let location = SessionLocation { session: 0, worker: 0, generation: None };
        match self.program.peer.send_in_session(location, "call", body.into_iter().collect()) {
            Ok(pending) => {
                PendingToolResult::from_source(SharedResultSource { pending, failure: Arc::clone(&self.failure) })
            }
            Err(error) => PendingToolResult::ready(ToolResult::infrastructure(format!("error: {}", error.message))),
        }
    }
    fn failure(&mut self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { program: Arc::clone(&self.program), failure: Arc::clone(&self.failure) }))
    }
}
