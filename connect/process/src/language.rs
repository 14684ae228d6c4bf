//! Protocols of programs: the opening of a process, and the meaning of its lines.
//!
//! The protocol of this crate is one language. Programs of others are started, restarted, limited and killed in the
//! same way.

use crate::fault::Raised;
use crate::wire;
use serde_json::Value;

/// Protocol of all processes of a program.
pub trait Language: Send + Sync {
    /// Begins a conversation with a process that has just started.
    fn begin(&self) -> Box<dyn Conversation>;
    /// Returns the advice when the program does not start.
    fn help(&self) -> &'static str;
}

/// The state of a conversation with one process.
pub trait Conversation: Send {
    /// Returns the first lines to the process.
    fn opening(&mut self) -> String;
    /// Parses a line of the process. Errors: description of the fault; the process is discarded.
    fn hear(&mut self, line: &[u8]) -> Result<Heard, String>;
}

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The process is ready, with its features.
    Ready(Value),
    /// Response to the request of this number.
    Answer(u64, Result<Value, Raised>),
    /// Lines to send to the process.
    Reply(String),
    /// A line for the log.
    Aside(String),
    /// No meaning.
    Nothing,
}

/// The protocol of this crate.
pub(crate) struct Own {
    /// The first line, without its end.
    pub hello: String,
}

impl Language for Own {
    fn begin(&self) -> Box<dyn Conversation> {
        Box::new(OwnConversation { hello: self.hello.clone(), is_ready: false })
    }
    fn help(&self) -> &'static str {
        "start it by hand: it answers the line `hello` of the protocol"
    }
}

struct OwnConversation {
    hello: String,
    is_ready: bool,
}

impl Conversation for OwnConversation {
    fn opening(&mut self) -> String {
        format!("{}\n", self.hello)
    }
    fn hear(&mut self, line: &[u8]) -> Result<Heard, String> {
        if !self.is_ready {
            let ready = wire::ready(line)?;
            self.is_ready = true;
            return Ok(Heard::Ready(ready));
        }
        wire::answer(line).map(|(id, result)| Heard::Answer(id, result))
    }
}
