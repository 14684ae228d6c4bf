//! Resolves references at a position: values of params and axes, artifacts of stage instances, late metrics and status.
//!
//! A reference to a stage with the same axes (names and values) binds instance to instance. Any other reference to a
//! fan-out is the list of all its instances in matrix order.

use super::axes::{self, Coordinate};
use super::params::ParamValue;
use super::{Draft, ExpandedWorkflow, InstanceBody, StageInstance, StageInstances, WorkflowInstance};
use crate::diagnostic::suggest;
use crate::expression::{ExprReference, Expression, Term};
use crate::read::{Binder, BoundContent, BoundNode, ReferenceResolver, ResolveError};
use crate::reported::judge;
use crate::run_stage::RunPorts;
use crate::workflow::{RawStage, StageBody};
use trainyard_core::{ArtifactKind, ComparisonField, StageKey};

/// One output of one draft.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTarget {
    /// Index into [`ExpandedWorkflow::drafts`].
    pub draft: usize,
    /// Name of the output port.
    pub port: String,
    /// Kind of the port's artifact.
    pub kind: ArtifactKind,
}

/// Artifacts that a reference resolves to.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputTargets {
    /// One for each instance, in matrix order.
    pub items: Vec<OutputTarget>,
    /// Whether it is a list (several instances, or a late fan-out), which only `many` ports accept.
    pub list: bool,
}

/// Names that are in scope for one instance.
pub struct ReferenceScope<'v> {
    /// All instances that can be referred to.
    pub expanded: &'v ExpandedWorkflow<'v>,
    /// Index into [`ExpandedWorkflow::workflow_instances`] of the file whose names are in scope.
    pub workflow: usize,
    /// Stage whose axes the coordinates are on.
    pub stage: Option<usize>,
    /// Position of the instance on the stage's own axes.
    pub coordinates: &'v [Coordinate],
    /// Whether `item` is a row that is not known yet.
    pub late_item: bool,
    /// Ports of a `run` stage, for local paths.
    pub run: Option<&'v RunPorts>,
    /// Whether instances are still being created, so that no stage can be looked up.
    pub early: bool,
}

impl ReferenceResolver for ReferenceScope<'_> {
    fn resolve(&self, reference: &ExprReference) -> Result<Option<Term>, ResolveError> {
        match reference {
            ExprReference::Param(name) => self.param(name),
            ExprReference::Matrix(axis) => self.matrix(axis).map(Some),
            ExprReference::Item => self.item(),
            ExprReference::Input(port) => {
                self.local(port, "inputs", |r| r.inputs.iter().map(|(n, _)| n.as_str()).collect())
            }
            ExprReference::Output(port) => {
                self.local(port, "outputs", |r| r.outputs.keys().map(String::as_str).collect())
            }
            ExprReference::Artifact { .. } => Ok(None),
            ExprReference::Metric { .. } | ExprReference::Status { .. } if self.early => {
                let error =
                    ResolveError::new("not-known", format!("`{reference}` is known only after the stage has run"));
                Err(error.help(Some(
                    "values that decide the shape of the workflow must be known before the run: use `params` or \
                     `matrix`"
                        .into(),
                )))
            }
            ExprReference::Metric { stage, name, of } => {
                let term = self.late(stage, |key| ExprReference::Metric { stage: key, name: name.clone(), of: *of })?;
                self.reported(stage, name, *of).map(|()| Some(term))
            }
            ExprReference::Status { stage } => self.late(stage, |key| ExprReference::Status { stage: key }).map(Some),
        }
    }
    fn is_late_list(&self, stage: &str) -> bool {
        let home = self.workflow_instance();
        let id = stage.strip_prefix(home.prefix.as_str()).unwrap_or(stage).split('[').next().unwrap_or("");
        home.workflow.stage(id).and_then(|i| home.stages.get(i)).is_some_and(|g| g.late)
    }
}

