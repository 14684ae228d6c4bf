//! The prompt of a request in tokens.

use super::calls::{self, ToolCallStyle};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::template::ChatEncoder;
use trainyard_model_api::turn_parser::{CallMarker, TurnParser, call_markers};
use trainyard_model_api::{ModelApiError, ModelPrompt, ModelRequest};

/// A prompt in tokens, and the parsers of its answer.
pub struct PreparedPrompt {
    /// Tokens, at least one.
    pub tokens: Vec<u32>,
    /// Separates thoughts and calls.
    pub parser: TurnParser,
    /// Parses the calls, where tools are offered.
    pub format: Option<Box<dyn ToolFormat>>,
}

/// Characters at the prompt's end that are searched for an opened thought.
const THINKING_TAG_WINDOW: usize = 64;

/// Builds the prompt. Errors: a request that the template or the tokenizer rejects.
pub fn prepare(chat: &ChatEncoder, way: ToolCallStyle, asked: &ModelRequest) -> Result<PreparedPrompt, ModelApiError> {
    let plain = |tokens: Vec<u32>| PreparedPrompt { tokens, parser: TurnParser::plain(), format: None };
    let opened = match &asked.prompt {
        ModelPrompt::Tokens(tokens) => plain(tokens.clone()),
        ModelPrompt::Text(text) => {
            plain(chat.tokenizer().encode(text).map_err(|e| ModelApiError::from(e.at("`prompt`")))?)
        }
        ModelPrompt::Messages(messages) => {
            let specs = calls::specs(asked.visible_tools());
            let format = if specs.is_empty() { None } else { Some(calls::tool_format(way, &specs)?) };
            let (messages, described) = calls::template_input(way, messages, &specs, format.as_deref())?;
            let (text, tokens) = chat.prompt(&messages, described.as_deref(), &asked.variables)?;
            let none: &'static [CallMarker] = &[];
            let signs = if format.is_some() { call_markers(way.format()) } else { none };
            let end = text.floor_char_boundary(text.len().saturating_sub(THINKING_TAG_WINDOW));
            PreparedPrompt { tokens, parser: TurnParser::new(signs, &text[end..]), format }
        }
    };
    if opened.tokens.is_empty() {
        return Err(ModelApiError::invalid_field("prompt", "the prompt has no token"));
    }
    Ok(opened)
}
