//! Implements the protocol of programs for a server: from `initialize` to the list of tools, then results of calls.

use super::protocol::{self, ServerMessage};
use super::tool_list::McpToolList;
use crate::tools::ToolSpec;
use serde_json::Value;
use std::sync::Arc;
use trainyard_process::{ProgramProtocol, ProtocolEvent, ProtocolSession, excerpt};

/// Maximum number of pages of a list of tools.
const MAX_PAGES: usize = 100;
/// Maximum number of logged stdout lines of one server, in addition to its standard error.
const MAX_LOGGED_LINES: usize = 100;
/// Number of lines without a message after which a server fails.
const MAX_IGNORED_LINES: usize = 10_000;

/// Protocol of a server.
pub struct McpProtocol {
    /// The tools that every server must offer.
    pub listing: Arc<McpToolList>,
    /// Maximum size in bytes of a result that the agent reads.
    pub max_bytes: usize,
}

impl McpProtocol {
    /// Returns the protocol state for a server that has just started.
    pub fn new_session(&self) -> McpProtocolSession {
        let Self { listing, max_bytes } = self;
        let (listing, max_bytes) = (Arc::clone(listing), *max_bytes);
        McpProtocolSession {
            listing,
            max_bytes,
            version: String::new(),
            listed: Vec::new(),
            pages: 0,
            is_ready: false,
            logged_lines: 0,
        }
    }
}

impl ProgramProtocol for McpProtocol {
    fn start_session(&self) -> Box<dyn ProtocolSession> {
        Box::new(self.new_session())
    }
    fn help(&self) -> &'static str {
        "run the server by hand: it must answer `initialize` of the Model Context Protocol on its standard output"
    }
}

/// Protocol state of one server.
pub struct McpProtocolSession {
    listing: Arc<McpToolList>,
    max_bytes: usize,
    /// Version of the protocol; empty until it is agreed upon.
    pub version: String,
    /// Tools of the pages so far.
    listed: Vec<ToolSpec>,
    pages: usize,
    is_ready: bool,
    logged_lines: usize,
}

impl McpProtocolSession {
    /// Applies a message to the state and returns its meaning. The error describes the problem with the message.
    pub fn message(&mut self, message: &Value) -> Result<ProtocolEvent, String> {
        Ok(match protocol::read(message)? {
            ServerMessage::Initialized(result) => {
                self.version = protocol::accept(&result)?;
                ProtocolEvent::Send(lines(&[protocol::initialized(), protocol::list(None)]))
            }
            ServerMessage::Listed(result) => self.listed(protocol::page(&result)?)?,
            ServerMessage::Called(number, result) => {
                ProtocolEvent::Response(number, result.map(|result| protocol::result(&result, self.max_bytes)))
            }
            ServerMessage::Request(id, method) => {
                ProtocolEvent::Send(lines(&[protocol::client_response(&id, &method)]))
            }
            // Before the server is ready, its list has already been requested.
            ServerMessage::Changed if self.is_ready => ProtocolEvent::Send(lines(&[protocol::list(None)])),
            ServerMessage::Log(text) => self.log_line(text),
            ServerMessage::Changed | ServerMessage::Other => ProtocolEvent::Ignored,
        })
    }
    /// Adds a page of tools. Returns the request for the next page or, after the last, the event that the server is
    /// ready.
    fn listed(&mut self, (tools, cursor): (Vec<ToolSpec>, Option<String>)) -> Result<ProtocolEvent, String> {
        self.listed.extend(tools);
        self.pages += 1;
        if let Some(cursor) = cursor {
            if self.pages >= MAX_PAGES {
                return Err(format!("its list of tools has more than {MAX_PAGES} pages"));
            }
            return Ok(ProtocolEvent::Send(lines(&[protocol::list(Some(&cursor))])));
        }
        self.pages = 0;
        let new = self.listing.check_or_store(std::mem::take(&mut self.listed))?;
        if !std::mem::replace(&mut self.is_ready, true) {
            return Ok(ProtocolEvent::Ready(self.listing.ready()));
        }
        Ok(match new.as_slice() {
            [] => ProtocolEvent::Ignored,
            new => self.log_line(format!("the server offers new tools, which are not used: {}", new.join(", "))),
        })
    }
    fn log_line(&mut self, text: String) -> ProtocolEvent {
        self.logged_lines += 1;
        if self.logged_lines > MAX_LOGGED_LINES { ProtocolEvent::Ignored } else { ProtocolEvent::Log(text) }
    }
}

impl ProtocolSession for McpProtocolSession {
    fn opening(&mut self) -> String {
        lines(&[protocol::initialize()])
    }
    fn parse_line(&mut self, line: &[u8]) -> Result<ProtocolEvent, String> {
        match serde_json::from_slice::<Value>(line) {
            // Earlier versions allowed several messages in one line, but no server used them.
            Ok(message) if message.is_object() => self.message(&message).map_err(|e| format!("{e}: {}", excerpt(line))),
            // Many servers print lines to stdout that belong on stderr.
            _ if line.iter().all(u8::is_ascii_whitespace) => Ok(ProtocolEvent::Ignored),
            _ if self.logged_lines >= MAX_IGNORED_LINES => {
                Err(format!("writes too many lines that are not messages: {}", excerpt(line)))
            }
            _ => Ok(self.log_line(format!("not a message: {}", excerpt(line)))),
        }
    }
}

/// Returns messages as lines.
fn lines(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}
