//! Implements the reward `json_path`: values in the JSON of the agent's answer, selected by a query.

use crate::rewards::json_pointer::{json, value_reward};
use crate::rewards::pattern::EpisodeTextSource;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json_path::JsonPath as Query;
use trainyard_api::PartOptions;
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `json_path`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JsonPathOptions {
    /// A JSONPath query (RFC 9535): `$.items[*].price`, `$.items[?@.name == "pen"].count`, `$..id`.
    pub path: String,
    /// Text that contains the JSON.
    pub of: EpisodeTextSource,
    /// Value that the selected values must equal; without it, a selected number is the reward, and true is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Reward if the text is not JSON or the query selects nothing, and of a selected value that does not count.
    pub otherwise: f64,
}

impl Default for JsonPathOptions {
    fn default() -> Self {
        Self { path: "$".to_string(), of: EpisodeTextSource::Answer, equals: None, otherwise: 0.0 }
    }
}

impl JsonPathOptions {
    fn query(&self) -> Result<Query> {
        Query::parse(&self.path).map_err(|e| {
            let error = Error::invalid(format!("`{}` is not a JSONPath query: {}", self.path, e.message()));
            error.help("begin it with `$`, as in `$.items[*].price` (RFC 9535), or use the reward `json_pointer`")
        })
    }
}

impl PartOptions for JsonPathOptions {
    const KIND: &'static str = "json_path";
    const SUMMARY: &'static str = "values in the JSON of the answer, selected by a query";
    const DOC: &'static str = "The text (`of`) is parsed as JSON or, if it is not JSON, the part between its first\n\
        and its last brace. `path` selects any number of values in it (RFC 9535).\n\n\
        value = the mean over the selected values. With `equals`, a value counts 1 if it equals that one (numbers are\n\
        compared as numbers), else `otherwise`. Without it, a number counts as itself, true as 1, false as 0, and\n\
        anything else as `otherwise`. If nothing is selected, value = `otherwise`.";
    fn check(&self) -> Vec<OptionProblem> {
        let query = self.query().err().map(|error| {
            let problem = OptionProblem::new("/path", error.message);
            error.help.into_iter().fold(problem, OptionProblem::help)
        });
        query.into_iter().chain(OptionProblem::not_finite("/otherwise", self.otherwise)).collect()
    }
}

pub struct JsonPathReward {
    options: JsonPathOptions,
    query: Query,
}

impl JsonPathReward {
    /// Returns the reward. Errors: invalid, if the path is not a JSONPath query.
    pub fn new(options: JsonPathOptions) -> Result<Self> {
        let query = options.query()?;
        Ok(Self { options, query })
    }
}

impl Reward for JsonPathReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let JsonPathOptions { of, equals, otherwise, .. } = &self.options;
        let parsed = of.text(r).and_then(|text| json(&text));
        let selected = parsed.as_ref().map(|value| self.query.query(value).all()).unwrap_or_default();
        if selected.is_empty() {
            return Ok(Score::of(*otherwise));
        }
        let scores = selected.iter().map(|value| value_reward(value, equals.as_ref()).unwrap_or(*otherwise));
        Ok(Score::of(scores.sum::<f64>() / selected.len() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;
    use serde_json::json;

    fn value(answer: &str, path: &str, equals: Option<Value>) -> f64 {
        let r = Trajectory { answer: Some(answer.to_string()), ..Trajectory::default() };
        let options =
            JsonPathOptions { path: path.to_string(), equals, of: EpisodeTextSource::Answer, otherwise: -1.0 };
        assert_eq!(options.check(), []);
        score_alone(&JsonPathReward::new(options).unwrap(), &r, &Problem::default()).value.unwrap()
    }

    const ANSWER: &str = r#"{"total": 2.5, "items": [{"name": "pen", "count": 3, "new": true},
        {"name": "ink", "count": 1}, {"name": "pen", "count": "two"}]}"#;

    #[test]
    fn selected_values_are_averaged() {
        assert_eq!(value(ANSWER, "$.total", None), 2.5);
        assert_eq!(value(ANSWER, "$.items[0:2].count", None), 2.0);
        assert_eq!(value(ANSWER, "$.items[?@.name == \"pen\"].count", None), 1.0, "a text counts as `otherwise`");
        assert_eq!(value(ANSWER, "$..new", None), 1.0);
        assert_eq!(value(ANSWER, "$.items[*].name", Some(json!("pen"))), 1.0 / 3.0);
        assert_eq!(value(ANSWER, "$.items[?length(@.name) == 3 && @.count > 2].count", Some(json!(3.0))), 1.0);
        assert_eq!(value(ANSWER, "$.items[?match(@.name, 'p.*')].name", Some(json!("pen"))), 1.0);
        assert_eq!(value("Here it is:\n```json\n{\"n\": 3}\n```", "$.n", None), 3.0);
    }

    #[test]
    fn empty_selection_gets_otherwise() {
        assert_eq!(value(ANSWER, "$.items[7].count", None), -1.0);
        assert_eq!(value(ANSWER, "$.prices", Some(json!(null))), -1.0);
        assert_eq!(value("no JSON {at all}", "$.n", None), -1.0);
    }

    #[test]
    fn invalid_queries_are_rejected() {
        for path in ["", "/items/0", "items", "$.items[", "$.items[?@.a ==]", "$.items[?nope(@)]"] {
            let options = JsonPathOptions { path: path.to_string(), ..JsonPathOptions::default() };
            let problems = options.check();
            assert_eq!((problems.len(), problems[0].pointer.as_str()), (1, "/path"), "{path}");
            assert!(
                problems[0].help.as_ref().unwrap().contains("json_pointer") && JsonPathReward::new(options).is_err()
            );
        }
    }

    /// An answer of a model must not stop the stage, however deeply nested it is.
    #[test]
    fn too_deeply_nested_answers_are_not_parsed() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(value(&deep, "$..*", None), -1.0);
        let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(value(&nested, "$..[?@ == 1]", None), 1.0);
    }
}
