//! Adds the outputs that a workflow refers to and whose names the options of their stages give (`problems_<split>`),
//! and checks these names.

use super::checker::Checker;
use crate::diagnostic::{Diagnostic, Span, suggest};
use crate::plan::PlanNode;
use crate::workflow::StageBody;
use trainyard_core::attempt::AttemptOutput;
use trainyard_core::{Cardinality, PortInfo};

impl Checker<'_> {
    /// Adds each such output to the node of its stage. Runs after all references are resolved.
    pub(super) fn output_families(&mut self, nodes: &mut [Option<PlanNode>]) {
        let links = self.links.iter().filter_map(|link| {
            let (output, _) = link.ports.as_ref()?;
            Some((link.from, output.clone(), link.span))
        });
        let used: Vec<(usize, String, Span)> = links.chain(self.exports.iter().cloned()).collect();
        for (draft, output, span) in used {
            let Some(port) = self.family_of(draft, &output) else { continue };
            if let Some(problem) = self.unknown_output(draft, port, &output, span) {
                self.report(problem);
            } else if let Some(node) = &mut nodes[draft] {
                let optional = port.cardinality == Cardinality::Optional;
                node.outputs.insert(output, AttemptOutput { kind: port.kind, optional });
            }
        }
    }

    /// Returns the family of ports that covers an output.
    fn family_of(&self, draft: usize, output: &str) -> Option<&PortInfo> {
        let StageBody::Kind { name, .. } = &self.expanded.raw(draft).body else { return None };
        self.expanded.catalogue.kind(name)?.output(output).filter(|port| port.is_family())
    }

    /// Returns the error for a name that the options do not give. Accepts any name if the options are not valid or do
    /// not determine the names.
    fn unknown_output(&self, draft: usize, port: &PortInfo, output: &str, span: Span) -> Option<Diagnostic> {
        let names = self.valid.get(&draft)?.validated.output_names()?;
        if names.iter().any(|name| name == output) {
            return None;
        }
        let id = &self.expanded.raw(draft).id;
        let message = format!("stage `{id}` has no output `{output}`, since its options give no such `{}`", port.name);
        let help = suggest(output, names.iter().map(String::as_str));
        let d = Diagnostic::error("unknown-port", span, message);
        Some(match help {
            Some(help) => d.help(help),
            None => d,
        })
    }
}
