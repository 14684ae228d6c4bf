//! The protocol as a language of programs: from `initialize` to the list of tools, then answers to calls.

use super::listing::Listing;
use super::protocol::{self, Message};
use crate::tools::ToolSpec;
use serde_json::Value;
use std::sync::Arc;
use trainyard_process::{Conversation, Heard, Language, shown};

/// Pages of a list of tools.
const PAGES: usize = 100;
/// Maximum number of logged stdout lines of one server, in addition to its standard error.
const ASIDES: usize = 100;
/// Lines without a message after which a server is given up.
const NOISE: usize = 10_000;

/// Protocol of a server.
pub struct Mcp {
    /// The tools that every server must offer.
    pub listing: Arc<Listing>,
    /// Bytes of a result that the agent reads.
    pub most: usize,
}

impl Mcp {
    /// Returns a conversation with a server that has just started.
    pub fn conversation(&self) -> Talk {
        let Self { listing, most } = self;
        let (listing, most) = (Arc::clone(listing), *most);
        Talk { listing, most, version: String::new(), listed: Vec::new(), pages: 0, is_ready: false, asides: 0 }
    }
}

impl Language for Mcp {
    fn begin(&self) -> Box<dyn Conversation> {
        Box::new(self.conversation())
    }
    fn help(&self) -> &'static str {
        "start the server by hand: it answers `initialize` of the Model Context Protocol on its standard output"
    }
}

/// State of the conversation with one server.
pub struct Talk {
    listing: Arc<Listing>,
    most: usize,
    /// The version of the protocol, once it is agreed upon.
    pub version: String,
    /// Tools of the pages so far.
    listed: Vec<ToolSpec>,
    pages: usize,
    is_ready: bool,
    asides: usize,
}

impl Talk {
    /// Returns the meaning of a message. The error describes the problem with it.
    pub fn message(&mut self, message: &Value) -> Result<Heard, String> {
        Ok(match protocol::read(message)? {
            Message::Initialized(result) => {
                self.version = protocol::accept(&result)?;
                Heard::Reply(lines(&[protocol::initialized(), protocol::list(None)]))
            }
            Message::Listed(result) => self.listed(protocol::page(&result)?)?,
            Message::Called(number, result) => {
                Heard::Answer(number, result.map(|result| protocol::result(&result, self.most)))
            }
            Message::Asked(id, method) => Heard::Reply(lines(&[protocol::answered(&id, &method)])),
            // Before the server is ready, its list is already requested.
            Message::Changed if self.is_ready => Heard::Reply(lines(&[protocol::list(None)])),
            Message::Said(text) => self.aside(text),
            Message::Changed | Message::Other => Heard::Nothing,
        })
    }
    /// Handles one more page of tools.
    fn listed(&mut self, (tools, cursor): (Vec<ToolSpec>, Option<String>)) -> Result<Heard, String> {
        self.listed.extend(tools);
        self.pages += 1;
        if let Some(cursor) = cursor {
            if self.pages >= PAGES {
                return Err(format!("its list of tools has more than {PAGES} pages"));
            }
            return Ok(Heard::Reply(lines(&[protocol::list(Some(&cursor))])));
        }
        self.pages = 0;
        let new = self.listing.take(std::mem::take(&mut self.listed))?;
        if !std::mem::replace(&mut self.is_ready, true) {
            return Ok(Heard::Ready(self.listing.ready()));
        }
        Ok(match new.as_slice() {
            [] => Heard::Nothing,
            new => self.aside(format!("the server offers new tools, which are not used: {}", new.join(", "))),
        })
    }
    fn aside(&mut self, text: String) -> Heard {
        self.asides += 1;
        if self.asides > ASIDES { Heard::Nothing } else { Heard::Aside(text) }
    }
}

impl Conversation for Talk {
    fn opening(&mut self) -> String {
        lines(&[protocol::initialize()])
    }
    fn hear(&mut self, line: &[u8]) -> Result<Heard, String> {
        match serde_json::from_slice::<Value>(line) {
            // Earlier versions allowed several messages in one line, but no server used them.
            Ok(message) if message.is_object() => self.message(&message).map_err(|e| format!("{e}: {}", shown(line))),
            // Many servers print to stdout lines that belong on their standard error.
            _ if line.iter().all(u8::is_ascii_whitespace) => Ok(Heard::Nothing),
            _ if self.asides >= NOISE => Err(format!("writes what is no message, again and again: {}", shown(line))),
            _ => Ok(self.aside(format!("no message: {}", shown(line)))),
        }
    }
}

/// Returns messages as lines.
fn lines(messages: &[Value]) -> String {
    messages.iter().map(|message| format!("{message}\n")).collect()
}
