//! Lists the verifiers of this crate, one line each, sorted.

use crate::verifiers::{Extraction, Verifier, calls, check, countdown, numeric, text};
use serde_json::Value;
use trainyard_api::{Family, PartKind, slot};
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

static VERIFIERS: &[&dyn Verifier] =
    &[&calls::CallsVerifier, &countdown::CountdownVerifier, &numeric::NumericVerifier, &text::TextVerifier];

/// Returns the names of the verifiers, sorted.
pub fn names() -> Vec<&'static str> {
    VERIFIERS.iter().map(|v| v.kind()).collect()
}

/// Returns the verifiers of this crate.
pub fn family() -> Family<&'static dyn Verifier> {
    Family::new("verifiers", "verifier", VERIFIERS.iter().map(|verifier| line(*verifier)).collect())
}

/// Returns the registry line of a verifier.
pub fn line(verifier: &'static dyn Verifier) -> PartKind<&'static dyn Verifier> {
    slot::constant(verifier.kind(), verifier.summary(), verifier.doc(), verifier)
}

/// Returns the kind that a problem names in its column `verifier`, by default `numeric`. Errors: data, if the column is
/// not JSON.
pub fn kind(problem: &Problem) -> Result<String> {
    let data = match problem.verifier.trim() {
        "" => Value::Null,
        text => serde_json::from_str(text)
            .map_err(|e| Error::data(format!("problem `{}`: its verifier is not JSON: {e}", problem.id)))?,
    };
    Ok(data.get("kind").and_then(Value::as_str).unwrap_or("numeric").to_string())
}

/// Returns the error for a problem that names an unknown verifier.
pub fn unknown(problem: &Problem, kind: &str, known: &[&str]) -> Error {
    Error::data(format!("problem `{}`: no verifier `{kind}` in this build", problem.id))
        .help(format!("use one of: {}", known.join(", ")))
}

/// Returns the verifier of this crate that a problem names. Errors: data, if the name is unknown or the column
/// `verifier` is not JSON.
pub fn of_problem(problem: &Problem) -> Result<&'static dyn Verifier> {
    let kind = kind(problem)?;
    let found = VERIFIERS.iter().find(|v| v.kind() == kind).copied();
    found.ok_or_else(|| unknown(problem, &kind, &names()))
}

/// Returns whether `answer` is correct for `problem`, by the verifiers of this crate. Returns false if the verifier of
/// the problem is unknown or its data are not JSON.
pub fn verify(problem: &Problem, answer: &str) -> bool {
    // The verifiers of this crate never fail.
    let checked = of_problem(problem).and_then(|v| check(v, Extraction::default(), &problem.answer, answer));
    checked.is_ok_and(|check| check.correct)
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
        assert!(verify(&problem("", "5"), "It is 5 degrees."));
        assert!(!verify(&problem(r#"{"kind": "text"}"#, "5"), "5.0"));
        assert!(of_problem(&problem("{", "5")).is_err());
        assert!(of_problem(&problem(r#"{"kind": "taste"}"#, "5")).is_err());
        assert!(!verify(&problem(r#"{"kind": "taste"}"#, "5"), "5"));
    }
}
