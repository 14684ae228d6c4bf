//! Checks evaluation sets: data that must never reach the stages that learn from it.
//!
//! ```yaml
//! evaluation_sets:
//!   half_b: {artifact: "${{ stages.halves.b }}", excluded_from: [prm]}
//! ```
//!
//! Every data edge from that artifact into an excluded stage is an error, also through other stages: problems,
//! trajectories, tables and files that a stage passes on count as that data, models and reports do not. One port is
//! exempt: an input called `evaluation` is only compared or measured against; no stage learns from it or passes it on.

use super::checker::{Checker, StageLink};
use crate::diagnostic::{Diagnostic, Span};
use crate::expand::{OutputTargets, ReferenceScope};
use crate::read::{Binder, ValueReader};
use crate::tree::YamlEntry;
use std::collections::{HashMap, HashSet, VecDeque};
use trainyard_core::ArtifactKind;

/// Input port whose artifact a stage only compares or measures against, and does not pass on.
const EVALUATION_PORT: &str = "evaluation";

type OutputKey = (usize, String);

impl Checker<'_> {
    pub(super) fn evaluation_sets(&mut self) {
        let expanded = self.expanded;
        for (space, home) in expanded.workflow_instances.iter().enumerate() {
            for entry in &home.workflow.evaluation_sets {
                self.evaluation_set(space, entry);
            }
        }
    }

    fn evaluation_set(&mut self, space: usize, entry: &YamlEntry) {
        let expanded = self.expanded;
        crate::workflow::check_id(&entry.key, entry.key_span, "evaluation set", &mut self.diagnostics);
        let view = ReferenceScope::at(expanded, space, None, &[]);
        let bound =
            Binder { sources: &expanded.sources, names: &view, text: false, diagnostics: &mut self.diagnostics }
                .bind(&entry.value);
        let Some(bound) = bound else { return };
        let mut reader = ValueReader { diagnostics: &mut self.diagnostics };
        let Some(fields) = reader.map(&bound, "an evaluation set", &["artifact", "excluded_from", "description"])
        else {
            return;
        };
        let (Some(artifact), Some(excluded)) = (fields.get("artifact"), fields.get("excluded_from")) else {
            let d = Diagnostic::error(
                "missing-key",
                entry.key_span,
                format!("evaluation set `{}` needs `artifact` and `excluded_from`", entry.key),
            );
            return reader.report(d.help("as in `{artifact: \"${{ stages.halves.b }}\", excluded_from: [prm]}`"));
        };
        let Some(items) = reader.list(excluded, "`excluded_from`") else { return };
        let named: Vec<(Option<String>, Span)> =
            items.iter().map(|b| (reader.string(b, "an item of `excluded_from`"), b.span)).collect();
        let mut forbidden: HashSet<usize> = HashSet::new();
        for (id, span) in named {
            let Some(id) = id else { continue };
            match view.group(&id) {
                Ok(group) => forbidden.extend(expanded.drafts_of(&group.instances)),
                Err(error) => self.report_unresolved(error, span),
            }
        }
        match view.all_targets(artifact) {
            Ok(targets) => self.follow(entry, &targets, &forbidden),
            Err(error) => self.report_unresolved(error, artifact.span),
        }
    }

    /// Searches breadth first along data edges, so that the diagnostic shows the shortest path.
    fn follow(&mut self, entry: &YamlEntry, set: &OutputTargets, forbidden: &HashSet<usize>) {
        let mut out: HashMap<(usize, &str), Vec<&StageLink>> = HashMap::new();
        for link in &self.links {
            if let Some((output, _)) = &link.ports {
                out.entry((link.from, output.as_str())).or_default().push(link);
            }
        }
        // Output → path by which it was reached.
        let mut reached: HashMap<OutputKey, Vec<String>> = HashMap::new();
        let mut queue: VecDeque<OutputKey> = VecDeque::new();
        for target in &set.items {
            let key = (target.draft, target.port.clone());
            reached.insert(key.clone(), vec![self.output_name(&key)]);
            queue.push_back(key);
        }
        let mut found = Vec::new();
        while let Some(key) = queue.pop_front() {
            let way = reached[&key].clone();
            for link in out.get(&(key.0, key.1.as_str())).into_iter().flatten() {
                let port = link.ports.as_ref().map_or("", |(_, port)| port.as_str());
                if port == EVALUATION_PORT {
                    continue;
                }
                if forbidden.contains(&link.to) {
                    found.push((link.span, link.to, way.clone()));
                    continue;
                }
                for output in self.row_outputs(link.to) {
                    let next = (link.to, output);
                    if !reached.contains_key(&next) {
                        let mut longer = way.clone();
                        longer.push(self.output_name(&next));
                        reached.insert(next.clone(), longer);
                        queue.push_back(next);
                    }
                }
            }
        }
        for (span, to, way) in found {
            let stage = self.expanded.key(to).stage_id().to_string();
            let d = Diagnostic::error(
                "evaluation-set",
                span,
                format!(
                    "stage `{stage}` must not see the evaluation set `{}`, but gets {}",
                    entry.key,
                    way.join(" → ")
                ),
            );
            let d =
                d.help("train on another split; only an input called `evaluation` may compare or measure against it");
            self.report(d.related(entry.key_span, "the set is declared here"));
        }
    }

    fn output_name(&self, (draft, port): &OutputKey) -> String {
        format!("`{}.{port}`", self.expanded.key(*draft).stage_id())
    }

    /// Returns the outputs that hold rows of the inputs.
    fn row_outputs(&self, draft: usize) -> Vec<String> {
        let rows = |kind: ArtifactKind| !matches!(kind, ArtifactKind::Model | ArtifactKind::Report);
        let raw = self.expanded.raw(draft);
        match &raw.body {
            crate::workflow::StageBody::Kind { name, .. } => {
                let outputs = self.expanded.catalogue.kind(name).map(|i| i.outputs.as_slice()).unwrap_or_default();
                outputs.iter().filter(|p| rows(p.kind)).map(|p| p.name.to_string()).collect()
            }
            _ => {
                let outputs = raw.run_ports.get().map(|r| &r.outputs);
                outputs.into_iter().flatten().filter(|(_, o)| rows(o.kind)).map(|(n, _)| n.clone()).collect()
            }
        }
    }
}
