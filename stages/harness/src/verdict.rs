//! Reads a program's verdict on its own episode from the last line that it prints, if that is JSON.

use serde::Deserialize;
use serde_json::Value;
use trainyard_core::{Error, Result};

/// A program's verdict.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ProgramVerdict {
    /// Answer, a text or a number.
    answer: Option<Value>,
    /// Whether the answer is correct; `None` leaves the decision to the verifier.
    pub correct: Option<bool>,
    /// Value of the reward `verdict`.
    pub reward: Option<f64>,
}

impl ProgramVerdict {
    /// Returns the final answer as text, or `None` if the verdict has no answer.
    pub fn answer(&self) -> Option<String> {
        match self.answer.as_ref()? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }
}

/// Reads the verdict from the last non-blank line of a text. Returns `None` if that is not a JSON object with one of
/// the keys.
///
/// Errors: data, if a key has an invalid value.
pub fn read(printed: &str) -> Result<Option<ProgramVerdict>> {
    let Some(line) = printed.lines().map(str::trim).rfind(|line| !line.is_empty()) else { return Ok(None) };
    let Ok(value @ Value::Object(_)) = serde_json::from_str::<Value>(line) else { return Ok(None) };
    if ["answer", "correct", "reward"].iter().all(|key| value.get(key).is_none()) {
        return Ok(None);
    }
    let verdict: ProgramVerdict = serde_json::from_value(value).map_err(|e| {
        Error::data(format!("the last line of the program is not a valid verdict: {e}: {line}"))
            .help("print for example {\"answer\": \"12\"}, {\"correct\": true} or {\"reward\": 0.5}")
    })?;
    Ok(Some(verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_json_line_is_verdict() {
        let of = |text: &str| read(text).unwrap();
        assert_eq!(of("thinking\n{\"answer\": \"12\"}\n\n").unwrap().answer().as_deref(), Some("12"));
        assert_eq!(of("{\"answer\": 12}").unwrap().answer().as_deref(), Some("12"));
        let both = of("{\"correct\": true, \"reward\": 0.5, \"more\": 1}").unwrap();
        assert_eq!((both.answer(), both.correct, both.reward), (None, Some(true), Some(0.5)));
        assert_eq!(of("{\"answer\": null, \"correct\": false}").unwrap().answer(), None);
        for text in ["", "12", "{\"answer\": 1}\nbye", "{\"log\": 1}", "[1]", "{\"answer\": "] {
            assert_eq!(of(text), None, "{text}");
        }
        let wrong = read("{\"reward\": \"high\"}").unwrap_err();
        assert!(wrong.message.contains("high") && wrong.help.is_some(), "{wrong}");
    }
}
