//! Contains the tools of agents, and manages the processes in which they run.
//!
//! [`calculator`] runs in this process. Programs that the model writes run in worker processes (`pool`, [`worker`])
//! that exchange the frames of `wire`, in the embedded interpreter (`embedded`) or in the user's CPython (`cpython`).
//! [`search`] and [`sql_session`] need a corpus or a database, so the environments that have one open their sessions,
//! and the registry does not list these two tools; queries run in worker processes too ([`sql`]). None of these tools
//! gives the model access to the network or to foreign files. [`mod@process`] is a user program, [`http`] a user's
//! service, and [`mcp`] a third-party server; these three run unconfined.

pub mod calculator;
pub mod call;
pub mod config;
pub mod confinement;
pub(crate) mod cpython;
pub mod difference;
pub(crate) mod embedded;
pub(crate) mod hello;
pub mod host;
pub mod http;
pub(crate) mod interpreter;
pub mod limits;
pub mod mcp;
pub mod pending_result;
pub(crate) mod pool;
pub mod process;
pub(crate) mod program;
pub mod python;
pub mod registry;
pub mod search;
pub mod sql;
pub mod sql_session;
pub mod tool;
pub mod tools_json;
pub(crate) mod wire;
pub mod worker;
pub(crate) mod worker_program;
pub(crate) mod worker_sessions;

pub use call::{ToolCall, ToolResult, ToolSpec};
pub use config::ToolConfig;
pub use confinement::support::missing as missing_for_cpython;
pub use difference::difference;
pub use host::ToolHost;
pub use limits::ToolLimits;
pub(crate) use pending_result::PendingResultSource;
pub use pending_result::PendingToolResult;
pub use registry::family;
pub use tool::{AgentTool, ToolSession};
pub use tools_json::tools_json;
pub use worker_program::WORKER_VARIABLE;
