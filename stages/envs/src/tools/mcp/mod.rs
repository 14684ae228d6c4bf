//! Tool `mcp`: tools of a server that speaks the Model Context Protocol.
//!
//! `protocol` defines the messages, `language` their order, and `local` and `remote` the servers. The rest treats a
//! server as a user program: a lost session is rebuilt by repeating its requests and comparing the answers. `server` is
//! the other side of the protocol.

mod language;
mod listing;
mod local;
pub mod options;
pub(crate) mod protocol;
mod remote;
pub mod server;

pub use options::{McpOptions, SessionKind};
pub use server::ToolServer;

use crate::tools::process::{Program, Reply, Session, ends_stage, submit};
use crate::tools::ticket::Claim;
use crate::tools::{Ticket, Tool, ToolCall, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use language::Mcp;
use listing::Listing;
use serde_json::{Map, Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trainyard_api::PartOptions as _;
use trainyard_core::{Error, Result};
use trainyard_process::{Fault, Peer, Seat};

/// The tools of a server.
pub struct McpTool(pub McpOptions);

impl McpTool {
    /// Returns the server, started if it does not run.
    fn program(&self, host: &Arc<ToolHost>) -> Result<Arc<Program>> {
        let options = &self.0;
        host.shared("mcp", options, |log| {
            let language = Arc::new(Mcp { listing: Arc::new(Listing::new(options)), most: options.output_bytes });
            let peer: Arc<dyn Peer> = if !options.url.is_empty() {
                Arc::new(remote::Remote::new(options, language, host.secrets(), log.clone())?)
            } else if options.session == SessionKind::Shared {
                Arc::new(local::Shared::new(options, language, log.clone())?)
            } else {
                Arc::new(local::PerSession::new(options, language, log.clone())?)
            };
            Program::over(peer, log)
        })
    }
}

impl Tool for McpTool {
    fn name(&self) -> &'static str {
        McpOptions::KIND
    }
    /// Empty: only the server knows its tools.
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn offered(&self, host: &Arc<ToolHost>) -> Result<Vec<ToolSpec>> {
        if host.is_idle() { Ok(Vec::new()) } else { Ok(self.program(host)?.offers.tools.clone()) }
    }
    fn open(&self, host: &Arc<ToolHost>, _: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        let program = self.program(host)?;
        Ok(match self.0.session {
            SessionKind::Episode => Box::new(OwnServer(Session::new(program, Map::new()))),
            SessionKind::Shared => Box::new(SharedServer { program, failure: Arc::default() }),
        })
    }
}

/// Server that keeps state for the episode.
struct OwnServer(Session);

impl ToolSession for OwnServer {
    /// A server has several tools, so a call without a name matches none of them.
    fn submit(&mut self, arguments: &Value) -> Ticket {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> Ticket {
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

/// Stateless servers: a call belongs to no session.
struct SharedServer {
    program: Arc<Program>,
    failure: Arc<Mutex<Option<Error>>>,
}

/// Claim on the result of a call without a session.
struct Loose {
    ticket: trainyard_process::Ticket,
    failure: Arc<Mutex<Option<Error>>>,
}

impl Claim for Loose {
    fn poll(&self) -> Option<ToolResult> {
        self.wait(Duration::ZERO)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        let answer = if wait.is_zero() { self.ticket.poll() } else { self.ticket.wait(wait) }?;
        let reply = match answer {
            Ok(reply) => Reply::Value(reply.value),
            Err(Fault::Raised(raised)) => Reply::Raised(raised),
            Err(Fault::Late(error)) => Reply::Failed { error, late: true },
            Err(Fault::Lost(error) | Fault::Outage(error)) => {
                if ends_stage(&error) {
                    *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                }
                Reply::Failed { error, late: false }
            }
        };
        Some(crate::tools::process::result::result(&reply, u64::MAX))
    }
}

impl ToolSession for SharedServer {
    fn submit(&mut self, arguments: &Value) -> Ticket {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> Ticket {
        let body = [("tool".to_string(), json!(call.name)), ("arguments".to_string(), call.arguments.clone())];
        let seat = Seat { session: 0, lane: 0, life: None };
        match self.program.peer.put_in(seat, "call", body.into_iter().collect()) {
            Ok(ticket) => Ticket::on(Loose { ticket, failure: Arc::clone(&self.failure) }),
            Err(error) => Ticket::ready(ToolResult::infrastructure(format!("error: {}", error.message))),
        }
    }
    fn failure(&mut self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { program: Arc::clone(&self.program), failure: Arc::clone(&self.failure) }))
    }
}
