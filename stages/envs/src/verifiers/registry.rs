//! The verifiers of this room: one line each, sorted.

use crate::verifiers::{Verifier, calls, countdown, numeric, text};
use serde_json::Value;
use trainyard_api::{Family, slot};
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

static VERIFIERS: &[&dyn Verifier] = &[&calls::Calls, &countdown::Countdown, &numeric::Numeric, &text::Text];

/// Sorted names.
pub fn names() -> Vec<&'static str> {
    VERIFIERS.iter().map(|v| v.kind()).collect()
}

/// What every page of a verifier says.
const DOC: &str = "Compares an answer with the expected one. A problem names its verifier in the column \
`verifier`, for example \
`{\"kind\": \"text\"}`; without a name it is `numeric`.";

/// The verifiers of this crate.
pub fn family() -> Family<&'static dyn Verifier> {
    slot::constants("verifiers", "verifier", VERIFIERS.iter().map(|v| (v.kind(), v.summary(), DOC, *v)))
}

/// The verifier that a problem names; `numeric` if it names none.
pub fn of_problem(problem: &Problem) -> Result<&'static dyn Verifier> {
    let data = match problem.verifier.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text)
            .map_err(|e| Error::data(format!("problem `{}`: its verifier is not JSON: {e}", problem.id)))?,
    };
    let kind = data.get("kind").and_then(Value::as_str).unwrap_or("numeric");
    let found = VERIFIERS.iter().find(|v| v.kind() == kind).copied();
    found.ok_or_else(|| {
        Error::data(format!("problem `{}`: no verifier `{kind}` in this build", problem.id))
            .help(format!("use one of: {}", names().join(", ")))
    })
}

/// Whether `answer` is right for `problem`. A problem whose verifier cannot be read has no right answer.
pub fn verify(problem: &Problem, answer: &str) -> bool {
    of_problem(problem).is_ok_and(|v| v.matches(&problem.answer, answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(verifier: &str, answer: &str) -> Problem {
        Problem { verifier: verifier.to_string(), answer: answer.to_string(), ..Problem::default() }
    }

    #[test]
    fn a_problem_picks_its_verifier() {
        assert!(names().is_sorted());
        assert!(verify(&problem("{}", "5"), "5.0"));
        assert!(verify(&problem("", "5"), "5.0"));
        assert!(!verify(&problem(r#"{"kind": "text"}"#, "5"), "5.0"));
        assert!(of_problem(&problem("{", "5")).is_err());
        assert!(of_problem(&problem(r#"{"kind": "taste"}"#, "5")).is_err());
        assert!(!verify(&problem(r#"{"kind": "taste"}"#, "5"), "5"));
    }
}
