//! Renders messages to text with a chat template.

use super::environment::{NAME, TODAY, environment};
use super::limits::{BoundedOutput, SOURCE, fuel, is_limit, on_own_stack};
use super::message::values;
use super::options::RenderOptions;
use crate::untrusted;
use minijinja::value::{Serde, merge_maps};
use minijinja::{Environment, Value, context};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::Message;

/// Remedy for a template that cannot be used.
const OTHER: &str = "use the template of the model's publisher, or replace it by the option `template` of `model/init`";

/// A compiled Jinja chat template with its digest. A clone is cheap.
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
    /// Compiles Jinja source. Errors: data, if it does not parse or exceeds a limit (`limits.rs`).
    pub fn new(source: impl Into<String>) -> Result<Self> {
        let source: String = source.into();
        let compiled = on_own_stack(|| environment(&source)).map_err(|e| {
            Error::data(format!("the chat template does not parse: {e:#}")).help(format!("correct it, or {OTHER}"))
        })?;
        Ok(Self { digest: Digest::of(source.as_bytes()), source: source.into(), environment: Arc::new(compiled) })
    }
    /// Reads `chat_template.jinja`, else `chat_template` in `tokenizer_config.json` (the entry called `default` where
    /// it is a list).
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("chat_template.jinja");
        if let Some(source) = untrusted::read_text_if_exists(&path, SOURCE as u64)? {
            return Self::new(source).map_err(|e| e.at(path.display()));
        }
        Self::of_config(&folder.join("tokenizer_config.json"))
    }
    /// Reads a file: JSON with a key `chat_template`, any other is the template itself.
    pub fn open(path: &Path) -> Result<Self> {
        if path.extension().is_some_and(|ending| ending == "json") {
            return Self::of_config(path);
        }
        let source = untrusted::read_text(path, SOURCE as u64)?;
        Self::new(source).map_err(|e| e.at(path.display()))
    }
    /// Reads `chat_template` of a JSON file.
    fn of_config(path: &Path) -> Result<Self> {
        let config = untrusted::read_json(path, untrusted::OPTIONS)?;
        let template = match &config["chat_template"] {
            serde_json::Value::Array(list) => {
                list.iter().find(|t| t["name"] == "default").map_or(&serde_json::Value::Null, |t| &t["template"])
            }
            other => other,
        };
        let source = template.as_str().ok_or_else(|| {
            Error::invalid(format!("{} has no chat template", path.display()))
                .help("add `chat_template.jinja`; base models have none")
        })?;
        Self::new(source).map_err(|e| e.at(path.display()))
    }
    /// Writes `chat_template.jinja`.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join("chat_template.jinja");
        std::fs::write(&path, self.source.as_bytes()).map_err(|e| io_error(&path, &e))
    }
    /// Returns the Jinja source, byte for byte as given.
    pub fn source(&self) -> &str {
        &self.source
    }
    /// Returns the digest of the source text.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
    /// Renders a conversation; with `add_generation_prompt` up to the start of the assistant's next message.
    ///
    /// `template/message.rs` describes the values that the template gets for each message.
    pub fn render(&self, messages: &[Message], add_generation_prompt: bool, options: &RenderOptions) -> Result<String> {
        self.render_values(&values(messages, options.calls)?, add_generation_prompt, options)
    }
    /// Renders messages that are already converted to values.
    pub(super) fn render_values(
        &self,
        messages: &[Value],
        add_generation_prompt: bool,
        options: &RenderOptions,
    ) -> Result<String> {
        let tools: Option<Value> = options
            .tools
            .as_deref()
            .map(serde_json::from_str)
            .transpose()
            .map_err(|e| Error::data(format!("the tools are not a JSON list: {e}")))?;
        let mut context: BTreeMap<String, Value> =
            options.variables.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value)))).collect();
        context.insert("messages".into(), messages.iter().map(with_thinking).collect());
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        context.insert("tools".into(), tools.into());
        context.insert("documents".into(), ().into());
        context.insert(TODAY.into(), options.date.to_string().into());
        let (environment, context) = (self.environment_for(messages.len()), Value::from_object(context));
        let rendered = on_own_stack(|| {
            let mut output = BoundedOutput::default();
            environment.get_template(NAME)?.render_captured_to(context, &mut output)?;
            output.into_text()
        });
        rendered.map_err(|e| {
            let error = Error::data(format!("the chat template rejects these messages: {e:#}"));
            if is_limit(&e) {
                error.help(format!("the template computes without end or bound: {OTHER}"))
            } else {
                error
            }
        })
    }
    /// Returns the environment, with more fuel for a long conversation.
    fn environment_for(&self, messages: usize) -> Arc<Environment<'static>> {
        if fuel(messages) == fuel(0) {
            return self.environment.clone();
        }
        let mut environment = Environment::clone(&self.environment);
        environment.set_fuel(Some(fuel(messages)));
        Arc::new(environment)
    }
}

/// Copies `reasoning_content` to `thinking`, which templates of gpt-oss and LFM2 read; `transformers` provides both.
fn with_thinking(message: &Value) -> Value {
    match message.get_attr("reasoning_content") {
        Ok(reasoning) if !reasoning.is_none() && !reasoning.is_undefined() => {
            merge_maps([context! { thinking => reasoning }, message.clone()])
        }
        _ => message.clone(),
    }
}
