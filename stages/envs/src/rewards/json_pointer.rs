//! `json_pointer`: a value in the JSON of the agent's answer.

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
    /// A JSON pointer (RFC 6901): `/total`, `/items/0/price`; empty = the whole.
    pub pointer: String,
    /// Text that contains the JSON.
    pub of: EpisodeTextSource,
    /// Value required at the place; without it, the number at the place is the reward, and true is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// Reward if the text is not JSON, or the place has no value that counts.
    pub otherwise: f64,
}

impl Default for JsonPointerOptions {
    fn default() -> Self {
        Self { pointer: String::new(), of: EpisodeTextSource::Answer, equals: None, otherwise: 0.0 }
    }
}

impl PartOptions for JsonPointerOptions {
    const KIND: &'static str = "json_pointer";
    const SUMMARY: &'static str = "a value in the JSON that was answered";
    const DOC: &'static str = "The text (`of`) is read as JSON; where it is more than that, what stands between its\n\
        first and its last brace. `pointer` names a place in it (RFC 6901).\n\n\
        With `equals`: value = 1 if that stands there, numbers compared as numbers, else `otherwise`. Without it:\n\
        value = the number that stands there, 1 for true, 0 for false; `otherwise` for anything else.";
    fn check(&self) -> Vec<OptionProblem> {
        let malformed = !self.pointer.is_empty() && !self.pointer.starts_with('/');
        let pointer = malformed.then(|| {
            let help = format!("begin it with a slash: `/{}`", self.pointer.trim_start_matches("$.").replace('.', "/"));
            OptionProblem::new("/pointer", format!("`{}` is no JSON pointer", self.pointer)).help(help)
        });
        pointer.into_iter().chain(OptionProblem::not_finite("/otherwise", self.otherwise)).collect()
    }
}

pub struct JsonPointerReward(pub JsonPointerOptions);

/// Parses a text as JSON, or else the part between its first and its last brace.
pub(super) fn json(text: &str) -> Option<Value> {
    let inner = || text.get(text.find('{')?..=text.rfind('}')?);
    serde_json::from_str(text.trim()).ok().or_else(|| serde_json::from_str(inner()?).ok())
}

fn same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().is_some_and(|a| b.as_f64() == Some(a))
}

/// Returns the reward for the value at a place, if it counts.
pub(super) fn value_reward(there: &Value, equals: Option<&Value>) -> Option<f64> {
    match (equals, there) {
        (Some(wanted), there) => same(wanted, there).then_some(1.0),
        (None, Value::Bool(holds)) => Some(f64::from(u8::from(*holds))),
        (None, there) => there.as_f64().filter(|number| number.is_finite()),
    }
}

impl Reward for JsonPointerReward {
    fn score(&self, r: &Trajectory, _p: &Problem, _g: &GroupView<'_>) -> Result<Score> {
        let read = self.0.of.text(r).and_then(|text| json(&text));
        let there = read.as_ref().and_then(|value| value.pointer(&self.0.pointer));
        let value = there.and_then(|there| value_reward(there, self.0.equals.as_ref()));
        Ok(Score::of(value.unwrap_or(self.0.otherwise)))
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
    fn a_place_in_the_answer_is_read_or_compared() {
        let answer = r#"{"total": 2.5, "paid": true, "items": [{"name": "pen"}]}"#;
        assert_eq!(value(answer, "/total", None), 2.5);
        assert_eq!(value(answer, "/paid", None), 1.0);
        assert_eq!(value(answer, "/items/0/name", Some(json!("pen"))), 1.0);
        assert_eq!(value(answer, "/items/0/name", Some(json!("ink"))), -1.0);
        assert_eq!(value(answer, "/items/0/name", None), -1.0, "a text is no number");
        assert_eq!(value(r#"{"n": 3.0}"#, "/n", Some(json!(3))), 1.0);
        assert_eq!(value("Here it is:\n```json\n{\"n\": 3}\n```", "/n", None), 3.0);
        assert_eq!(value("no JSON {at all}", "/n", None), -1.0);
        assert_eq!(value("7", "", None), 7.0);
    }

    #[test]
    fn a_path_of_another_sort_is_refused_with_the_pointer() {
        let bad = JsonPointerOptions { pointer: "$.items.0".to_string(), ..JsonPointerOptions::default() };
        assert_eq!(bad.check()[0].help.as_deref(), Some("begin it with a slash: `/items/0`"));
        assert_eq!(JsonPointerOptions::default().check(), []);
    }
}
