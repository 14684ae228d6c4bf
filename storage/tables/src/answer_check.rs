//! Defines the comparison of a final answer with the expected one, and its columns in the table of trajectories.

use crate::decode::BatchColumns;
use crate::encode::{optional_bools, optional_strings};
use crate::schema::optional;
use crate::trajectory::Trajectory;
use arrow_array::ArrayRef;
use arrow_schema::DataType::{Boolean, Utf8};
use arrow_schema::Field;
use serde::{Deserialize, Serialize};
use trainyard_core::Result;

/// Comparison of an episode's final answer with the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnswerCheck {
    /// Expected answer.
    pub expected: String,
    /// Answer that was compared; `None` if the episode has no readable answer.
    pub extracted: Option<String>,
    /// Kind of the verifier, or of the environment or program that decided.
    pub verifier: String,
    /// Whether the answer is correct.
    pub correct: bool,
    /// Reason why there is no readable answer; `None` if there is one.
    pub unreadable: Option<String>,
}

impl AnswerCheck {
    /// Returns the check of an answer that was compared as a whole.
    pub fn whole(expected: &str, answer: &str, verifier: &str, correct: bool) -> Self {
        let (expected, verifier) = (expected.to_string(), verifier.to_string());
        Self { expected, extracted: Some(answer.to_string()), verifier, correct, unreadable: None }
    }
}

/// Returns the columns of the checks.
pub(crate) fn columns() -> [Field; 5] {
    [
        optional("expected", Utf8),
        optional("extracted", Utf8),
        optional("verifier", Utf8),
        optional("correct", Boolean),
        optional("unreadable", Utf8),
    ]
}

pub(crate) fn encode(rows: &[Trajectory]) -> [ArrayRef; 5] {
    let checks = || rows.iter().map(|row| row.answer_check.as_ref());
    [
        optional_strings(checks().map(|check| check.map(|c| c.expected.as_str()))),
        optional_strings(checks().map(|check| check.and_then(|c| c.extracted.as_deref()))),
        optional_strings(checks().map(|check| check.map(|c| c.verifier.as_str()))),
        optional_bools(checks().map(|check| check.map(|c| c.correct))),
        optional_strings(checks().map(|check| check.and_then(|c| c.unreadable.as_deref()))),
    ]
}

/// Reads the check of each row; `None` where no verifier judged the row, and in files of versions before these columns.
pub(crate) fn decode(columns: &BatchColumns<'_>) -> Result<Vec<Option<AnswerCheck>>> {
    let texts = |name: &str| columns.optional_strings(name);
    let (verifiers, correct) = (texts("verifier")?, columns.optional_bools("correct")?);
    let answers = texts("expected")?.into_iter().zip(texts("extracted")?).zip(texts("unreadable")?);
    let check = |((verifier, correct), ((expected, extracted), unreadable)): ((Option<String>, Option<bool>), _)| {
        let expected: Option<String> = expected;
        let verifier = verifier?;
        let (expected, correct) = (expected.unwrap_or_default(), correct.unwrap_or(false));
        Some(AnswerCheck { expected, extracted, verifier, correct, unreadable })
    };
    Ok(verifiers.into_iter().zip(correct).zip(answers).map(check).collect())
}
