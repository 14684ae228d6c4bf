//! Defines the built-in chat templates.

use super::chat_template::ChatTemplate;
use crate::tokenizer::special;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Digest, Result};

/// SHA-256 of the sources of earlier versions, which render the same text without the marks around the agent's text.
const FORMER: [&str; 2] = [
    "c4aefb18de5fe04855b5c3cdc081bd039fc1eeceec437e1521f6025a59e7d5dd",
    "8dd20c68235b58eff13203e6eed8800f0eebf830b238f56d8e510826fe069bf8",
];

/// A built-in chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BuiltinTemplate {
    /// One special token per role and one that ends a message: `<|user|>2+2?<|end|><|assistant|>4<|end|>`. For tiny
    /// models.
    #[default]
    Compact,
    /// `<|im_start|>role … <|im_end|>` with calls as JSON in `<tool_call>` and results in `<tool_response>`, as
    /// models of the Qwen and Hermes families write them.
    Chatml,
}

impl BuiltinTemplate {
    /// Returns the Jinja source of the template.
    pub fn source(self) -> &'static str {
        match self {
            Self::Compact => include_str!("compact.jinja"),
            Self::Chatml => include_str!("chatml.jinja"),
        }
    }
    /// Returns whether a text is the source of a built-in template, of this version or an earlier one.
    pub fn is_builtin_source(source: &str) -> bool {
        [Self::Compact, Self::Chatml].iter().any(|builtin| builtin.source() == source)
            || FORMER.contains(&Digest::of(source.as_bytes()).as_str())
    }
    /// Compiles the source.
    pub fn template(self) -> Result<ChatTemplate> {
        ChatTemplate::new(self.source())
    }
    /// Returns the special tokens that a tokenizer for this template requires, in id order.
    pub fn special_tokens(self) -> &'static [&'static str] {
        match self {
            Self::Compact => &special::COMPACT,
            Self::Chatml => &special::CHATML_SET,
        }
    }
    /// Returns the token that ends a message.
    pub fn end_token(self) -> &'static str {
        match self {
            Self::Compact => special::END,
            Self::Chatml => special::CHATML[1],
        }
    }
}
