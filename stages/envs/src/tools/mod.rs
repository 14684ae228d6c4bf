//! Tools an agent can call, and where they run.
//!
//! A tool is a file here and a line in [`registry`]. In-process tools answer at once ([`calculator`]); programs run in worker
//! processes ([`pool`], [`worker`]) that speak the frames of [`wire`]. [`search`] and [`sql`] need a corpus and a database, so their
//! sessions are opened by the environments that have one, and the registry does not list them. Refuses: network, files, clocks.

pub mod calculator;
pub mod confinement;
pub mod host;
pub(crate) mod interpreter;
pub mod limits;
pub(crate) mod pool;
pub mod python;
pub mod registry;
pub mod search;
pub mod sql;
pub mod ticket;
pub mod tool;
pub(crate) mod wire;
pub mod worker;

pub use host::ToolHost;
pub use limits::ToolLimits;
pub use registry::family;
pub use ticket::Ticket;
pub use tool::{Tool, ToolCall, ToolResult, ToolSession, ToolSpec};
