//! Tool `process`: functions of a user program, and those of a service (`http`).
//!
//! [`Program`] is the running program or the service, [`session`] the requests of one episode; environments of these
//! kinds keep their sessions in the same way.

pub mod options;
pub(crate) mod result;
pub mod session;

pub use crate::tools::program::{Offers, Program};
pub use options::{OwnToolOptions, ToolRole};
pub use session::{Reply, Session};

use crate::programs::PeerOptions;
use crate::tools::{Ticket, Tool, ToolCall, ToolHost, ToolLimits, ToolSession, ToolSpec};
use result::CallClaim;
use serde_json::{Map, Value, json};
use session::CALL;
use std::sync::Arc;
use trainyard_core::{Error, ErrorKind, Result};

/// Role in the handshake with programs.
const ROLE: &str = "tool";

/// The tools of a program or a service.
pub struct OwnTools<P>(pub OwnToolOptions<P>);

/// Returns whether an error ends the stage, because every other episode would meet it: changed tools, or a service that
/// rejects requests.
pub(crate) fn ends_stage(error: &Error) -> bool {
    error.kind != ErrorKind::Retryable && error.kind != ErrorKind::Cancelled
}

impl<P: PeerOptions> Tool for OwnTools<P> {
    fn name(&self) -> &'static str {
        P::KIND
    }
    /// Empty: only the program knows its tools.
    fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }
    fn offered(&self, host: &Arc<ToolHost>) -> Result<Vec<ToolSpec>> {
        if host.is_idle() {
            return Ok(Vec::new());
        }
        let program = host.program(&self.0.peer, ROLE, "")?;
        if program.offers.tools.is_empty() {
            let error = Error::data("the program offers no tool").at(program.peer.place());
            return Err(error.help("write `@tool` above a function, and `run()` or `serve(port)` at the end"));
        }
        Ok(program.offers.tools.clone())
    }
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        let session = Session::new(host.program(&self.0.peer, ROLE, "")?, Map::new());
        Ok(Box::new(OwnSession { session, most: limits.output_bytes }))
    }
}

struct OwnSession {
    session: Session,
    most: u64,
}

/// Submits a call of one of a program's tools.
pub(crate) fn submit(session: &Session, call: &ToolCall, most: u64) -> Ticket {
    let body = [("tool".to_string(), json!(call.name)), ("arguments".to_string(), call.arguments.clone())];
    let awaited = session.ask(CALL, body.into_iter().collect(), format!("a call of `{}`", call.name));
    Ticket::on(CallClaim { awaited, most })
}

impl ToolSession for OwnSession {
    /// A program has several tools, so a call without a name matches none of them.
    fn submit(&mut self, arguments: &Value) -> Ticket {
        self.submit_call(&ToolCall { name: String::new(), arguments: arguments.clone() })
    }
    fn submit_call(&mut self, call: &ToolCall) -> Ticket {
        submit(&self.session, call, self.most)
    }
    fn failure(&mut self) -> Option<Error> {
        self.session.failed().filter(ends_stage)
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { session: self.session.fork(), most: self.most }))
    }
}
