//! The pair of a tokenizer and a template that fit each other.

use super::chat_template::ChatTemplate;
use super::options::RenderOptions;
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// A tokenizer and a template that fit each other: how messages become tokens.
#[derive(Debug, Clone)]
pub struct Chat {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// What the template writes after an assistant's content, and how much of it the model samples itself.
    closing: String,
    end: usize,
    end_token: u32,
    stop_tokens: Vec<u32>,
    /// Variables that the template needs so that it can be encoded piece by piece.
    defaults: BTreeMap<String, Value>,
}

/// Placeholder for content that templates must not depend on.
pub(super) const SENTINEL: &str = "x";

impl Chat {
    /// Templates that open a turn with an empty thought only if `enable_thinking` is false (Qwen3) are rendered so.
    ///
    /// Errors (kind invalid): the template does not continue its generation prompt, or ends an assistant message with
    /// no token of the tokenizer's own.
    pub fn new(tokenizer: Tokenizer, template: ChatTemplate) -> Result<Self> {
        let mut chat = Self {
            tokenizer,
            template,
            closing: String::new(),
            end: 0,
            end_token: 0,
            stop_tokens: Vec::new(),
            defaults: BTreeMap::new(),
        };
        let plain = match chat.closing_text()? {
            None => {
                chat.defaults.insert("enable_thinking".to_string(), Value::Bool(false));
                chat.closing_text()?
            }
            found => found,
        };
        let refuse = |what: &str| {
            Error::invalid(format!("the chat template {what}"))
                .help("sampling needs to know where a turn ends: use `compact` or `chatml`, or another template")
        };
        chat.closing =
            plain.ok_or_else(|| refuse("does not continue its generation prompt with the assistant's content"))?;
        let (start, token) = chat
            .tokenizer
            .first_added(&chat.closing)
            .ok_or_else(|| refuse("ends an assistant message without a token of the tokenizer's own"))?;
        chat.end = start + token.len();
        chat.end_token =
            chat.tokenizer.token_id(token).ok_or_else(|| refuse("ends an assistant message with an unknown token"))?;
        chat.stop_tokens = vec![chat.end_token];
        Ok(chat)
    }
    /// What the template writes after an assistant's content. None if its generation prompt is not followed by that
    /// content.
    fn closing_text(&self) -> Result<Option<String>> {
        let probe = [Message::new("user", SENTINEL), Message::new("assistant", SENTINEL)];
        let options = RenderOptions::default();
        let opened = self.render(&probe[..1], true, &options)?;
        let whole = self.render(&probe, false, &options)?;
        Ok(whole.strip_prefix(&opened).and_then(|t| t.strip_prefix(SENTINEL)).map(str::to_string))
    }
    /// Adds stop tokens (those of `generation_config.json`).
    #[must_use]
    pub fn with_stop_tokens(mut self, tokens: &[u32]) -> Self {
        for &token in tokens {
            if !self.stop_tokens.contains(&token) {
                self.stop_tokens.push(token);
            }
        }
        self
    }
    /// Turns the template's text into token ids.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    /// Turns messages into text.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }
    /// The token that ends an assistant message.
    pub fn end_token(&self) -> u32 {
        self.end_token
    }
    /// The end token first.
    pub fn stop_tokens(&self) -> &[u32] {
        &self.stop_tokens
    }
    /// The text of sampled tokens without a stop token at the end; tool-call markup is kept.
    pub fn content(&self, ids: &[u32]) -> Result<String> {
        let kept = match ids.split_last() {
            Some((last, rest)) if self.stop_tokens.contains(last) => rest,
            _ => ids,
        };
        self.tokenizer.decode(kept)
    }
    /// Renders with the tokenizer's named tokens (`bos_token`, `eos_token`) among the variables, as Hugging Face does.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool, options: &RenderOptions) -> Result<String> {
        let mut options = options.clone();
        for (name, value) in &self.defaults {
            options.variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, content) in self.tokenizer.named_tokens() {
            options.variables.entry(name).or_insert(Value::String(content));
        }
        self.template.render(messages, add_generation_prompt, &options)
    }
    /// What the template writes after an assistant's content: the part that the model samples, and the rest.
    pub(super) fn closing(&self) -> (&str, &str) {
        self.closing.split_at(self.end)
    }
}
