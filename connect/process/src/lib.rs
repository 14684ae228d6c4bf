//! User-defined programs that respond to requests: rewards, filter rules, verifiers, tools and environments written in
//! any language.
//!
//! A program reads one JSON object per line from its standard input and writes one per line to its standard output
//! (`docs/custom-code.md` has the protocol). A [`WorkerPool`] holds the processes of one program. It is independent of
//! the role: the caller defines the meaning of a request. An outage and an exception of the program are different
//! [`ProgramFault`]s, because only an outage may be temporary.
//!
//! A [`Supervisor`] starts processes, sends them requests, restarts those that die and kills those that hang. It is
//! independent of the protocol, which is a [`WorkerWire`]: a [`WorkerPool`] uses lines, other users other frames.
mod fault;
mod folder;
mod frames;
mod lines;
mod one_shot;
mod options;
mod output;
mod program;
mod protocol;
mod response;
mod service;
mod supervisor;
#[cfg(test)]
mod tests;
mod wire;
mod worker_pool;

pub use fault::{ProgramException, ProgramFault};
pub use frames::Framing;
pub use one_shot::{OneShotFolder, OneShotProgram, ProgramExit};
pub use options::{ProgramOptions, command_schema, files_schema};
pub use output::{ProgramLog, null_log};
pub use program::{ChildProgram, GracePeriods};
pub use protocol::{ProgramProtocol, ProtocolEvent, ProtocolSession};
pub use response::{PendingProgramResponse, ProgramResponder, ProgramResponse, ProgramResult, pending_response};
pub use service::{ProgramService, SessionLocation};
pub use supervisor::{
    DecodedFrame, LaneCapacity, SupervisedProgram, Supervisor, WorkerExitCause, WorkerFailure, WorkerWire,
};
pub use wire::{ProgramRequest, excerpt, hello_body, hello_line, parse_ready, parse_response};
pub use worker_pool::{Hello, WorkerPool};

/// Source of `trainyard_bridge.py`, with which a Python function becomes a reward, a rule or a verifier. It is copied
/// into the folder of every program.
pub const BRIDGE: &str = include_str!("../../../python/trainyard_bridge.py");
pub const BRIDGE_NAME: &str = "trainyard_bridge.py";
/// Source of `trainyard_serve.py`, with which `serve` of the bridge responds over HTTP. No program of a stage requires
/// it.
pub const BRIDGE_SERVER: &str = include_str!("../../../python/trainyard_serve.py");
pub const BRIDGE_SERVER_NAME: &str = "trainyard_serve.py";
