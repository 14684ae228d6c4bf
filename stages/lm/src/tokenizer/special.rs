//! The special tokens of tokenizers that are built here.

/// Fills up batches; never part of a sequence.
pub const PAD: &str = "<pad>";
/// Ends every message of the `compact` template.
pub const END: &str = "<|end|>";
pub const SYSTEM: &str = "<|system|>";
pub const USER: &str = "<|user|>";
pub const ASSISTANT: &str = "<|assistant|>";
pub const TOOL: &str = "<|tool|>";
pub const CALL: &str = "<tool_call>";
pub const CALL_END: &str = "</tool_call>";
/// Opens and ends every message of the `chatml` template.
pub const CHATML: [&str; 2] = ["<|im_start|>", "<|im_end|>"];

/// Those of a tokenizer for the `compact` template, in id order.
pub const COMPACT: [&str; 8] = [PAD, END, SYSTEM, USER, ASSISTANT, TOOL, CALL, CALL_END];

/// Those of a tokenizer for the `chatml` template, in id order.
pub const CHATML_SET: [&str; 5] = [PAD, CHATML[1], CHATML[0], CALL, CALL_END];
