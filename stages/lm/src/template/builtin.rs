//! The built-in chat templates.

use super::chat_template::ChatTemplate;
use crate::tokenizer::special;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::Result;

/// A built-in chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Builtin {
    /// One special token per role and one that ends a message: `<|user|>2+2?<|end|><|assistant|>4<|end|>`. For tiny
    /// models.
    #[default]
    Compact,
    /// `<|im_start|>role … <|im_end|>` with calls as JSON in `<tool_call>` and results in `<tool_response>`, as
    /// models of the Qwen and Hermes families write them.
    Chatml,
}

impl Builtin {
    /// Jinja source of the template.
    pub fn source(self) -> &'static str {
        match self {
            Self::Compact => include_str!("compact.jinja"),
            Self::Chatml => include_str!("chatml.jinja"),
        }
    }
    /// Whether this is the source of a built-in template.
    pub fn wrote(source: &str) -> bool {
        [Self::Compact, Self::Chatml].iter().any(|builtin| builtin.source() == source)
    }
    /// Compiles the source.
    pub fn template(self) -> Result<ChatTemplate> {
        ChatTemplate::new(self.source())
    }
    /// The special tokens that a tokenizer for this template needs, in id order.
    pub fn special_tokens(self) -> &'static [&'static str] {
        match self {
            Self::Compact => &special::COMPACT,
            Self::Chatml => &special::CHATML_SET,
        }
    }
    /// The token that ends a message.
    pub fn end_token(self) -> &'static str {
        match self {
            Self::Compact => special::END,
            Self::Chatml => special::CHATML[1],
        }
    }
}
