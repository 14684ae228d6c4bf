//! User-defined programs that respond to requests: rewards, filter rules, verifiers, tools and environments written in
//! any language.
//!
//! A program reads one JSON object per line from its standard input and writes one per line to its standard output
//! (`docs/own-code.md` has the protocol). [`Workers`] are the processes of one program. They are independent of the
//! role: the caller defines the meaning of a request. An outage and an exception of the program are different
//! [`Fault`]s, because only the first may pass.
//!
//! A [`Supervisor`] starts processes, sends them requests, restarts those that die and kills those that hang. It is
//! independent of the protocol, which is a [`Wire`]: [`Workers`] speak lines, other users their own.
mod fault;
mod folder;
mod frames;
mod language;
mod lines;
mod options;
mod peer;
mod program;
mod solo;
mod supervisor;
#[cfg(test)]
mod tests;
mod ticket;
mod wire;
mod words;
mod workers;

pub use fault::{Fault, Raised};
pub use frames::Framing;
pub use language::{Conversation, Heard, Language};
pub use options::{ProgramOptions, command_schema, files_schema};
pub use peer::{Peer, Seat};
pub use program::{Grace, Program};
pub use solo::{Ended, Home, Solo};
pub use supervisor::{Capacity, Death, Decoded, Described, Failure, Supervisor, Wire};
pub use ticket::{Answer, Reply, Responder, Ticket, claim};
pub use wire::{Request, about, answer, hello, ready, shown};
pub use words::{Log, silent};
pub use workers::{Hello, Workers};

/// Source of `trainyard_bridge.py`, with which a Python function becomes a reward, a rule or a verifier. It is copied
/// into the folder of every program.
pub const BRIDGE: &str = include_str!("../../../python/trainyard_bridge.py");
pub const BRIDGE_NAME: &str = "trainyard_bridge.py";
/// Source of `trainyard_serve.py`, with which `serve` of the bridge responds over HTTP. No program of a stage requires
/// it.
pub const BRIDGE_SERVER: &str = include_str!("../../../python/trainyard_serve.py");
pub const BRIDGE_SERVER_NAME: &str = "trainyard_serve.py";
