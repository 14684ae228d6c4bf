//! Builds the node of one stage instance from its kind, inputs, config and envelope.

use super::checker::{Checker, ValidStage};
use super::settings::StageSettings;
use crate::diagnostic::Diagnostic;
use crate::expand::ReferenceScope;
use crate::plan::{FanOut, InputBinding, PlanNode, RunCondition, SourceRef, StageOutput};
use crate::read::{Binder, BoundContent, BoundEntry, BoundNode};
use crate::run_stage::{self, RunPorts};
use crate::template::Template;
use crate::tree;
use crate::vocabulary;
use crate::workflow::StageBody;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use trainyard_core::attempt::AttemptOutput;
use trainyard_core::{ArtifactKind, Cardinality, KindInfo, Placement, StageKey};

/// Properties of a stage that its kind fixes, or for `run` the file.
struct StageProperties {
    kind: String,
    version: u32,
    placement: Placement,
    all_cpus: bool,
    main_metric: Option<String>,
    outputs: BTreeMap<String, AttemptOutput>,
}

/// A config and its sources.
pub(super) type ConfigTemplate = (Template, BTreeMap<String, SourceRef>);

/// Source of a stage's ports and options.
enum KindSource<'e> {
    /// A kind of the catalogue.
    Known(&'e KindInfo),
    /// Ports declared in the file.
    Run(&'e RunPorts),
}

impl<'e> KindSource<'e> {
    fn info(&self) -> Option<&'e KindInfo> {
        match self {
            Self::Known(info) => Some(info),
            Self::Run(_) => None,
        }
    }
    fn ports(&self) -> Option<&'e RunPorts> {
        match self {
            Self::Known(_) => None,
            Self::Run(ports) => Some(ports),
        }
    }
}

/// Work of a stage: its inputs, config and secrets.
struct StageWork {
    properties: StageProperties,
    inputs: Vec<InputBinding>,
    config: ConfigTemplate,
    /// Secrets that the options name.
    secrets: Vec<String>,
}

/// Fan-out, condition, lead and envelope of a stage.
struct StageControls {
    fan_out: Option<FanOut>,
    when: RunCondition,
    beside: Option<StageKey>,
    envelope: StageSettings,
}

impl<'e> Checker<'e> {
    /// Builds the node of a draft; `None` if any part is invalid. All parts are checked, even if one is invalid.
    pub(super) fn stage(&mut self, draft: usize) -> Option<PlanNode> {
        let Some(kind) = self.kind_of(draft) else {
            self.unknown_kind(draft);
            return None;
        };
        let before = self.diagnostics.len();
        let work = self.build_work(draft, &kind);
        let terms = self.build_controls(draft, &kind);
        self.forget_requests(draft, kind.info());
        if self.diagnostics[before..].iter().any(Diagnostic::is_error) {
            return None;
        }
        Some(self.assemble(draft, work?, terms?))
    }

