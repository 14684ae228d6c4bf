//! The prompt of a request in tokens.

use super::calls::{self, Way};
use trainyard_envs::formats::ToolFormat;
use trainyard_lm::template::Chat;
use trainyard_model_api::speech::{Sign, Speech, signs};
use trainyard_model_api::{Asked, Prompt, Refusal};

/// A prompt in tokens, and the parsers of its answer.
pub struct Opened {
    /// Tokens, at least one.
    pub tokens: Vec<u32>,
    /// Separates thoughts and calls.
    pub speech: Speech,
    /// Parses the calls, where tools are offered.
    pub format: Option<Box<dyn ToolFormat>>,
}

/// Characters at the prompt's end that are searched for an opened thought.
const END: usize = 64;

/// Builds the prompt. Errors: a request that the template or the tokenizer rejects.
pub fn open(chat: &Chat, way: Way, asked: &Asked) -> Result<Opened, Refusal> {
    let plain = |tokens: Vec<u32>| Opened { tokens, speech: Speech::plain(), format: None };
    let opened = match &asked.prompt {
        Prompt::Tokens(tokens) => plain(tokens.clone()),
        Prompt::Text(text) => plain(chat.tokenizer().encode(text).map_err(|e| Refusal::from(e.at("`prompt`")))?),
        Prompt::Messages(messages) => {
            let specs = calls::specs(asked.offered());
            let format = if specs.is_empty() { None } else { Some(calls::reader(way, &specs)?) };
            let (messages, described) = calls::shown(way, messages, &specs, format.as_deref())?;
            let (text, tokens) = chat.prompt(&messages, described.as_deref(), &asked.variables)?;
            let none: &'static [Sign] = &[];
            let signs = if format.is_some() { signs(way.format()) } else { none };
            let end = text.floor_char_boundary(text.len().saturating_sub(END));
            Opened { tokens, speech: Speech::new(signs, &text[end..]), format }
        }
    };
    if opened.tokens.is_empty() {
        return Err(Refusal::field("prompt", "the prompt has no token"));
    }
    Ok(opened)
}
