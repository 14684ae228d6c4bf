//! Reads a tool in a list of options, which is a name or a map with options.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Tool as options give it: `python`, or `{kind: python, interpreter: cpython}`. A map without options is kept as the
/// name alone, because both mean the same.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolConfig(Value);

impl ToolConfig {
    /// Returns the name of the tool; empty if absent.
    pub fn kind(&self) -> &str {
        let kind = if self.0.is_string() { Some(&self.0) } else { self.0.get("kind") };
        kind.and_then(Value::as_str).unwrap_or_default()
    }
    /// Returns the options as a family of parts reads them.
    pub fn options(&self) -> &Value {
        &self.0
    }
}

impl From<&str> for ToolConfig {
    fn from(name: &str) -> Self {
        Self(Value::from(name))
    }
}

impl<'de> Deserialize<'de> for ToolConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let name =
            value.as_object().filter(|map| map.len() == 1).and_then(|map| map.get("kind")).filter(|k| k.is_string());
        Ok(Self(name.cloned().unwrap_or(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn name_equals_a_map_with_only_its_kind() {
        let read = |value: Value| serde_json::from_value::<ToolConfig>(value).unwrap();
        assert_eq!(read(json!({"kind": "python"})), read(json!("python")));
        assert_eq!(serde_json::to_value(read(json!({"kind": "python"}))).unwrap(), json!("python"));
        let with_options = json!({"kind": "python", "interpreter": "cpython"});
        assert_eq!(serde_json::to_value(read(with_options.clone())).unwrap(), with_options);
        assert_eq!(read(with_options).kind(), "python");
        for nothing in [json!(3), json!({}), json!({"kind": 3}), json!(null)] {
            assert_eq!(read(nothing.clone()).kind(), "", "{nothing}");
        }
    }
}
