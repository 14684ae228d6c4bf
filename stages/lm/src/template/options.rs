//! What a template is given besides the messages.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A day of the calendar, written `2026-01-01`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Date(jiff::civil::Date);

impl Default for Date {
    /// 2026-01-01. A fixed day, so that a prompt does not depend on when it was made.
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

/// What a template is given besides the messages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderOptions {
    /// JSON text of a list of tool schemas, for templates that describe tools themselves. Keys keep their order.
    pub tools: Option<String>,
    /// Further variables (`enable_thinking`, …).
    pub variables: BTreeMap<String, Value>,
    /// The day that `strftime_now` tells.
    pub date: Date,
}
