//! Serializes times of a run as RFC 3339 in UTC; the fold itself keeps Unix milliseconds.

use serde::Serializer;
use serde::ser::SerializeStruct as _;
use trainyard_core::event::RunOutcome;
use trainyard_core::units::format_time;

pub(super) fn time<S: Serializer>(unix_millis: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_time(*unix_millis))
}

pub(super) fn optional_time<S: Serializer>(unix_millis: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match unix_millis {
        Some(at) => time(at, serializer),
        None => serializer.serialize_none(),
    }
}

/// Serializes as `{"at": "2026-11-21T04:15:30.000Z", "outcome": "succeeded"}`.
pub(super) fn ending<S: Serializer>(ending: &Option<(i64, RunOutcome)>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some((at, outcome)) = ending else { return serializer.serialize_none() };
    let mut object = serializer.serialize_struct("Ending", 2)?;
    object.serialize_field("at", &format_time(*at))?;
    object.serialize_field("outcome", outcome)?;
    object.end()
}
