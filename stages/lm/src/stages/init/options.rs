//! Defines options of `model/init`: architecture, tokenizer and chat template.

use crate::template::{BuiltinTemplate, ChatTemplate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use trainyard_core::{OptionProblem, Result};

/// The architecture of a new model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NewModelFamily {
    /// Neither biases nor query and key norms.
    #[default]
    Llama,
    /// Like Llama, with a norm on every query and key head.
    Qwen3,
}

/// Unit of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// One character of the corpus or of printable ASCII.
    #[default]
    Characters,
    /// Byte-level byte pairs, trained on the corpus.
    Bpe,
}

/// The tokenizer of a new model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenizerOptions {
    /// Unit of a token: `characters` or `bpe`.
    pub kind: TokenizerKind,
    /// For `bpe`: the maximum number of tokens, including special tokens and the 256 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub vocabulary_size: Option<usize>,
}

/// The chat template of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TemplateChoice {
    /// A built-in template.
    Builtin(BuiltinTemplate),
    /// A template of a file.
    File(TemplateFile),
}

/// A file with a chat template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TemplateFile {
    /// A file with a Jinja template, or a JSON file with a key `chat_template`, such as `tokenizer_config.json` of the
    /// family's instruct model.
    #[schemars(extend("format" = "source"))]
    pub file: String,
}

impl TemplateChoice {
    /// Returns the template. Errors: those of reading the file, and invalid, if it is no template.
    pub fn template(&self) -> Result<ChatTemplate> {
        match self {
            Self::Builtin(builtin) => builtin.template(),
            Self::File(TemplateFile { file }) => ChatTemplate::open(Path::new(file)),
        }
    }
    /// Returns the built-in template; `None` for a file.
    pub fn builtin(&self) -> Option<BuiltinTemplate> {
        match self {
            Self::Builtin(builtin) => Some(*builtin),
            Self::File(_) => None,
        }
    }
    /// Returns why a file cannot be the template of a model; `None` if it can, or if it does not exist yet.
    pub fn problem(&self, is_new: bool) -> Option<OptionProblem> {
        let Self::File(TemplateFile { file }) = self else { return None };
        if is_new {
            let problem = OptionProblem::new("/file", "the tokens of a new model are those of a built-in template");
            return Some(problem.help("use `template: compact` or `template: chatml`, or set `from`"));
        }
        let wrong = Path::new(file).exists().then(|| self.template().err()).flatten()?;
        Some(OptionProblem { pointer: "/file".into(), message: wrong.message, help: wrong.help })
    }
}
