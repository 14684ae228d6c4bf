//! Builds the tokens of a request's prompt.

use super::calls::{self, ToolCallStyle};
use super::output;
use std::sync::Arc;
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::constrain::Grammar;
use trainyard_lm::template::ChatEncoder;
use trainyard_model_api::turn_parser::{CallMarker, TurnParser, call_markers};
use trainyard_model_api::{ModelApiError, ModelPrompt, ModelRequest};

/// Tokens of a prompt, and the parsers of its response.
pub struct PreparedPrompt {
    /// Tokens, at least one.
    pub tokens: Vec<u32>,
    /// Parser that separates thoughts and calls.
    pub parser: TurnParser,
    /// Parser of the calls, if tools are offered.
    pub format: Option<Box<dyn ToolFormat>>,
    /// Permitted responses, if the request gives their form.
    pub grammar: Option<Arc<Grammar>>,
}

/// Characters at the prompt's end that are searched for an opened thought.
const THINKING_TAG_WINDOW: usize = 64;

/// Builds the prompt of a request. Errors: a request that the template or the tokenizer rejects.
pub fn prepare(
    chat: &ChatEncoder,
    style: ToolCallStyle,
    request: &ModelRequest,
) -> Result<PreparedPrompt, ModelApiError> {
    let plain = |tokens: Vec<u32>| PreparedPrompt { tokens, parser: TurnParser::plain(), format: None, grammar: None };
    let mut prepared = match &request.prompt {
        ModelPrompt::Tokens(tokens) => plain(tokens.clone()),
        ModelPrompt::Text(text) => {
            plain(chat.tokenizer().encode(text).map_err(|e| ModelApiError::from(e.at("`prompt`")))?)
        }
        ModelPrompt::Messages(messages) => {
            let specs = calls::specs(request.visible_tools());
            let format = if specs.is_empty() { None } else { Some(calls::tool_format(style, &specs)?) };
            let (messages, described) = calls::template_input(style, messages, &specs, format.as_deref())?;
            let (text, tokens) = chat.prompt(&messages, described.as_deref(), &request.variables)?;
            let none: &'static [CallMarker] = &[];
            let markers = if format.is_some() { call_markers(style.format()) } else { none };
            let end = text.floor_char_boundary(text.len().saturating_sub(THINKING_TAG_WINDOW));
            PreparedPrompt { tokens, parser: TurnParser::new(markers, &text[end..]), format, grammar: None }
        }
    };
    if prepared.tokens.is_empty() {
        return Err(ModelApiError::invalid_field("prompt", "the prompt has no tokens"));
    }
    prepared.grammar = output::grammar(request, prepared.format.as_deref(), prepared.parser.closing_tag())?;
    Ok(prepared)
}
