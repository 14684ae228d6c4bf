//! Reads `checks`: bounds on metrics, as written. [`super::metrics`] checks that the stage reports each metric, once
//! all stages have their options.

use super::checker::{Checker, MetricUse};
use crate::diagnostic::Diagnostic;
use crate::expand::ReferenceScope;
use crate::plan::{CheckSeverity, MetricCheck};
use crate::read::{Binder, BoundNode, ValueReader};
use crate::recipe::ROLES;
use trainyard_core::ComparisonField;

impl Checker<'_> {
    /// Reads the list under `checks`. Entries are read one by one, so that a mistake in one hides none in another.
    /// Names of metrics are recorded for a later check; those of a command (not `known`) are not declared anywhere.
    pub(super) fn checks(&mut self, draft: usize, view: &ReferenceScope<'_>, known: bool) -> Option<Vec<MetricCheck>> {
        let expanded = self.expanded;
        let Some(node) = expanded.raw(draft).get("checks") else { return Some(Vec::new()) };
        let entries = node.list();
        let mut uses = Vec::new();
        let mut checks = Vec::new();
        for entry in entries.unwrap_or(std::slice::from_ref(node)) {
            let bound =
                Binder { sources: &expanded.sources, names: view, text: false, diagnostics: &mut self.diagnostics }
                    .bind(entry);
            let mut reader = ValueReader { diagnostics: &mut self.diagnostics };
            checks.push(bound.and_then(|bound| match entries {
                Some(_) => check(draft, &bound, &mut reader, &mut uses),
                None => {
                    reader.wrong(&bound, "`checks`", "a list");
                    None
                }
            }));
        }
        if known {
            self.uses.append(&mut uses);
        }
        checks.into_iter().collect()
    }
}

/// Reads one check. Its metric is added to `uses` even if another part of the check is invalid.
fn check(
    draft: usize,
    bound: &BoundNode,
    reader: &mut ValueReader<'_>,
    uses: &mut Vec<MetricUse>,
) -> Option<MetricCheck> {
    let fields = reader.map(bound, "a check", &["metric", "of", "min", "max", "severity", "role"])?;
    let Some(named) = fields.get("metric") else {
        reader.report(
            Diagnostic::error("missing-key", bound.span, "a check has no `metric`")
                .help("as in `{metric: accuracy, min: 0.5}`"),
        );
        return None;
    };
    let metric = reader.string(named, "`metric`")?;
    let of = reader
        .optional(fields.get("of"), |r, b| r.word(b, "`of`", &ComparisonField::NAMES))
        .map(|of| of.and_then(ComparisonField::parse));
    if let Some(of) = of {
        let of_span = fields.get("of").map_or(named.span, |b| b.span);
        uses.push(MetricUse { draft, metric: metric.clone(), of, metric_span: named.span, of_span });
    }
    let min = reader.optional(fields.get("min").filter(|b| !b.is_null()), |r, b| r.float(b, "`min`"));
    let max = reader.optional(fields.get("max").filter(|b| !b.is_null()), |r, b| r.float(b, "`max`"));
    let severity = reader.optional(fields.get("severity"), |r, b| r.word(b, "`severity`", &["error", "warn"]));
    let role = reader.optional(fields.get("role"), |r, b| r.word(b, "`role`", &ROLES));
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
    let severity = if severity? == Some("warn") { CheckSeverity::Warn } else { CheckSeverity::Error };
    Some(MetricCheck { metric, of: of?, min, max, severity, role: role?.map(str::to_string), pooled: false })
}
