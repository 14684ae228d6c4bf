//! Defines the inputs of a template in addition to the messages, and the options of stages that set them.

use super::environment::TODAY;
use super::message::CallStyle;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use trainyard_core::OptionProblem;

/// A day of the calendar, written `2026-01-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Date(jiff::civil::Date);

impl Default for Date {
    /// Returns 2026-01-01, a fixed day, so that a prompt does not depend on the current date.
    fn default() -> Self {
        Self(jiff::civil::date(2026, 1, 1))
    }
}

impl std::str::FromStr for Date {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        text.parse().map(Self)
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Date {
    fn schema_name() -> Cow<'static, str> {
        "Date".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "format": "date" })
    }
}

/// Description of an environment's tools to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ToolDescriptions {
    /// `native` where the model's own template describes tools and writes calls in a supported format, else `prompt`.
    /// The built-in templates are always `prompt`.
    #[default]
    Auto,
    /// The template, with calls in its own format, regardless of the environment's `format` and `describe_tools`.
    Native,
    /// The environment, by its options `format` and `describe_tools`.
    Prompt,
}

/// Use of a model's chat template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateOptions {
    /// Source of the description of an environment's tools: the template (`native`), the environment's own text
    /// (`prompt`), or the template where it supports it (`auto`).
    pub tools: ToolDescriptions,
    /// Variables of the template, such as `enable_thinking: false`.
    pub variables: BTreeMap<String, Value>,
    /// Date that the template's `strftime_now` returns.
    pub date: Date,
}

impl TemplateOptions {
    /// Names that no variable may have.
    const TAKEN: [&str; 5] = ["messages", "tools", "documents", "add_generation_prompt", TODAY];

    /// Returns whether all options are unset.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
    /// Returns all problems of the options; `at` is their pointer in the config.
    pub fn problems(&self, at: &str) -> Vec<OptionProblem> {
        let taken = self.variables.keys().filter(|name| Self::TAKEN.contains(&name.as_str()));
        let problem = |name: &String| {
            OptionProblem::new(
                format!("{at}/variables/{name}"),
                format!("`{name}` is a reserved variable of every template"),
            )
            .help("leave it out")
        };
        taken.map(problem).collect()
    }
}

/// Inputs of a template in addition to the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// JSON text of a list of tool schemas, for templates that describe tools themselves. Keys keep their order.
    pub tools: Option<String>,
    /// Further variables (`enable_thinking`, …).
    pub variables: BTreeMap<String, Value>,
    /// Date that `strftime_now` returns.
    pub date: Date,
    /// Form of calls for the template.
    pub calls: CallStyle,
}
