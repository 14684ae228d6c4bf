//! How tool calls are written in an agent's text. A file each, a line each in [`registry`].

pub mod code;
pub mod format;
pub mod hermes;
mod markup;
pub mod registry;

pub use format::ToolFormat;
pub use markup::{CLOSE, OPEN};
