//! Checks the top-level keys `outputs` and `schedule` of a file.

use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::expand::ReferenceScope;
use crate::read::{Binder, ValueReader};
use crate::schedule::{self, Schedule};
use std::collections::BTreeMap;
use trainyard_core::StageKey;

impl Checker<'_> {
    /// Reads the exports of the main file. Exports of embedded files are checked as well, at their own positions.
    pub(super) fn outputs(&mut self) -> BTreeMap<String, (StageKey, String)> {
        let expanded = self.expanded;
        let mut exported = BTreeMap::new();
        for (space, home) in expanded.workflow_instances.iter().enumerate() {
            for entry in &home.workflow.outputs {
                crate::workflow::check_id(&entry.key, entry.key_span, "output", &mut self.diagnostics);
                let view = ReferenceScope::at(expanded, space, None, &[]);
                let bound = Binder {
                    sources: &expanded.sources,
                    names: &view,
                    text: false,
                    diagnostics: &mut self.diagnostics,
                }
                .bind(&entry.value);
                let Some(bound) = bound else { continue };
                match view.all_targets(&bound) {
                    Err(error) => self.report_unresolved(error, bound.span),
                    Ok(_) if space > 0 => {}
                    Ok(targets) => match targets.items.as_slice() {
                        [one] if !targets.list => {
                            self.exports.push((one.draft, one.port.clone(), bound.span));
                            exported.insert(entry.key.clone(), (expanded.key(one.draft).clone(), one.port.clone()));
                        }
                        _ => {
                            let d = Diagnostic::error(
                                "cardinality",
                                bound.span,
                                format!("output `{}` must be one artifact, but is a list", entry.key),
                            );
                            self.report(d.help("export it from a stage that takes the whole list"));
                        }
                    },
                }
            }
        }
        exported
    }

    pub(super) fn schedule(&mut self) -> Option<Schedule> {
        let expanded = self.expanded;
        for home in expanded.workflow_instances.iter().skip(1) {
            if let Some(entry) = &home.workflow.schedule {
                self.report(Diagnostic::warning(
                    "schedule",
                    entry.key_span,
                    "the schedule of an embedded file has no effect",
                ));
            }
        }
        let entry = expanded.workflow_instances.first()?.workflow.schedule.as_ref()?;
        let view = ReferenceScope::at(expanded, 0, None, &[]);
        let bound =
            Binder { sources: &expanded.sources, names: &view, text: false, diagnostics: &mut self.diagnostics }
                .bind(&entry.value)?;
        schedule::read(&bound, &mut ValueReader { diagnostics: &mut self.diagnostics })
    }
}
