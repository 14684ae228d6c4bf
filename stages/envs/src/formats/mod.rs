//! Contains the tool-call formats, which define how an agent writes tool calls in its text.

pub mod code;
pub mod format;
pub mod hermes;
pub(crate) mod json_calls;
pub mod llama3;
pub(crate) mod markup;
pub mod mistral;
pub mod qwen;
pub mod registry;
pub(crate) mod text;
pub mod toolrl;
pub mod turn;

pub use format::ToolFormat;
pub use markup::{CLOSE, OPEN};
pub use registry::{build, family};
pub use turn::AgentTurn;