impl<'v> ReferenceScope<'v> {
    /// Creates the scope of a draft, once all instances exist.
    pub fn of(expanded: &'v ExpandedWorkflow<'v>, draft: &'v Draft, run: Option<&'v RunPorts>) -> Self {
        Self {
            expanded,
            workflow: draft.workflow,
            stage: Some(draft.stage),
            coordinates: &draft.coordinates,
            late_item: draft.late.is_some(),
            run,
            early: false,
        }
    }
    /// Creates a scope outside of drafts: for an embedding stage or a file's top level.
    pub fn at(
        expanded: &'v ExpandedWorkflow<'v>,
        space: usize,
        stage: Option<usize>,
        coordinates: &'v [Coordinate],
    ) -> Self {
        Self { expanded, workflow: space, stage, coordinates, late_item: false, run: None, early: false }
    }
    fn workflow_instance(&self) -> &'v WorkflowInstance {
        &self.expanded.workflow_instances[self.workflow]
    }

    fn param(&self, name: &str) -> Result<Option<Term>, ResolveError> {
        match self.workflow_instance().params.get(name) {
            Some(ParamValue::Known(value)) => Ok(Some(Term::Literal(value.clone()))),
            Some(ParamValue::Artifacts { .. }) => Ok(None),
            // The mistake is reported already; null would cause a second report.
            None if self.workflow_instance().broken.iter().any(|b| b == name) => {
                Err(ResolveError::new(ALREADY_REPORTED, ""))
            }
            None => {
                let names = self.workflow_instance().workflow.params.iter().map(|e| e.key.as_str());
                Err(ResolveError::new("unknown-param", format!("there is no param `{name}`"))
                    .help(suggest(name, names).or_else(|| Some("declare it under `params:`".into()))))
            }
        }
    }

    fn matrix(&self, axis: &str) -> Result<Term, ResolveError> {
        let own = || self.coordinates.iter().filter(|c| c.axis != "item");
        own().find(|c| c.axis == axis).map(|c| Term::Literal(c.value.clone())).ok_or_else(|| {
            let help =
                suggest(axis, own().map(|c| c.axis.as_str())).unwrap_or_else(|| "this stage has no `matrix`".into());
            ResolveError::new("unknown-axis", format!("there is no matrix axis `{axis}`")).help(Some(help))
        })
    }

    fn item(&self) -> Result<Option<Term>, ResolveError> {
        if self.late_item {
            return Ok(None);
        }
        let found = self.coordinates.iter().find(|c| c.axis == "item").map(|c| Term::Literal(c.value.clone()));
        found
            .map(Some)
            .ok_or_else(|| ResolveError::new("unknown-axis", "`item` has a value only in a stage with `for_each`"))
    }

    fn local(
        &self,
        port: &str,
        root: &str,
        names: impl Fn(&RunPorts) -> Vec<&str>,
    ) -> Result<Option<Term>, ResolveError> {
        let Some(run) = self.run else {
            let help = "a stage with `uses` gets artifacts by `${{ stages.<id>.<port> }}` under `with`".to_string();
            return Err(ResolveError::new(
                "not-a-run",
                format!("`{root}` can be used only in `run`, and in the `env` of a stage with `run`"),
            )
            .help(Some(help)));
        };
        let names = names(run);
        if names.contains(&port) {
            return Ok(None);
        }
        let place = if root == "inputs" { "name it under `with`" } else { "declare it under `outputs`" };
        let help = suggest(port, names.iter().copied()).unwrap_or_else(|| place.to_string());
        Err(ResolveError::new("unknown-port", format!("this stage has no `{root}.{port}`")).help(Some(help)))
    }

    /// Checks that the stage's kind may report a metric under any options. The metrics of a `run` stage are not known,
    /// so any name is accepted.
    fn reported(&self, stage: &str, name: &str, of: Option<ComparisonField>) -> Result<(), ResolveError> {
        let raw =
            self.workflow_instance().workflow.stage(stage).map(|i| &self.workflow_instance().workflow.stages[i].body);
        let Some(info) = raw
            .and_then(|b| if let StageBody::Kind { name, .. } = b { self.expanded.catalogue.kind(name) } else { None })
        else {
            return Ok(());
        };
        judge(&info.metrics, &format!("stage `{stage}`"), name, of).map_err(|(error, _)| error)
    }

    /// Resolves a metric or status: of one instance, or the list over all.
    fn late(&self, stage: &str, reference: impl Fn(String) -> ExprReference) -> Result<Term, ResolveError> {
        let group = self.group(stage)?;
        let leaf = |draft: usize| Term::Reference(reference(self.expanded.drafts[draft].key.0.clone()));
        let members = self.instances(group);
        let drafts: Option<Vec<usize>> =
            members.iter().map(|m| if let InstanceBody::Draft(d) = m.body { Some(d) } else { None }).collect();
        let Some(drafts) = drafts else {
            let help =
                "an embedded workflow exports only artifacts, by its `outputs`; put the condition inside the file"
                    .to_string();
            return Err(ResolveError::new(
                "unknown-metric",
                format!("`{stage}` is an embedded workflow: it has no metrics and no status"),
            )
            .help(Some(help)));
        };
        match drafts.as_slice() {
            [one] if group.axes.is_empty() || self.same_axes(group) => Ok(leaf(*one)),
            many => Ok(Term::List(many.iter().map(|d| Expression { kind: leaf(*d), range: 0..0 }).collect())),
        }
    }

    /// Finds a stage of this file by its id.
    pub fn group(&self, id: &str) -> Result<&'v StageInstances, ResolveError> {
        let home = self.workflow_instance();
        if home.workflow.unreadable.iter().any(|broken| broken == id) {
            return Err(ResolveError::new(ALREADY_REPORTED, ""));
        }
        let Some(index) = home.workflow.stage(id) else {
            return Err(ResolveError::new("unknown-stage", format!("there is no stage `{id}`"))
                .help(suggest(id, home.workflow.stage_ids())));
        };
        match home.stages.get(index) {
            Some(group) if !group.broken => Ok(group),
            _ => Err(ResolveError::new(ALREADY_REPORTED, "")),
        }
    }

    /// Returns the instances that a reference from this scope resolves to.
    pub fn instances(&self, group: &'v StageInstances) -> &'v [StageInstance] {
        if self.same_axes(group) {
            let at = axes::position(&group.axes, self.coordinates).unwrap_or(0);
            return group.instances.get(at..=at).unwrap_or(&[]);
        }
        &group.instances
    }

    /// Whether this instance has the axes of that group: the same names with the same values.
    fn same_axes(&self, group: &StageInstances) -> bool {
        let own = self.stage.and_then(|s| self.workflow_instance().stages.get(s));
        !group.axes.is_empty() && own.is_some_and(|own| own.identity == group.identity)
    }

    /// Resolves an expression under a port (or a param of artifact kind). `None` if it is not an artifact reference.
    pub fn targets(&self, bound: &BoundNode) -> Option<Result<OutputTargets, ResolveError>> {
        match &bound.content {
            BoundContent::Expression(Expression {
                kind: Term::Reference(r @ (ExprReference::Artifact { .. } | ExprReference::Param(_))),
                ..
            }) => Some(self.artifact(r)),
            _ => None,
        }
    }

    fn artifact(&self, reference: &ExprReference) -> Result<OutputTargets, ResolveError> {
        match reference {
            ExprReference::Artifact { stage, port } => {
                let group = self.group(stage)?;
                let members = self.instances(group);
                let list = group.late || (!group.axes.is_empty() && !self.same_axes(group));
                let mut targets = OutputTargets { items: Vec::new(), list };
                for member in members {
                    match member.body {
                        InstanceBody::Draft(draft) => targets.items.push(self.expanded.output(draft, port)?),
                        InstanceBody::Workflow(space) => {
                            let exported = self.expanded.exported(space, stage, port)?;
                            targets.list |= exported.list;
                            targets.items.extend(exported.items);
                        }
                    }
                }
                Ok(targets)
            }
            ExprReference::Param(name) => {
                match (self.workflow_instance().params.get(name), &self.workflow_instance().parent) {
                    (Some(ParamValue::Artifacts { bound, .. }), Some(parent)) => {
                        let outer =
                            ReferenceScope::at(self.expanded, parent.workflow, Some(parent.stage), &parent.coordinates);
                        outer.all_targets(bound)
                    }
                    _ => Err(ResolveError::new("not-an-artifact", format!("`params.{name}` is not an artifact"))),
                }
            }
            other => Err(ResolveError::new("not-an-artifact", format!("`{other}` is not an artifact"))),
        }
    }

    /// Resolves one reference, or a list of them.
    pub fn all_targets(&self, bound: &BoundNode) -> Result<OutputTargets, ResolveError> {
        if let BoundContent::List(items) = &bound.content {
            let mut targets = OutputTargets { items: Vec::new(), list: true };
            for item in items {
                targets.items.extend(self.all_targets(item)?.items);
            }
            return Ok(targets);
        }
        self.targets(bound).unwrap_or_else(|| {
            Err(ResolveError::new(
                "not-an-artifact",
                format!("an artifact is expected here, found {}", bound.describe()),
            ))
        })
    }
}