    fn kind_of(&mut self, draft: usize) -> Option<KindSource<'e>> {
        let expanded = self.expanded;
        let raw = expanded.raw(draft);
        match &raw.body {
            StageBody::Kind { name, span } => {
                let info = expanded.catalogue.kind(name);
                if info.is_none() {
                    let help = vocabulary::kind(name, &expanded.catalogue.names());
                    self.report(
                        Diagnostic::error("unknown-kind", *span, format!("there is no stage kind `{name}`"))
                            .help_if(help),
                    );
                }
                info.map(KindSource::Known)
            }
            StageBody::Run => raw.run_ports.get().map(KindSource::Run),
            StageBody::Embed { .. } => None,
        }
    }

    /// Reports the mistakes of a stage whose kind is unknown: those of its envelope, and those of its options if it is
    /// clear which kind is meant.
    fn unknown_kind(&mut self, draft: usize) {
        let expanded = self.expanded;
        let StageBody::Kind { name, .. } = &expanded.raw(draft).body else { return };
        let meant = vocabulary::meant_kind(name, &expanded.catalogue.names());
        let info = meant.and_then(|kind| expanded.catalogue.kind(kind));
        if let Some(info) = info {
            let links = self.links.len();
            self.build_work(draft, &KindSource::Known(info));
            self.valid.remove(&draft);
            self.links.truncate(links);
        }
        let view = ReferenceScope::of(expanded, &expanded.drafts[draft], None);
        self.controls(draft, &view, true);
        self.forget_requests(draft, info);
    }

    /// Removes the requests of a stage that runs inside the engine.
    fn forget_requests(&mut self, draft: usize, info: Option<&KindInfo>) {
        if info.is_some_and(|info| info.placement == Placement::InProcess) {
            self.requests.remove(&draft);
        }
    }

    fn build_work(&mut self, draft: usize, kind: &KindSource<'e>) -> Option<StageWork> {
        let expanded = self.expanded;
        let with = self.with(draft);
        let view = ReferenceScope::of(expanded, &expanded.drafts[draft], kind.ports());
        let secrets = with.as_ref().and_then(|with| self.secrets_of_options(with));
        let (inputs, config, nature) = match kind {
            KindSource::Known(info) => {
                let inputs = with.as_ref().and_then(|w| self.kind_inputs(draft, &view, info, w));
                let config = with.as_ref().and_then(|w| self.kind_config(draft, info, w));
                let settled = self.validated.remove(&draft);
                if let (Some(with), Some(inputs), Some(settled), Some(_)) = (with, &inputs, settled, &config) {
                    self.valid.insert(draft, Rc::new(ValidStage { validated: settled, inputs: inputs.clone(), with }));
                }
                let properties = StageProperties::of(info, inputs.as_deref().unwrap_or_default());
                (inputs, config, properties)
            }
            KindSource::Run(ports) => {
                let inputs = with.as_ref().and_then(|w| self.run_inputs(draft, &view, w));
                (inputs, self.run_config(draft, &view), StageProperties::run(ports))
            }
        };
        Some(StageWork { properties: nature, inputs: inputs?, config: config?, secrets: secrets? })
    }

    fn build_controls(&mut self, draft: usize, kind: &KindSource<'e>) -> Option<StageControls> {
        let expanded = self.expanded;
        let view = ReferenceScope::of(expanded, &expanded.drafts[draft], kind.ports());
        self.controls(draft, &view, kind.info().is_some())
    }

    /// Reads fan-out, condition, lead and envelope. `known`: the stage has a kind, not a command.
    fn controls(&mut self, draft: usize, view: &ReferenceScope<'_>, known: bool) -> Option<StageControls> {
        let expanded = self.expanded;
        let fan_out = expanded.drafts[draft].late.as_ref().map(|late| self.fan_out(draft, view, late));
        let when = self.when(draft);
        let needs_good = self.needs(draft);
        let beside = self.beside(draft, view);
        let envelope = self.build_settings(draft, view, known);
        if matches!(when, Some(RunCondition::Never(_))) {
            self.requests.remove(&draft);
        }
        let fan_out = match fan_out {
            Some(found) => Some(found?),
            None => None,
        };
        needs_good.then_some(StageControls { fan_out, when: when?, beside: beside?, envelope: envelope? })
    }

    fn assemble(&self, draft: usize, work: StageWork, terms: StageControls) -> PlanNode {
        let StageWork { properties: nature, inputs, config: (config, sources), secrets } = work;
        let StageControls { fan_out, when, beside, envelope } = terms;
        let secrets: BTreeSet<String> = envelope.secrets.into_iter().chain(secrets).collect();
        PlanNode {
            key: self.expanded.key(draft).clone(),
            kind: nature.kind,
            kind_version: nature.version,
            placement: nature.placement,
            all_cpus: nature.all_cpus,
            main_metric: nature.main_metric,
            config,
            sources,
            inputs,
            outputs: nature.outputs,
            after: Vec::new(),
            when,
            fan_out,
            checks: envelope.checks,
            retry: envelope.retry,
            timeout: envelope.timeout,
            resources: envelope.resources,
            wait: envelope.wait,
            beside,
            cache: envelope.cache,
            env: envelope.env,
            secrets: secrets.into_iter().collect(),
            description: envelope.description,
            place: self.expanded.sources.place(self.expanded.raw(draft).id_span),
        }
    }

    /// Binds `with`; returns an empty map if it is absent.
    fn with(&mut self, draft: usize) -> Option<BoundNode> {
        let expanded = self.expanded;
        let raw = expanded.raw(draft);
        let Some(entry) = raw.entry("with") else {
            return Some(BoundNode { span: raw.id_span, content: BoundContent::Map(Vec::new()) });
        };
        let tree::YamlContent::Map(entries) = &entry.value.content else {
            self.report(Diagnostic::error(
                "wrong-type",
                entry.value.span,
                format!("`with` must be a map, found {}", entry.value.describe()),
            ));
            return None;
        };
        let view = ReferenceScope::of(expanded, &expanded.drafts[draft], None);
        let mut good = Vec::new();
        let mut broken = Vec::new();
        for e in entries {
            let value =
                Binder { sources: &expanded.sources, names: &view, text: false, diagnostics: &mut self.diagnostics }
                    .bind(&e.value);
            match value {
                Some(value) => good.push(BoundEntry { key: e.key.clone(), key_span: e.key_span, value }),
                None => broken.push(e.key.as_str()),
            }
        }
        let bound = BoundNode { span: entry.key_span, content: BoundContent::Map(good) };
        // The valid entries are still checked, but no node is made.
        if !broken.is_empty() {
            self.validate_rest(draft, &bound, &broken);
            return None;
        }
        Some(bound)
    }

    /// Reports mistakes of the entries whose expressions are valid. Entries that are `broken` do not count as missing.
    fn validate_rest(&mut self, draft: usize, with: &BoundNode, broken: &[&str]) {
        let expanded = self.expanded;
        let StageBody::Kind { name, .. } = &expanded.raw(draft).body else { return };
        let Some(info) = expanded.catalogue.kind(name) else { return };
        let view = ReferenceScope::of(expanded, &expanded.drafts[draft], None);
        let before = self.diagnostics.len();
        let links = self.links.len();
        self.kind_inputs(draft, &view, info, with);
        self.links.truncate(links);
        self.kind_config(draft, info, with);
        let found = self.diagnostics.split_off(before);
        let is_broken_port = |d: &Diagnostic| broken.iter().any(|key| d.message.ends_with(&format!("gets no `{key}`")));
        self.diagnostics.extend(found.into_iter().filter(|d| match d.code {
            "missing-option" => false,
            "missing-input" => !is_broken_port(d),
            _ => true,
        }));
    }

    fn fan_out(&mut self, draft: usize, view: &ReferenceScope<'_>, late: &crate::expand::LateList) -> Option<FanOut> {
        let targets = match view.all_targets(&late.rows) {
            Ok(targets) => targets,
            Err(error) => {
                self.report_unresolved(error, late.rows.span);
                return None;
            }
        };
        let [target] = targets.items.as_slice() else {
            self.report(Diagnostic::error(
                "cardinality",
                late.rows.span,
                "`for_each` takes the rows of one artifact, but this is several",
            ));
            return None;
        };
        if targets.list
            || !matches!(target.kind, ArtifactKind::Problems | ArtifactKind::Trajectories | ArtifactKind::Table)
        {
            let d = Diagnostic::error(
                "port-kind",
                late.rows.span,
                format!("`for_each` takes the rows of a table, but this is of kind {}", target.kind),
            );
            self.report(d);
            return None;
        }
        self.link_data(target, draft, "for_each", late.rows.span);
        Some(FanOut {
            rows_of: StageOutput { stage: self.expanded.key(target.draft).clone(), output: target.port.clone() },
            cap: late.cap,
        })
    }

    fn run_config(&mut self, draft: usize, view: &ReferenceScope<'_>) -> Option<ConfigTemplate> {
        let expanded = self.expanded;
        let raw = expanded.raw(draft);
        let mut binder =
            Binder { sources: &expanded.sources, names: view, text: true, diagnostics: &mut self.diagnostics };
        let mut config = run_stage::command(raw, &mut binder)?;
        if let Some(node) = raw.get("run") {
            let references: Vec<_> = config.values().flat_map(Template::references).cloned().collect();
            self.link_late(draft, &references.iter().collect::<Vec<_>>(), node.span);
        }
        let env = self.env_of_paths(draft, view)?;
        if !env.is_empty() {
            let mut all = match config.remove("env") {
                Some(Template::Map(entries)) => entries,
                Some(Template::Literal(serde_json::Value::Object(map))) => {
                    map.into_iter().map(|(k, v)| (k, Template::Literal(v))).collect()
                }
                _ => BTreeMap::new(),
            };
            all.extend(env);
            config.insert("env".into(), Template::Map(all));
        }
        let (files, sources) = self.run_files(draft, view)?;
        self.scripts(draft, &files);
        if !files.is_empty() {
            config.insert("files".into(), Template::Literal(files.into()));
        }
        let config = Template::Map(config);
        Some((config.as_literal().map_or(config, Template::Literal), sources))
    }
}

impl StageProperties {
    fn of(info: &KindInfo, inputs: &[InputBinding]) -> Self {
        let output = |p: &trainyard_core::PortInfo| {
            (p.name.to_string(), AttemptOutput { kind: p.kind, optional: p.cardinality == Cardinality::Optional })
        };
        let is_wired = |port: &str| inputs.iter().any(|input| input.port == port && !input.from.is_empty());
        Self {
            kind: info.name.to_string(),
            version: info.version,
            placement: info.placement,
            all_cpus: info.all_cpus,
            main_metric: info.main_metric_of(is_wired).map(str::to_string),
            outputs: info.outputs.iter().filter(|port| !port.is_family()).map(output).collect(),
        }
    }
    fn run(ports: &RunPorts) -> Self {
        Self {
            kind: run_stage::KIND.to_string(),
            version: run_stage::VERSION,
            placement: Placement::Process,
            all_cpus: false,
            main_metric: None,
            outputs: ports.outputs.clone(),
        }
    }
}
