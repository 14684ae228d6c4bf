//! Converts the checks of answers in trajectories to and from Arrow columns.

use crate::answer_check::AnswerCheck;
use crate::decode::BatchColumns;
use crate::encode::{optional_bools, optional_strings};
use crate::schema::optional;
use crate::trajectory::Trajectory;
use arrow_array::ArrayRef;
use arrow_schema::DataType::{Boolean, Utf8};
use arrow_schema::Field;
use trainyard_core::Result;

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

/// Encodes the column of this name, if there is one.
pub(crate) fn encode(rows: &[&Trajectory], name: &str) -> Option<ArrayRef> {
    let checks = || rows.iter().map(|row| row.answer_check.as_ref());
    Some(match name {
        "expected" => optional_strings(checks().map(|check| check.map(|c| c.expected.as_str()))),
        "extracted" => optional_strings(checks().map(|check| check.and_then(|c| c.extracted.as_deref()))),
        "verifier" => optional_strings(checks().map(|check| check.map(|c| c.verifier.as_str()))),
        "correct" => optional_bools(checks().map(|check| check.map(|c| c.correct))),
        "unreadable" => optional_strings(checks().map(|check| check.and_then(|c| c.unreadable.as_deref()))),
        _ => return None,
    })
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
