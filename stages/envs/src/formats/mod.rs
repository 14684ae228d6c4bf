//! How tool calls are written in an agent's text. A file each, a line each in [`registry`].

pub mod code;
pub mod format;
pub mod hermes;
pub(crate) mod markup;
pub mod registry;
pub mod toolrl;

pub use format::ToolFormat;
pub use markup::{CLOSE, OPEN};
pub use registry::family;
