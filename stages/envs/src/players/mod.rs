//! Lets models at endpoints play episodes, message by message. Such models are teachers of `data/synthesize`, and
//! models that `evaluate` reaches only through their text.
//!
//! An episode is recorded as if the policy of a stage had played it: with the environment's prompt, and with calls in
//! its format. The messages that the model itself receives and writes may differ ([`ModelCallMode`]).

mod chat_messages;
mod model_episode;
mod play;
mod player;
#[cfg(test)]
mod tests;

pub use model_episode::PlayedEpisode;
pub use play::play;
pub use player::{Player, PlayerJob};

use crate::environments::Environments;
use crate::{Environment, ToolHost};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::Result;

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ModelCallMode {
    /// The server's tool interface: it receives the tools and answers with calls, which are recorded in the
    /// environment's format.
    #[default]
    Native,
    /// In its text, in the environment's format, which the prompt describes. For servers without tools.
    Text,
}

impl ModelCallMode {
    /// Returns whether this is the default, for `#[serde(skip_serializing_if)]`.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
    /// Builds the environment with the prompts for a model whose server receives the tools: the same options without a
    /// description of tools. Returns `None` if the model sees the prompts of the environment itself.
    ///
    /// Errors: those of the construction of the environment.
    pub fn prompt_environment(
        self,
        family: &Environments,
        options: &Value,
        host: &Arc<ToolHost>,
    ) -> Result<Option<Box<dyn Environment>>> {
        if self == Self::Text || options["describe_tools"] != true {
            return Ok(None);
        }
        let mut options = options.clone();
        options["describe_tools"] = false.into();
        family.build(&options, host).map(Some)
    }
}
