//! Describes the chat template of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::Digest;

/// Maximum lines of a template that are shown.
const LINES: usize = 3;
/// Maximum characters of a line that are shown.
const CHARACTERS: usize = 100;

/// Chat template of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelTemplate {
    /// File that has the template.
    pub file: String,
    /// SHA-256 of the source, as in rows with tokens.
    pub digest: String,
    /// Number of lines of the source.
    pub lines: u64,
    /// First lines with text, at most three, cut after 100 characters.
    pub first_lines: Vec<String>,
}

impl ModelTemplate {
    /// Describes the source of a template.
    pub fn of_source(file: &str, source: &str) -> Self {
        let shown = source.lines().map(str::trim_end).filter(|line| !line.is_empty()).take(LINES);
        Self {
            file: file.to_string(),
            digest: Digest::of(source.as_bytes()).to_string(),
            lines: source.lines().count() as u64,
            first_lines: shown.map(cut).collect(),
        }
    }
}

/// Returns the template in the content of a `tokenizer_config.json`; of several, the one called `default`.
pub fn source_of_config(config: &Value) -> Option<&str> {
    match &config["chat_template"] {
        Value::Array(list) => list.iter().find(|entry| entry["name"] == "default")?["template"].as_str(),
        other => other.as_str(),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_lines_with_text_are_shown() {
        let long = "x".repeat(CHARACTERS + 1);
        let source = format!("a \n\n{long}\nc\nd\n");
        let found = ModelTemplate::of_source("chat_template.jinja", &source);
        assert_eq!(found.first_lines, ["a".to_string(), format!("{}…", &long[1..]), "c".to_string()]);
        assert_eq!((found.lines, found.digest), (5, Digest::of(source.as_bytes()).to_string()));
    }

    #[test]
    fn a_config_has_one_template_or_several() {
        assert_eq!(source_of_config(&json!({"chat_template": "a"})), Some("a"));
        let several = [json!({"name": "tool_use", "template": "t"}), json!({"name": "default", "template": "d"})];
        assert_eq!(source_of_config(&json!({"chat_template": several})), Some("d"));
        assert_eq!(source_of_config(&json!({"chat_template": []})), None);
        assert_eq!(source_of_config(&json!({})), None);
    }
}
