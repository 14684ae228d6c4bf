//! `checks`: bounds on metrics, as written. Whether the stage reports such a metric is judged in [`super::metrics`],
//! once all stages have their options.

use crate::diagnostic::{Diagnostic, Span};
use crate::plan::{Check, Severity};
use crate::read::{Bound, Reader};
use trainyard_core::Of;

/// A check with the places of `metric` and `of`.
pub(super) struct Placed {
    pub check: Check,
    pub metric: Span,
    pub of: Option<Span>,
}

/// The list under `checks`.
pub(super) fn read(bound: &Bound, reader: &mut Reader<'_>) -> Option<Vec<Placed>> {
    let items = reader.list(bound, "`checks`")?;
    let checks: Vec<Option<Placed>> = items.iter().map(|b| check(b, reader)).collect();
    checks.into_iter().collect()
}

fn check(bound: &Bound, reader: &mut Reader<'_>) -> Option<Placed> {
    let fields = reader.map(bound, "a check", &["metric", "of", "min", "max", "severity", "role"])?;
    let Some(named) = fields.get("metric") else {
        reader.report(
            Diagnostic::error("missing-key", bound.span, "a check has no `metric`")
                .help("as in `{metric: accuracy, min: 0.5}`"),
        );
        return None;
    };
    let metric = reader.string(named, "`metric`")?;
    let of = reader.optional(fields.get("of"), |r, b| r.word(b, "`of`", &Of::NAMES));
    let min = reader.optional(fields.get("min").filter(|b| !b.is_null()), |r, b| r.float(b, "`min`"));
    let max = reader.optional(fields.get("max").filter(|b| !b.is_null()), |r, b| r.float(b, "`max`"));
    let severity = reader.optional(fields.get("severity"), |r, b| r.word(b, "`severity`", &["error", "warn"]));
    let role = reader.optional(fields.get("role"), |r, b| r.word(b, "`role`", &["mechanism", "guard"]));
    let (min, max) = (min?, max?);
    if min.is_none() && max.is_none() {
        let message = format!("the check of `{metric}` has neither `min` nor `max`");
        reader.report(Diagnostic::error("missing-key", bound.span, message));
        return None;
    }
    if min.zip(max).is_some_and(|(min, max)| min > max) {
        let message = format!("the check of `{metric}` can never hold: `min` is above `max`");
        reader.report(Diagnostic::error("out-of-range", bound.span, message));
    }
    let severity = if severity? == Some("warn") { Severity::Warn } else { Severity::Error };
    let check = Check { metric, of: of?.and_then(Of::parse), min, max, severity, role: role?.map(str::to_string) };
    Some(Placed { check, metric: named.span, of: fields.get("of").map(|b| b.span) })
}
