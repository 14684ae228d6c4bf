//! Implements the reward `json_pointer`: a value in the JSON of the agent's answer.

use crate::rewards::pattern::EpisodeTextSource;
use crate::rewards::{GroupView, Reward, Score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, Result};
use trainyard_tables::{Problem, Trajectory};

/// Options of the reward `json_pointer`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JsonPointerOptions {
    /// A JSON pointer (RFC 6901): `/total`, `/items/0/price`; empty = the whole document.
    pub pointer: String,
    /// Text that contains the JSON.
    pub of: EpisodeTextSource,
    /// Value that the selected value must equal; without it, the selected number is the reward, and true is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Reward if the text is not JSON, or the selected value is missing or does not count.
    pub otherwise: f64,
}

impl Default for JsonPointerOptions {
    fn default() -> Self {
        Self { pointer: String::new(), of: EpisodeTextSource::Answer, equals: None, otherwise: 0.0 }
    }
}

impl PartOptions for JsonPointerOptions {
    const KIND: &'static str = "json_pointer";
    const SUMMARY: &'static str = "a value in the JSON of the answer";
    const DOC: &'static str = "The text (`of`) is parsed as JSON or, if it is not JSON, the part between its first\n\
        and its last brace. `pointer` selects a value in it (RFC 6901).\n\n\
        With `equals`: value = 1 if the selected value equals that one (numbers are compared as numbers), else\n\
        `otherwise`. Without it: value = the selected number, 1 for true, 0 for false; `otherwise` for anything else.";
    fn check(&self) -> Vec<OptionProblem> {
        let malformed = !self.pointer.is_empty() && !self.pointer.starts_with('/');
        let pointer = malformed.then(|| {
            let help = format!("begin it with a slash: `/{}`", self.pointer.trim_start_matches("$.").replace('.', "/"));
            OptionProblem::new("/pointer", format!("`{}` is not a JSON pointer", self.pointer)).help(help)
        });
        pointer.into_iter().chain(OptionProblem::not_finite("/otherwise", self.otherwise)).collect()
    }
}

pub struct JsonPointerReward(pub JsonPointerOptions);

/// Parses a text as JSON, or else the part from its first opening to its last closing brace. Returns `None` if neither
/// is JSON.
pub(super) fn json(text: &str) -> Option<Value> {
    let inner = || text.get(text.find('{')?..=text.rfind('}')?);
    serde_json::from_str(text.trim()).ok().or_else(|| serde_json::from_str(inner()?).ok())
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a))
}

/// Returns the reward for a selected value. With `equals`, only an equal value counts; otherwise numbers and booleans
/// count.
pub(super) fn value_reward(value: &Value, equals: Option<&Value>) -> Option<f64> {
    match (equals, value) {
        (Some(expected), value) => same(expected, value).then_some(1.0),
        (None, Value::Bool(holds)) => Some(f64::from(u8::from(*holds))),
        (None, value) => value.as_f64().filter(|number| number.is_finite()),
    }
}

impl Reward for JsonPointerReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let document = self.0.of.text(r).and_then(|text| json(&text));
        let selected = document.as_ref().and_then(|document| document.pointer(&self.0.pointer));
        let reward = selected.and_then(|value| value_reward(value, self.0.equals.as_ref()));
        Ok(Score::of(reward.unwrap_or(self.0.otherwise)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewards::reward::score_alone;
    use serde_json::json;

    fn value(answer: &str, pointer: &str, equals: Option<Value>) -> f64 {
        let r = Trajectory { answer: Some(answer.to_string()), ..Trajectory::default() };
        let options =
            JsonPointerOptions { pointer: pointer.to_string(), equals, of: EpisodeTextSource::Answer, otherwise: -1.0 };
        score_alone(&JsonPointerReward(options), &r, &Problem::default()).value.unwrap()
    }

    #[test]
    fn selected_value_is_read_or_compared() {
        let answer = r#"{"total": 2.5, "paid": true, "items": [{"name": "pen"}]}"#;
        assert_eq!(value(answer, "/total", None), 2.5);
        assert_eq!(value(answer, "/paid", None), 1.0);
        assert_eq!(value(answer, "/items/0/name", Some(json!("pen"))), 1.0);
        assert_eq!(value(answer, "/items/0/name", Some(json!("ink"))), -1.0);
        assert_eq!(value(answer, "/items/0/name", None), -1.0, "a text is not a number");
        assert_eq!(value(r#"{"n": 3.0}"#, "/n", Some(json!(3))), 1.0);
        assert_eq!(value("Here it is:\n```json\n{\"n\": 3}\n```", "/n", None), 3.0);
        assert_eq!(value("no JSON {at all}", "/n", None), -1.0);
        assert_eq!(value("7", "", None), 7.0);
    }

    #[test]
    fn json_path_is_rejected_with_the_pointer_to_write() {
        let bad = JsonPointerOptions { pointer: "$.items.0".to_string(), ..JsonPointerOptions::default() };
        assert_eq!(bad.check()[0].help.as_deref(), Some("begin it with a slash: `/items/0`"));
        assert_eq!(JsonPointerOptions::default().check(), []);
    }
}
