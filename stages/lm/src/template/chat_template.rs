//! Renders messages to text with a chat template.

use super::environment::{NAME, TODAY, environment};
use super::message::values;
use super::options::RenderOptions;
use minijinja::value::{Serde, merge_maps};
use minijinja::{Environment, Value, context};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::Message;

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
    /// Compiles Jinja source. Errors: data, if it does not parse.
    pub fn new(source: impl Into<String>) -> Result<Self> {
        let source: String = source.into();
        let compiled =
            environment(&source).map_err(|e| Error::data(format!("the chat template does not parse: {e:#}")))?;
        Ok(Self { digest: Digest::of(source.as_bytes()), source: source.into(), environment: Arc::new(compiled) })
    }
    /// Reads `chat_template.jinja`, else `chat_template` in `tokenizer_config.json` (the entry called `default` where
    /// it is a list).
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join("chat_template.jinja");
        match std::fs::read_to_string(&path) {
            Ok(source) => return Self::new(source).map_err(|e| e.at(path.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(io_error(&path, &e)),
        }
        Self::of_config(&folder.join("tokenizer_config.json"))
    }
    /// Reads a file: JSON with a key `chat_template`, any other is the template itself.
    pub fn open(path: &Path) -> Result<Self> {
        if path.extension().is_some_and(|ending| ending == "json") {
            return Self::of_config(path);
        }
        let source = std::fs::read_to_string(path).map_err(|e| io_error(path, &e))?;
        Self::new(source).map_err(|e| e.at(path.display()))
    }
    /// Reads `chat_template` of a JSON file.
    fn of_config(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| io_error(path, &e))?;
        let config: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| Error::data(format!("{}: {e}", path.display())))?;
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
        let failed = |e: minijinja::Error| Error::data(format!("the chat template rejects these messages: {e:#}"));
        self.environment.get_template(NAME).and_then(|t| t.render(Value::from_object(context))).map_err(failed)
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
