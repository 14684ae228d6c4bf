//! Runs user-defined programs that respond to requests: rewards, filter rules, verifiers, tools and environments in any
//! language.
//!
//! A program reads one JSON object per line from its standard input and writes one per line to its standard output
//! (`docs/custom-code.md` describes the protocol). A [`WorkerPool`] holds the processes of one program. It does not
//! depend on the role of the program: the caller defines the meaning of a request. An outage and an exception of the
//! program are different [`ProgramFault`]s, because only an outage may be temporary.
//!
//! A [`Supervisor`] starts processes, sends requests to them, restarts processes that die and kills those that hang. It
//! does not depend on the protocol, which a [`WorkerWire`] implements: a [`WorkerPool`] uses lines, other callers use
//! length-prefixed frames.
mod descendants;
mod fault;
mod folder;
mod fork_server;
mod frames;
mod lines;
mod one_shot;
mod one_shot_folder;
mod options;
mod output;
mod program;
mod protocol;
mod response;
mod service;
mod stop_command;
mod supervisor;
#[cfg(test)]
mod tests;
mod wire;
mod worker_pool;

pub use fault::{ProgramException, ProgramFault};
pub use fork_server::ForkServer;
pub use frames::Framing;
pub use one_shot::{OneShotProgram, ProgramExit};
pub use one_shot_folder::{OneShotFolder, PYTHON_VARIABLES};
pub use options::{ProgramOptions, command_schema, files_schema};
pub use output::{ProgramLog, null_log};
pub use program::{ChildProgram, GracePeriods, own_user};
pub use protocol::{ProgramProtocol, ProtocolEvent, ProtocolSession};
pub use response::{PendingProgramResponse, ProgramResponder, ProgramResponse, ProgramResult, pending_response};
pub use service::{ProgramService, SessionLocation};
pub use supervisor::{
    DecodedFrame, LaneCapacity, SupervisedProgram, Supervisor, WorkerExitCause, WorkerFailure, WorkerWire,
};
pub use wire::{ProgramRequest, excerpt, hello_body, hello_line, parse_ready, parse_response};
pub use worker_pool::{Hello, WorkerPool};

/// Source of `trainyard_bridge.py`, with which a Python function becomes a reward, a rule or a verifier. Every
/// program's folder contains a copy.
pub const BRIDGE: &str = include_str!("../../../python/trainyard_bridge.py");
pub const BRIDGE_NAME: &str = "trainyard_bridge.py";
/// Source of `trainyard_serve.py`, with which `serve` of the bridge responds over HTTP. Programs of a stage do not
/// require it.
pub const BRIDGE_SERVER: &str = include_str!("../../../python/trainyard_serve.py");
pub const BRIDGE_SERVER_NAME: &str = "trainyard_serve.py";
