//! Names the special tokens of the tokenizers that `model/init` builds.

/// Padding of batches; never part of a sequence.
pub const PAD: &str = "<pad>";
/// Ends every message of the `compact` template.
pub const END: &str = "<|end|>";
/// Opens a system message in the `compact` template.
pub const SYSTEM: &str = "<|system|>";
/// Opens a user message in the `compact` template.
pub const USER: &str = "<|user|>";
/// Opens an agent's turn in the `compact` template.
pub const ASSISTANT: &str = "<|assistant|>";
/// Opens a tool result in the `compact` template.
pub const TOOL: &str = "<|tool|>";
/// Opens a tool call inside a turn.
pub const CALL: &str = "<tool_call>";
/// Closes a tool call.
pub const CALL_END: &str = "</tool_call>";
/// Opens and ends every message of the `chatml` template.
pub const CHATML: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// Special tokens of a tokenizer for the `compact` template, in id order.
pub const COMPACT: [&str; 8] = [PAD, END, SYSTEM, USER, ASSISTANT, TOOL, CALL, CALL_END];

/// Special tokens of a tokenizer for the `chatml` template, in id order.
pub const CHATML_SET: [&str; 5] = [PAD, CHATML[1], CHATML[0], CALL, CALL_END];
