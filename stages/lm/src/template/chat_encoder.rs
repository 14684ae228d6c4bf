//! Joins a tokenizer and a template that fit each other.

use super::chat_template::ChatTemplate;
use super::message::{has_calls_to_render, with_separate_calls};
use super::options::{RenderOptions, TemplateOptions};
use super::probe::{self, ToolSupport};
use super::reasoning;
use crate::constrain::{Grammar, GrammarConstraint, TokenBytes};
use crate::tokenizer::Tokenizer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// A tokenizer and a template that fit each other. Renders and encodes messages.
#[derive(Debug, Clone)]
pub struct ChatEncoder {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    options: RenderOptions,
    tool_support: ToolSupport,
    native: bool,
    native_calls: bool,
    end_token: u32,
    stop_tokens: Vec<u32>,
    /// Bytes of the tokens, read when a turn first has a form.
    token_bytes: Arc<OnceLock<Result<Arc<TokenBytes>>>>,
}

impl ChatEncoder {
    /// Joins a tokenizer and a template. Errors (kind invalid): the template drops an assistant's content, or ends an
    /// assistant message without an added token of the tokenizer.
    pub fn new(tokenizer: Tokenizer, template: ChatTemplate) -> Result<Self> {
        let mut options = RenderOptions::default();
        let named = tokenizer.named_tokens().into_iter().map(|(name, token)| (name, Value::String(token)));
        options.variables.extend(named);
        let refuse = |what: &str| {
            Error::invalid(format!("the chat template {what}"))
                .help("sampling needs the end of a turn: use `compact`, `chatml` or another template")
        };
        let closing = probe::closing(&template, &options)?.ok_or_else(|| refuse("drops an assistant's content"))?;
        let (_, token) = tokenizer
            .first_added(&closing)
            .ok_or_else(|| refuse("ends an assistant message without a special token"))?;
        let end_token = tokenizer
            .token_id(token)
            .ok_or_else(|| refuse("ends an assistant message with a token that the tokenizer lacks"))?;
        let tool_round = probe::tool_support(&template, &options);
        options.calls = tool_round.style;
        let (native, native_calls, stop_tokens) = (false, false, vec![end_token]);
        Ok(Self {
            tokenizer,
            template,
            options,
            tool_support: tool_round,
            native,
            native_calls,
            end_token,
            stop_tokens,
            token_bytes: Arc::default(),
        })
    }
    /// Returns the constraint of a turn that one of `stop_tokens` ends. Errors: invalid, if the tokenizer cannot write
    /// a text that the grammar requires.
    pub fn constraint(&self, grammar: Arc<Grammar>, stop_tokens: &[u32]) -> Result<GrammarConstraint> {
        let tokens = self.token_bytes.get_or_init(|| TokenBytes::new(&self.tokenizer).map(Arc::new)).clone()?;
        GrammarConstraint::new(tokens, grammar, stop_tokens)
    }
    /// Returns the encoder with these options for rendering.
    #[must_use]
    pub fn with_options(mut self, options: &TemplateOptions) -> Self {
        self.options.variables.extend(options.variables.clone());
        self.options.date = options.date;
        self.tool_support = probe::tool_support(&self.template, &self.options);
        self.options.calls = self.tool_support.style;
        self
    }
    /// Sets the tools (JSON text of a list of schemas) that the template describes in conversations without tools.
    #[must_use]
    pub fn with_tools(mut self, tools: String) -> Self {
        self.options.tools = Some(tools);
        self
    }
    /// Sets whether the template writes the calls of given turns, regardless of their form in the content, and
    /// describes the tools of environments.
    #[must_use]
    pub fn with_native_calls(mut self, native: bool) -> Self {
        self.native_calls = native && self.tool_support.writes_calls;
        self.native = native;
        self
    }
    /// Returns whether the template writes calls and describes the tools of environments.
    pub fn is_native(&self) -> bool {
        self.native
    }
    /// Returns whether the template describes the tools of the environment of a row. If tools are set by
    /// [`ChatEncoder::with_tools`], the template describes those instead.
    pub(super) fn describes_environments(&self) -> bool {
        self.native && self.options.tools.is_none()
    }
    /// Returns a given turn in the form that the template reads.
    pub(super) fn prepare_given(&self, message: &Message) -> Result<Message> {
        if self.native_calls { with_separate_calls(message) } else { Ok(message.clone()) }
    }
    /// Returns whether the template shows the tools that it is given.
    pub fn describes_tools(&self) -> bool {
        probe::describes_tools(&self.template, &self.options)
    }
    /// Adds stop tokens, such as those of `generation_config.json`.
    #[must_use]
    pub fn with_stop_tokens(mut self, tokens: &[u32]) -> Self {
        for &token in tokens {
            if !self.stop_tokens.contains(&token) {
                self.stop_tokens.push(token);
            }
        }
        self
    }
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }
    /// Returns the token that ends an assistant message.
    pub fn end_token(&self) -> u32 {
        self.end_token
    }
    /// Returns the stop tokens, the end token first.
    pub fn stop_tokens(&self) -> &[u32] {
        &self.stop_tokens
    }
    /// Checks the template's support of tools. Errors (kind invalid): the template loses the results of tools, or
    /// rejects them.
    pub fn expect_tools(&self) -> Result<()> {
        let Some(reason) = &self.tool_support.lost else { return Ok(()) };
        Err(Error::invalid(format!("the chat template cannot show tool results: {reason}"))
            .help("use a model whose template supports the role `tool`, or set another `template` in `model/init`"))
    }
    /// Checks the calls of a message. Errors (kind data): calls that the template would drop.
    pub(super) fn expect_calls(&self, message: &Message) -> Result<()> {
        let lost = !self.tool_support.writes_calls && has_calls_to_render(message)?;
        if !lost {
            return Ok(());
        }
        Err(Error::data("the chat template does not write the calls of this message")
            .help("write the calls into its content, in the format that the model should learn"))
    }
    /// Returns the text of sampled tokens without a stop token at the end; tool-call markup is kept.
    pub fn content(&self, ids: &[u32]) -> Result<String> {
        let kept = match ids.split_last() {
            Some((last, rest)) if self.stop_tokens.contains(last) => rest,
            _ => ids,
        };
        self.tokenizer.decode(kept)
    }
    /// Renders with the tokenizer's named tokens (`bos_token`, `eos_token`) among the variables, as Hugging Face does.
    /// `tools`: JSON text of a list of schemas.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool, tools: Option<&str>) -> Result<String> {
        match tools {
            None => self.template.render(messages, add_generation_prompt, &self.options),
            Some(tools) => {
                let options = RenderOptions { tools: Some(tools.to_string()), ..self.options.clone() };
                self.template.render(messages, add_generation_prompt, &options)
            }
        }
    }
    /// Renders a prompt; `variables` take precedence over those of the options.
    pub(super) fn render_prompt(
        &self,
        messages: &[Message],
        tools: Option<&str>,
        variables: &BTreeMap<String, Value>,
    ) -> Result<String> {
        let mut options = self.options.clone();
        options.variables.extend(variables.iter().map(|(name, value)| (name.clone(), value.clone())));
        options.tools = tools.map(str::to_string).or(options.tools);
        self.template.render(messages, true, &options)
    }
    /// Returns the text that the model is to write after `context`, with the token that ends it, given `text`, which
    /// ends with `message`. `prompt` finds the generation prompt at the end of `context`.
    pub(super) fn answer<'t>(
        &self,
        context: &str,
        text: &str,
        message: &Message,
        prompt: impl FnOnce() -> Option<&'t str>,
    ) -> Result<String> {
        let shared = context.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        let shared = reasoning::reasoning_start(context, context.floor_char_boundary(shared));
        let (opened, shown) = (&context[shared..], &text[shared..]);
        let end = self.after_end(shown).ok_or_else(|| {
            Error::data("the chat template does not end this message with a special token")
                .help("remove the row, or use another template")
        })?;
        let text = &text[..shared + end];
        let turn = if opened.is_empty() {
            Some(shown[..end].to_string())
        } else {
            reasoning::continue_reasoning(opened, &shown[..end], message)
                .or_else(|| answer_suffix(prompt().unwrap_or_default(), text, message))
        };
        turn.ok_or_else(|| {
            Error::data(format!(
                "the chat template opens an assistant's turn with `{}`, but renders this message differently",
                opened.escape_debug()
            ))
            .help("set template variables that fit the rows, such as `enable_thinking`, or remove the row")
        })
    }
    /// Returns the end of the last added token, or `None` unless only white space follows it.
    fn after_end(&self, text: &str) -> Option<usize> {
        self.last_added(text).map(|last| last.end)
    }
    /// Returns the start of the last added token, or `None` unless only white space follows it.
    pub(super) fn last_end(&self, text: &str) -> Option<usize> {
        self.last_added(text).map(|last| last.start)
    }
    fn last_added(&self, text: &str) -> Option<Range<usize>> {
        let (mut at, mut last) = (0, None);
        while let Some((start, token)) = self.tokenizer.first_added(&text[at..]) {
            last = Some(at + start..at + start + token.len());
            at += start + token.len();
        }
        last.filter(|last| text[last.end..].trim().is_empty())
    }
}

/// Returns the part of `text` that contains the answer, for a text that shows earlier turns differently from the
/// context of the answer: the text after the last generation prompt `prompt`, or the text from the content of `message`
/// on. Returns `None` if neither is found.
fn answer_suffix(prompt: &str, text: &str, message: &Message) -> Option<String> {
    let content = message.content.trim();
    let start = match text.rfind(prompt) {
        Some(at) if !prompt.is_empty() => at + prompt.len(),
        _ if message.tool_calls.is_none() && !content.is_empty() => text.rfind(content)?,
        _ => return None,
    };
    Some(text[start..].to_string())
}
