//! A chat template, and the pair of a tokenizer and a template that fit each other.

use super::environment::{CLOCK, NAME, environment};
use crate::tokenizer::Tokenizer;
use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::Message;

/// What a template is given besides the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// JSON schemas of tools, for templates that describe tools themselves.
    pub tools: Option<Value>,
    /// Further variables (`enable_thinking`, …).
    pub variables: BTreeMap<String, Value>,
    /// What `strftime_now` says; the epoch if not given.
    pub unix_seconds: i64,
}

/// A Jinja chat template, compiled, with its identity. Cheap to clone.
#[derive(Clone)]
pub struct ChatTemplate {
    source: Arc<str>,
    digest: Digest,
    environment: Arc<Environment<'static>>,
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChatTemplate({:?})", self.digest)
    }
}

impl ChatTemplate {
    /// Compiles Jinja source. Errors: data, if it does not parse.
    pub fn new(source: impl Into<String>) -> Result<Self> {
        let source: String = source.into();
        let compiled =
            environment(&source).map_err(|e| Error::data(format!("the chat template does not parse: {e:#}")))?;
        Ok(Self { digest: Digest::of(source.as_bytes()), source: source.into(), environment: Arc::new(compiled) })
    }
    /// `chat_template.jinja`, else `chat_template` in `tokenizer_config.json` (the entry called `default` where it is a
    /// list).
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("chat_template.jinja");
        match std::fs::read_to_string(&path) {
            Ok(source) => return Self::new(source).map_err(|e| e.at(path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_error(&path, &e)),
        }
        let path = folder.join("tokenizer_config.json");
        let text = std::fs::read_to_string(&path).map_err(|e| io_error(&path, &e))?;
        let config: Value = serde_json::from_str(&text).map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
        let template = match &config["chat_template"] {
            Value::Array(list) => list.iter().find(|t| t["name"] == "default").map_or(&Value::Null, |t| &t["template"]),
            other => other,
        };
        let source = template.as_str().ok_or_else(|| {
            Error::invalid(format!("{} has no chat template", folder.display()))
                .help("add `chat_template.jinja`; base models have none")
        })?;
        Self::new(source).map_err(|e| e.at(path.display()))
    }
    /// Writes `chat_template.jinja`.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join("chat_template.jinja");
        std::fs::write(&path, self.source.as_bytes()).map_err(|e| io_error(&path, &e))
    }
    /// Jinja source, byte for byte as it was given.
    pub fn source(&self) -> &str {
        &self.source
    }
    /// Digest of the source text.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
    /// The text of a conversation; with `add_generation_prompt` up to where the assistant's next message begins.
    ///
    /// A message's content is rendered as it stands; its parsed `tool_calls` are handed to the template only where the
    /// content is empty, since the content of a sampled message holds its calls already.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool, options: &RenderOptions) -> Result<String> {
        let messages: Vec<Value> = messages.iter().map(message_json).collect::<Result<_>>()?;
        let mut context: Map<String, Value> = options.variables.clone().into_iter().collect();
        context.insert("messages".into(), messages.into());
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        context.insert("tools".into(), options.tools.clone().unwrap_or(Value::Null));
        context.insert(CLOCK.into(), options.unix_seconds.into());
        let failed = |e: minijinja::Error| Error::data(format!("the chat template rejects these messages: {e:#}"));
        self.environment.get_template(NAME).and_then(|t| t.render(Serde(&context))).map_err(failed)
    }
}

fn message_json(message: &Message) -> Result<Value> {
    let mut value = json!({"role": message.role, "content": message.content});
    if let Some(calls) = message.tool_calls.as_deref().filter(|_| message.content.is_empty()) {
        let calls: Vec<Value> = serde_json::from_str(calls)
            .map_err(|e| Error::data(format!("tool calls of a message are no JSON list: {e}")))?;
        let wrap = |call: Value| {
            if call.get("function").is_some() { call } else { json!({"type": "function", "function": call}) }
        };
        value["tool_calls"] = calls.into_iter().map(wrap).collect();
    }
    Ok(value)
}

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
