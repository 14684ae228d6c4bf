//! Checks the input ports of a stage: each must receive artifacts of the correct kind and number.

use super::checker::{Checker, StageLink};
use crate::diagnostic::{Diagnostic, Span};
use crate::expand::{OutputTarget, OutputTargets, ReferenceScope};
use crate::options::unknown_option;
use crate::plan::{Edge, InputBinding, StageOutput};
use crate::read::{BoundContent, BoundEntry, BoundNode};
use trainyard_core::{ArtifactKind, Cardinality, KindInfo, PortInfo};

impl Checker<'_> {
    /// Reads the inputs of a stage with `uses`, in the kind's order.
    pub(super) fn kind_inputs(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        info: &KindInfo,
        with: &BoundNode,
    ) -> Option<Vec<InputBinding>> {
        let entries = entries(with);
        let mut bindings = Vec::new();
        let mut good = true;
        for port in info.inputs.iter().filter(|port| !port.is_family()) {
            match entries.iter().find(|e| e.key == port.name) {
                Some(entry) if !entry.value.is_null() => match self.bind_port(draft, view, port, &entry.value) {
                    Some(from) => bindings.push(InputBinding {
                        port: port.name.to_string(),
                        kind: port.kind,
                        cardinality: port.cardinality,
                        from,
                    }),
                    None => good = false,
                },
                given if port.cardinality == Cardinality::One => {
                    good = false;
                    let d = Diagnostic::error(
                        "missing-input",
                        given.map_or(with.span, |e| e.key_span),
                        format!("stage `{}` gets no `{}`", self.expanded.raw(draft).id, port.name),
                    );
                    self.report(d.help(format!(
                        "add `with: {{{}: \"${{{{ stages.<id>.<port> }}}}\"}}` with an artifact of kind {}",
                        port.name, port.kind
                    )));
                }
                _ => bindings.push(InputBinding {
                    port: port.name.to_string(),
                    kind: port.kind,
                    cardinality: port.cardinality,
                    from: Vec::new(),
                }),
            }
        }
        for entry in entries {
            let families = info.input_families(&entry.key);
            if families.is_empty() || entry.value.is_null() {
                continue;
            }
            match self.named_input(draft, view, &families, info, entry) {
                Some(binding) => bindings.push(binding),
                None => good = false,
            }
        }
        good.then_some(bindings)
    }

    /// Reads an input whose name the file gives: of one of the kinds that the stage takes by any name.
    fn named_input(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        families: &[&PortInfo],
        info: &KindInfo,
        entry: &BoundEntry,
    ) -> Option<InputBinding> {
        // A value that is no artifact is meant as an option.
        if matches!(view.all_targets(&entry.value), Err(error) if error.code == "not-an-artifact") {
            let options = info.options.get("properties").and_then(serde_json::Value::as_object);
            let names: Vec<String> = options.into_iter().flat_map(|options| options.keys().cloned()).collect();
            self.report(unknown_option(entry, info, &names));
            return None;
        }
        let targets = self.port_targets(draft, view, &entry.value)?;
        let kind = targets.items.first().map(|target| target.kind);
        let family = families.iter().find(|port| Some(port.kind) == kind).or(families.first())?;
        let mut good = true;
        for target in targets.items.iter().filter(|target| target.kind != family.kind) {
            good = false;
            let kinds: Vec<&str> = families.iter().map(|port| port.kind.name()).collect();
            let message = format!(
                "`{}` of stage `{}` takes artifacts of one kind ({}), but `{}.{}` is {}",
                entry.key,
                self.expanded.raw(draft).id,
                kinds.join(", "),
                self.expanded.raw(target.draft).id,
                target.port,
                target.kind
            );
            self.report(Diagnostic::error("port-kind", entry.value.span, message).help("use one input for each kind"));
        }
        if !good {
            return None;
        }
        for target in &targets.items {
            self.link_data(target, draft, &entry.key, entry.value.span);
        }
        let from = self.outputs_of(&targets);
        Some(InputBinding { port: entry.key.clone(), kind: family.kind, cardinality: Cardinality::Many, from })
    }

    fn bind_port(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        port: &PortInfo,
        bound: &BoundNode,
    ) -> Option<Vec<StageOutput>> {
        let targets = self.port_targets(draft, view, bound)?;
        let mut good = true;
        for target in &targets.items {
            if target.kind != port.kind {
                good = false;
                self.wrong_kind(draft, port, target, bound.span);
            }
        }
        if targets.list && port.cardinality != Cardinality::Many {
            good = false;
            let id = &self.expanded.raw(draft).id;
            let d = Diagnostic::error(
                "cardinality",
                bound.span,
                format!("`{}` of stage `{id}` takes one artifact, but gets {}", port.name, self.listed(&targets)),
            );
            self.report(d.help(
                "give both stages the same `matrix` to bind instance to instance, or collect the list in a stage that \
                 takes many",
            ));
        }
        if !good {
            return None;
        }
        for target in &targets.items {
            self.link_data(target, draft, port.name, bound.span);
        }
        Some(self.outputs_of(&targets))
    }

    /// Reads the inputs of a `run` stage: kind and number are those of the artifacts passed in.
    pub(super) fn run_inputs(
        &mut self,
        draft: usize,
        view: &ReferenceScope<'_>,
        with: &BoundNode,
    ) -> Option<Vec<InputBinding>> {
        let mut bindings = Vec::new();
        let mut good = true;
        for entry in entries(with) {
            if entry.value.is_null() {
                continue;
            }
            let Some(targets) = self.port_targets(draft, view, &entry.value) else {
                good = false;
                continue;
            };
            let kind = targets.items.first().map_or(ArtifactKind::Files, |t| t.kind);
            if let Some(other) = targets.items.iter().find(|t| t.kind != kind) {
                good = false;
                self.report(
                    Diagnostic::error(
                        "port-kind",
                        entry.value.span,
                        format!("`{}` mixes kinds: {kind} and {}", entry.key, other.kind),
                    )
                    .help("use one input for each kind"),
                );
            }
            for target in &targets.items {
                self.link_data(target, draft, &entry.key, entry.value.span);
            }
            let cardinality = if targets.list { Cardinality::Many } else { Cardinality::One };
            bindings.push(InputBinding { port: entry.key.clone(), kind, cardinality, from: self.outputs_of(&targets) });
        }
        good.then_some(bindings)
    }

    fn port_targets(&mut self, draft: usize, view: &ReferenceScope<'_>, bound: &BoundNode) -> Option<OutputTargets> {
        match view.all_targets(bound) {
            Ok(mut targets) => {
                targets.list &= !self.same_rows(draft, view, &targets);
                Some(targets)
            }
            Err(error) => {
                let error = if error.code == "not-an-artifact" && error.help.is_none() {
                    error.help(Some("write `${{ stages.<id>.<port> }}`".into()))
                } else {
                    error
                };
                self.report_unresolved(error, bound.span);
                None
            }
        }
    }

    /// Whether two late fan-outs are over the same rows; they bind instance to instance.
    fn same_rows(&self, draft: usize, view: &ReferenceScope<'_>, targets: &OutputTargets) -> bool {
        let ([target], Some(own)) = (targets.items.as_slice(), &self.expanded.drafts[draft].late) else { return false };
        let Some(other) = &self.expanded.drafts[target.draft].late else { return false };
        let there = ReferenceScope::of(self.expanded, &self.expanded.drafts[target.draft], None);
        match (view.all_targets(&own.rows), there.all_targets(&other.rows)) {
            (Ok(a), Ok(b)) => a.items == b.items,
            _ => false,
        }
    }

    fn outputs_of(&self, targets: &OutputTargets) -> Vec<StageOutput> {
        targets
            .items
            .iter()
            .map(|t| StageOutput { stage: self.expanded.key(t.draft).clone(), output: t.port.clone() })
            .collect()
    }

    fn listed(&self, targets: &OutputTargets) -> String {
        let keys: Vec<&str> = targets.items.iter().take(3).map(|t| self.expanded.key(t.draft).0.as_str()).collect();
        let more = if targets.items.len() > 3 { ", …" } else { "" };
        match targets.items.len() {
            1 => format!("the list of all instances of {}", keys.join(", ")),
            n => format!("a list of {n} ({}{more})", keys.join(", ")),
        }
    }

    fn wrong_kind(&mut self, draft: usize, port: &PortInfo, target: &OutputTarget, span: Span) {
        let producer = self.expanded.raw(target.draft);
        let fitting: Vec<String> = self
            .output_names(target.draft, port.kind)
            .iter()
            .map(|name| format!("`stages.{}.{name}`", producer.id))
            .collect();
        let d = Diagnostic::error(
            "port-kind",
            span,
            format!(
                "`{}` of stage `{}` takes {}, but `{}.{}` is {}",
                port.name,
                self.expanded.raw(draft).id,
                port.kind,
                producer.id,
                target.port,
                target.kind
            ),
        );
        self.report(match fitting.as_slice() {
            [] => d,
            names => d.help(format!("of kind {}: {}", port.kind, names.join(", "))),
        });
    }

    fn output_names(&self, draft: usize, kind: ArtifactKind) -> Vec<String> {
        let raw = self.expanded.raw(draft);
        match &raw.body {
            crate::workflow::StageBody::Kind { name, .. } => {
                let outputs = self.expanded.catalogue.kind(name).map(|i| i.outputs.as_slice()).unwrap_or_default();
                outputs.iter().filter(|p| p.kind == kind).map(|p| p.name.to_string()).collect()
            }
            _ => {
                let outputs = raw.run_ports.get().map(|r| &r.outputs);
                outputs.into_iter().flatten().filter(|(_, o)| o.kind == kind).map(|(n, _)| n.clone()).collect()
            }
        }
    }

    pub(super) fn link_data(&mut self, target: &OutputTarget, to: usize, port: &str, span: Span) {
        let ports = Some((target.port.clone(), port.to_string()));
        self.links.push(StageLink { from: target.draft, to, edge: Edge::Data, ports, span });
    }
}

pub(super) fn entries(bound: &BoundNode) -> &[BoundEntry] {
    match &bound.content {
        BoundContent::Map(entries) => entries,
        _ => &[],
    }
}