/// Code of an error whose cause is reported elsewhere.
pub const ALREADY_REPORTED: &str = "";

impl ExpandedWorkflow<'_> {
    /// Returns the stage as written in the file, by the index of one of its instances.
    pub fn raw(&self, draft: usize) -> &RawStage {
        let d = &self.drafts[draft];
        &self.workflow_instances[d.workflow].workflow.stages[d.stage]
    }
    /// Returns the key of the instance with this index.
    pub fn key(&self, draft: usize) -> &StageKey {
        &self.drafts[draft].key
    }

    /// Finds an output port of a draft.
    fn output(&self, draft: usize, port: &str) -> Result<OutputTarget, ResolveError> {
        let raw = self.raw(draft);
        let unknown = |names: Vec<&str>, description: String| {
            let help = suggest(port, names).unwrap_or_else(|| "it has no outputs".into());
            ResolveError::new("unknown-port", format!("stage `{}` ({description}) has no output `{port}`", raw.id))
                .help(Some(help))
        };
        let kind = match &raw.body {
            StageBody::Run => {
                let ports = raw.run_ports.get().ok_or_else(|| ResolveError::new(ALREADY_REPORTED, ""))?;
                let found = ports.outputs.get(port).map(|o| o.kind);
                found.ok_or_else(|| unknown(ports.outputs.keys().map(String::as_str).collect(), "run".into()))?
            }
            StageBody::Kind { name, .. } => {
                let info = self.catalogue.kind(name).ok_or_else(|| ResolveError::new(ALREADY_REPORTED, ""))?;
                let found = info.output(port).map(|p| p.kind);
                found.ok_or_else(|| unknown(info.outputs.iter().map(|p| p.name).collect(), name.clone()))?
            }
            StageBody::Embed { .. } => return Err(ResolveError::new(ALREADY_REPORTED, "")),
        };
        Ok(OutputTarget { draft, port: port.to_string(), kind })
    }

    /// Resolves an output that an embedded workflow exports.
    fn exported(&self, space: usize, stage: &str, name: &str) -> Result<OutputTargets, ResolveError> {
        let home = &self.workflow_instances[space];
        let Some(entry) = home.workflow.outputs.iter().find(|e| e.key == name) else {
            let names = home.workflow.outputs.iter().map(|e| e.key.as_str());
            let help = suggest(name, names).or_else(|| {
                Some(format!("add `{name}` to the top-level `outputs:` of {}", home.workflow.path.display()))
            });
            return Err(ResolveError::new("unknown-port", format!("`{stage}` exports no `{name}`")).help(help));
        };
        let view = ReferenceScope::at(self, space, None, &[]);
        // Mistakes in the embedded file's `outputs` are reported at their own position.
        let mut ignored = Vec::new();
        let bound =
            Binder { sources: &self.sources, names: &view, text: false, diagnostics: &mut ignored }.bind(&entry.value);
        match bound.map(|b| view.all_targets(&b)) {
            Some(Ok(targets)) => Ok(targets),
            _ => Err(ResolveError::new(ALREADY_REPORTED, "")),
        }
    }

    /// Returns the indices of all drafts of these instances, including those of embedded workflows.
    pub fn drafts_of(&self, members: &[StageInstance]) -> Vec<usize> {
        let mut found = Vec::new();
        for member in members {
            match member.body {
                InstanceBody::Draft(d) => found.push(d),
                InstanceBody::Workflow(space) => {
                    for group in &self.workflow_instances[space].stages {
                        found.extend(self.drafts_of(&group.instances));
                    }
                }
            }
        }
        found
    }
}
