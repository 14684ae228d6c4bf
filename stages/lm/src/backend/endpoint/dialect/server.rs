//! Maps the names of servers in workflow files to their dialects.

use super::form::Dialect;
use super::llama_cpp::LlamaCpp;
use super::sglang::Sglang;
use super::vllm::Vllm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Supported servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InferenceServerKind {
    /// `vllm serve`, 0.10.2 or later, which returns token ids.
    Vllm,
    /// `sglang.launch_server`.
    Sglang,
    /// `llama-server`.
    LlamaCpp,
}

impl InferenceServerKind {
    /// Returns the server's dialect.
    pub fn dialect(self) -> &'static dyn Dialect {
        match self {
            Self::Vllm => &Vllm,
            Self::Sglang => &Sglang,
            Self::LlamaCpp => &LlamaCpp,
        }
    }
}
