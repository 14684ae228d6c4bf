//! How a program is spoken to: what it is told first, and what its lines mean.
//!
//! The protocol of this crate is one language. Others have their programs started, restarted, bounded and killed in
//! the same way.

use crate::fault::Raised;
use crate::wire;
use serde_json::Value;

/// What all processes of a program are spoken to in.
pub trait Language: Send + Sync {
    /// A conversation with a process that has just started.
    fn begin(&self) -> Box<dyn Conversation>;
    /// What to try when the program does not start.
    fn help(&self) -> &'static str;
}

/// The state of a conversation with one process.
pub trait Conversation: Send {
    /// What the process is told first: whole lines.
    fn opening(&mut self) -> String;
    /// What a line of the process means. Errors: words on what is wrong with it; the process is given up.
    fn hear(&mut self, line: &[u8]) -> Result<Heard, String>;
}

/// What a line means.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// The process is ready; this is what it offers.
    Ready(Value),
    /// The answer to the request of this number.
    Answer(u64, Result<Value, Raised>),
    /// The process is told these lines.
    Reply(String),
    /// A line for the log.
    Aside(String),
    /// Nothing.
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
