//! Defines the interface of protocols between a supervisor and a program: the opening of a session, and the meaning of
//! its lines.
//!
//! The JSON protocol of this crate is one implementation. Programs with other protocols are started, restarted, limited
//! and killed in the same way.

use crate::fault::ProgramException;
use crate::wire;
use serde_json::Value;

/// Protocol of all processes of a program.
pub trait ProgramProtocol: Send + Sync {
    /// Begins a session with a process that has just started.
    fn start_session(&self) -> Box<dyn ProtocolSession>;
    /// Returns the advice for a program that does not start.
    fn help(&self) -> &'static str;
}

/// State of a session with one process.
pub trait ProtocolSession: Send {
    /// Returns the first lines for the process.
    fn opening(&mut self) -> String;
    /// Parses a line of the process. Errors: a description of the fault; the process is discarded.
    fn parse_line(&mut self, line: &[u8]) -> Result<ProtocolEvent, String>;
}

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum ProtocolEvent {
    /// The process is ready, with its features.
    Ready(Value),
    /// Response to the request of this number.
    Response(u64, Result<Value, ProgramException>),
    /// Lines to send to the process.
    Send(String),
    /// A line for the log.
    Log(String),
    /// A line without meaning.
    Ignored,
}

/// The protocol of this crate, version 1.
pub(crate) struct JsonProtocol {
    /// The line `hello`, without its line end.
    pub hello: String,
}

impl ProgramProtocol for JsonProtocol {
    fn start_session(&self) -> Box<dyn ProtocolSession> {
        Box::new(JsonProtocolSession { hello: self.hello.clone(), is_ready: false })
    }
    fn help(&self) -> &'static str {
        "run it in a terminal: it must respond to the line `hello` of the protocol"
    }
}

struct JsonProtocolSession {
    hello: String,
    is_ready: bool,
}

impl ProtocolSession for JsonProtocolSession {
    fn opening(&mut self) -> String {
        format!("{}\n", self.hello)
    }
    fn parse_line(&mut self, line: &[u8]) -> Result<ProtocolEvent, String> {
        if !self.is_ready {
            let ready = wire::parse_ready(line)?;
            self.is_ready = true;
            return Ok(ProtocolEvent::Ready(ready));
        }
        wire::parse_response(line).map(|(id, result)| ProtocolEvent::Response(id, result))
    }
}
