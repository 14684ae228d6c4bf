//! Groups rows by a property: the problem, the tools, the length, a column of the source, …

use super::row_scores::answered_characters;
use super::rows::RuleRows;
use crate::tool_text::parsed_calls;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::suggest::nearest;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_envs::ToolFormat;
use trainyard_tables::Trajectory;

/// Prefix of the names of columns of the imported source.
const META: &str = "meta_";

/// The property that rows of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(transform = with_overlap)]
pub enum GroupKey {
    /// The problem.
    #[default]
    Problem,
    /// The environment.
    Environment,
    /// The level of the problem.
    Level,
    /// The first words of the first user message.
    QuestionPrefix,
    /// The set of the tools that were called.
    Tools,
    /// The characters of the assistant's messages, in ranges that begin at powers of two.
    LengthBucket,
    /// A further column of the imported source, as `meta_` and its name.
    #[serde(untagged)]
    Column(String),
}

/// Names of the keys that are no columns of the source.
const KEYS: [&str; 6] = ["problem", "environment", "level", "question_prefix", "tools", "length_bucket"];

/// Permits a text to be both a key and a name.
fn with_overlap(schema: &mut Schema) {
    if let Some(branches) = schema.remove("oneOf") {
        schema.insert("anyOf".into(), branches);
    }
}

impl GroupKey {
    /// Reports a name that is neither a key nor that of a column of the source.
    pub fn problem(&self, pointer: &str) -> Option<OptionProblem> {
        let Self::Column(name) = self else { return None };
        let near = nearest(name, KEYS).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
        let help = format!("{near}use {}, or `{META}` and the name of a column of the source", KEYS.join(", "));
        let unknown = self.meta_name().is_none();
        unknown.then(|| OptionProblem::new(pointer, format!("rows have no groups by `{name}`")).help(help))
    }
    /// Returns the name of the column in the source, without the prefix; `None` for other keys and other names.
    pub fn meta_name(&self) -> Option<&str> {
        let Self::Column(column) = self else { return None };
        column.strip_prefix(META).filter(|name| !name.is_empty())
    }
    /// Returns the column that the key reads.
    pub fn column(&self) -> &'static str {
        match self {
            Self::Problem => "problem_id",
            Self::Environment => "environment",
            Self::Level => "level",
            Self::QuestionPrefix | Self::Tools | Self::LengthBucket => "messages",
            Self::Column(_) => "meta",
        }
    }
    /// Returns the name of each row's group. `words` is the number of words of a prefix; `format` reads calls in rows
    /// whose messages do not list them.
    ///
    /// Errors: data (calls or columns of the source that are not JSON), with the row.
    pub fn groups(&self, rows: &RuleRows, words: usize, format: &dyn ToolFormat) -> Result<Vec<String>> {
        let messages = || rows.messages();
        let count = 0..rows.len();
        Ok(match self {
            Self::Problem | Self::Environment => {
                let names = rows.texts(self.column())?;
                count.map(|row| names.value(row).to_string()).collect()
            }
            Self::Level => rows.numbers("level")?.iter().map(|level| format!("level {level}")).collect(),
            Self::QuestionPrefix => {
                let messages = messages()?;
                count.map(|row| prefix(messages.question(row), words)).collect()
            }
            Self::LengthBucket => {
                let messages = messages()?;
                count.map(|row| length_bucket(answered_characters(&messages, row))).collect()
            }
            Self::Tools => {
                let rows = rows.trajectories()?.iter();
                rows.map(|row| tools(row, format).map_err(|e| at_row(e, &row.id))).collect::<Result<_>>()?
            }
            Self::Column(_) => self.of_meta(rows)?,
        })
    }

    fn of_meta(&self, rows: &RuleRows) -> Result<Vec<String>> {
        let (columns, ids) = (rows.texts("meta")?, rows.ids()?);
        let name = self.meta_name().unwrap_or_default();
        let value = |(row, columns): (usize, Option<&str>)| {
            columns.map_or(Ok(None), |columns| meta_value(columns, name)).map_err(|e| at_row(e, ids.value(row)))
        };
        let label = |value: Option<String>| value.unwrap_or_else(|| format!("no `{name}`"));
        columns.iter().enumerate().map(|row| value(row).map(label)).collect()
    }
}

