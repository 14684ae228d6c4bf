//! Compares the answer of an episode with the expected one, and returns a record of the comparison.

use super::extraction::{AnswerForm, Comparison, Extracted, Extraction, extract, is_prose};
use super::verifier::Verifier;
use trainyard_core::Result;
use trainyard_tables::AnswerCheck;

/// Compares `answer`, as the environment read it, with `expected`.
///
/// The text counts whole if the verifier accepts it, or if it already has the form that the verifier compares.
/// Otherwise the answer is extracted from it. Errors: those of the verifier.
pub fn check(verifier: &dyn Verifier, extraction: Extraction, expected: &str, answer: &str) -> Result<AnswerCheck> {
    let check =
        AnswerCheck { expected: expected.to_string(), verifier: verifier.kind().to_string(), ..AnswerCheck::default() };
    let whole = |correct| AnswerCheck { extracted: Some(answer.to_string()), correct, ..check.clone() };
    let unreadable = |reason: String| AnswerCheck { unreadable: Some(reason), ..check.clone() };
    if verifier.matches(expected, answer)? {
        return Ok(whole(true));
    }
    let (form, reads) = (verifier.form(), verifier.reads(answer));
    let is_answer = reads && form != AnswerForm::Words;
    if is_answer || extraction == Extraction::None || form == AnswerForm::Whole {
        return Ok(if reads { whole(false) } else { unreadable(format!("not an answer for `{}`", verifier.kind())) });
    }
    let comparison = Comparison {
        reads: &|text| verifier.reads(text),
        equal: &|a, b| a == b || verifier.matches(a, b).unwrap_or(false),
    };
    Ok(match extract(answer, form, extraction, &comparison) {
        Extracted::Found(found) => {
            let correct = verifier.matches(expected, &found)?;
            AnswerCheck { extracted: Some(found), correct, ..check }
        }
        Extracted::Ambiguous(reason) => unreadable(reason),
        Extracted::Absent => match form {
            AnswerForm::Number => unreadable("no number in the answer".to_string()),
            AnswerForm::Words if !is_prose(answer) => whole(false),
            AnswerForm::Words => unreadable("a sentence without a marked answer".to_string()),
            AnswerForm::Marked | AnswerForm::Whole => unreadable(format!("not an answer for `{}`", verifier.kind())),
        },
    })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