/// Returns the first words, in lower case.
fn prefix(text: &str, words: usize) -> String {
    text.split_whitespace().take(words).map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Returns the range of lengths that a length belongs to.
fn length_bucket(length: usize) -> String {
    match length.checked_ilog2() {
        None => "0 characters".to_string(),
        Some(exponent) => {
            let low = 1_usize << exponent;
            format!("{low} to {} characters", low + (low - 1))
        }
    }
}

/// Returns the sorted names of the tools that a row calls.
fn tools(row: &Trajectory, format: &dyn ToolFormat) -> Result<String> {
    let mut names = BTreeSet::new();
    for message in row.messages.iter().filter(|message| message.role == "assistant") {
        match &message.tool_calls {
            Some(calls) => names.extend(parsed_calls(calls)?.0.into_iter().map(|call| call.name)),
            None => names.extend(format.parse(&message.content).calls.into_iter().flatten().map(|call| call.name)),
        }
    }
    let names: Vec<String> = names.into_iter().collect();
    Ok(if names.is_empty() { "no tool".to_string() } else { names.join(", ") })
}

/// Returns a column of the source: a text without quotation marks, other values as JSON; `None` for null or no value.
fn meta_value(columns: &str, name: &str) -> Result<Option<String>> {
    let wrong = |e: serde_json::Error| Error::data(format!("`meta` is not a JSON object: {e}"));
    let columns: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(columns).map_err(wrong)?;
    let Some(value) = columns.get(name).map(|value| value.get()) else { return Ok(None) };
    match value {
        "null" => Ok(None),
        text if text.starts_with('"') => serde_json::from_str(text).map(Some).map_err(wrong),
        other => Ok(Some(other.to_string())),
    }
}

fn at_row(error: Error, id: &str) -> Error {
    error.at(format!("row `{id}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    #[test]
    fn lengths_fall_into_ranges_between_powers_of_two() {
        let buckets = [0, 1, 2, 3, 4, 255, 256].map(length_bucket);
        let expected = [
            "0 characters",
            "1 to 1 characters",
            "2 to 3 characters",
            "2 to 3 characters",
            "4 to 7 characters",
            "128 to 255 characters",
            "256 to 511 characters",
        ];
        assert_eq!(buckets, expected);
        assert_eq!(length_bucket(usize::MAX), format!("{} to {} characters", 1_usize << 63, usize::MAX));
    }

    #[test]
    fn keys_and_columns_are_read_from_one_text_and_fit_the_schema() {
        let read = |text: &str| serde_json::from_value::<GroupKey>(text.into()).unwrap();
        for name in KEYS.into_iter().chain(["meta_source", "meta_", "problems"]) {
            let key = read(name);
            assert_eq!(serde_json::to_value(&key).unwrap(), name);
            assert_eq!(matches!(key, GroupKey::Column(_)), !KEYS.contains(&name), "{name}");
        }
        let help = |name: &str| read(name).problem("/by").map(|problem| problem.help.unwrap_or_default());
        assert!(help("problem").is_none() && help("meta_source").is_none());
        assert!(help("problems").unwrap().starts_with("did you mean `problem`? use problem, environment"));
        assert!(help("meta_").is_some());
        // A text that is both a key and a name fits one of several branches.
        let schema = schemars::schema_for!(GroupKey).to_value();
        assert!(schema.get("oneOf").is_none() && schema["anyOf"].as_array().unwrap().len() > 1, "{schema}");
    }

    #[test]
    fn columns_of_the_source_are_texts() {
        let columns = r#"{"source": "a\"b", "n": 3, "none": null, "list": [1, 2]}"#;
        let found = ["source", "n", "none", "list", "other"].map(|name| meta_value(columns, name).unwrap());
        assert_eq!(found.each_ref().map(Option::as_deref), [Some("a\"b"), Some("3"), None, Some("[1, 2]"), None]);
        assert!(meta_value("[]", "n").is_err());
    }

    #[test]
    fn listed_calls_count_before_those_in_the_text() {
        let environment = crate::testing::environment(
            &serde_json::json!({"kind": "math-problems", "tools": ["calculator"], "format": "hermes"}),
            1,
        )
        .unwrap();
        let call = |name: &str| format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{}}}}\n</tool_call>");
        let listed = Message {
            tool_calls: Some(r#"[{"name": "search", "arguments": {}}, {"name": "add", "arguments": {}}]"#.into()),
            ..Message::new("assistant", "I look.")
        };
        let of = |messages: Vec<Message>| Trajectory { messages, ..Trajectory::default() };
        let rows = [
            of(vec![Message::new("user", call("shown")), listed.clone()]),
            of(vec![Message::new("assistant", call("calculator")), listed]),
            of(vec![Message::new("assistant", "5")]),
        ];
        let found = rows.each_ref().map(|row| tools(row, environment.format()).unwrap());
        assert_eq!(found, ["add, search", "add, calculator, search", "no tool"]);
    }
}
