//! Expands raw files to stage instances: parameters, `matrix`, `for_each` and embedded workflows become a flat list of
//! [`Draft`]s.
//!
//! A stage may refer to a later one in the file, so all instances exist before any reference is bound (`references`).
//! Each embedding instance is a separate [`WorkflowInstance`]: its stages are named `parent/child` and inherit the
//! parent's axes.

pub mod axes;
mod embed;
mod instance;
pub mod overrides;
pub mod params;
mod references;

pub use instance::{Draft, EmbeddingStage, InstanceBody, LateList, StageInstance, StageInstances, WorkflowInstance};
pub use references::{OutputTarget, OutputTargets, ReferenceScope};

use crate::diagnostic::{Diagnostic, Sources, Span, suggest};
use crate::extends::{Loader, TextIndex};
use crate::files::{FileSystem, absolute};
use crate::read::{Binder, BoundNode, NoReferences, ValueReader};
use crate::run_stage;
use crate::tree::YamlNode;
use crate::workflow::{self, RawStage, StageBody, Workflow};
use axes::{Coordinate, FanOutSource, MAX_INSTANCES};
use overrides::Overrides;
use params::{GivenParam, Param, ParamValue};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use trainyard_core::{StageKey, StageKinds};

pub struct ExpandedWorkflow<'a> {
    /// Reader of embedded files.
    pub files: &'a dyn FileSystem,
    /// The stage kinds that `uses` may name.
    pub catalogue: &'a dyn StageKinds,
    /// All texts read so far.
    pub sources: Sources,
    /// Workflow instances, the main file first; empty if the main file could not be read.
    pub workflow_instances: Vec<WorkflowInstance>,
    /// In file order, then matrix order.
    pub drafts: Vec<Draft>,
    /// Diagnostics of reading and expanding, in discovery order.
    pub diagnostics: Vec<Diagnostic>,
    /// Folder that displayed file names are relative to.
    working_directory: PathBuf,
    texts: TextIndex,
    workflows: HashMap<PathBuf, Option<Rc<Workflow>>>,
    /// Whether there are too many stage instances, which one diagnostic says.
    is_too_large: bool,
}

/// Values for the parameters of the main file.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkflowArguments<'a> {
    /// Arguments of `-p`, in order.
    pub params: &'a [String],
    /// Value of the param `tick`, if the file declares one and `params` does not set it.
    pub tick: Option<&'a str>,
}

/// Parameter that receives the time of a schedule's tick.
const TICK: &str = "tick";

/// Reads and expands the file at `path` (absolute) and everything it embeds.
pub fn expand<'a>(
    files: &'a dyn FileSystem,
    catalogue: &'a dyn StageKinds,
    path: &Path,
    working_directory: &Path,
    arguments: WorkflowArguments<'_>,
) -> ExpandedWorkflow<'a> {
    let mut expanded = ExpandedWorkflow {
        files,
        catalogue,
        sources: Sources::default(),
        workflow_instances: Vec::new(),
        drafts: Vec::new(),
        diagnostics: Vec::new(),
        working_directory: working_directory.to_path_buf(),
        texts: TextIndex::new(),
        workflows: HashMap::new(),
        is_too_large: false,
    };
    let Some(workflow) = expanded.load(path, None) else { return expanded };
    let mut given =
        Overrides::read(arguments.params, working_directory, files, &mut expanded.sources, &mut expanded.diagnostics);
    if let Some(tick) = arguments.tick.filter(|_| workflow.params.iter().any(|entry| entry.key == TICK)) {
        given.set_if_missing(TICK, tick, &mut expanded.sources);
    }
    expanded.unknown_overrides(&workflow, &given);
    let params = expanded.params(&workflow, &|name| given.given(name));
    expanded.open(workflow, String::new(), Vec::new(), params, None, &mut vec![path.to_path_buf()]);
    expanded
}

/// Params of a file.
#[derive(Default)]
struct Params {
    values: BTreeMap<String, ParamValue>,
    /// Names of params without a usable value.
    broken: Vec<String>,
    declared: Vec<Param>,
}

impl ExpandedWorkflow<'_> {
    /// Reads a file and its parents, once per path. `from` is the span that names the file. `None` if the file cannot
    /// be read (reported).
    fn load(&mut self, path: &Path, from: Option<Span>) -> Option<Rc<Workflow>> {
        if let Some(known) = self.workflows.get(path) {
            return known.clone();
        }
        let mut loader = Loader {
            files: self.files,
            sources: &mut self.sources,
            diagnostics: &mut self.diagnostics,
            working_directory: &self.working_directory,
            texts: &mut self.texts,
        };
        let tree = loader.merged(path, from);
        let read = tree.and_then(|tree| workflow::read(tree, path, &mut self.diagnostics)).map(Rc::new);
        self.workflows.insert(path.to_path_buf(), read.clone());
        read
    }

    fn unknown_overrides(&mut self, workflow: &Workflow, given: &Overrides) {
        for (name, span) in given.names() {
            if !workflow.params.iter().any(|e| e.key == name) {
                let d = Diagnostic::error("unknown-param", span, format!("the workflow has no param `{name}`"));
                let help = suggest(name, workflow.params.iter().map(|e| e.key.as_str()));
                self.diagnostics.push(d.help_if(help.or_else(|| Some("the workflow declares no params".into()))));
            }
        }
    }

    /// Computes the values of a file's parameters; `given` looks up the caller's.
    fn params<'g>(&mut self, workflow: &Workflow, given: &dyn Fn(&str) -> Option<GivenParam<'g>>) -> Params {
        let mut read = Params::default();
        for entry in &workflow.params {
            workflow::check_id(&entry.key, entry.key_span, "param", &mut self.diagnostics);
            let names = NoReferences("params are declared by plain values");
            let bound =
                Binder { sources: &self.sources, names: &names, text: false, diagnostics: &mut self.diagnostics }
                    .bind(&entry.value);
            let mut reader = ValueReader { diagnostics: &mut self.diagnostics };
            let param: Option<Param> =
                bound.and_then(|b| params::declare(&entry.key, entry.key_span, &b, &self.sources, &mut reader));
            let value =
                param.as_ref().and_then(|p| params::value(p, given(&p.name).as_ref(), &self.sources, &mut reader));
            match value {
                Some(value) => {
                    read.values.insert(entry.key.clone(), value);
                }
                None => read.broken.push(entry.key.clone()),
            }
            read.declared.extend(param);
        }
        read
    }

    /// Adds a workflow instance with all its stage instances, and returns its index.
    fn open(
        &mut self,
        workflow: Rc<Workflow>,
        prefix: String,
        inherited: Vec<Coordinate>,
        params: Params,
        parent: Option<EmbeddingStage>,
        chain: &mut Vec<PathBuf>,
    ) -> usize {
        let space = self.workflow_instances.len();
        self.workflow_instances.push(WorkflowInstance {
            workflow: workflow.clone(),
            prefix,
            inherited,
            params: params.values,
            broken: params.broken,
            declared: params.declared,
            stages: Vec::new(),
            parent,
        });
        for (index, stage) in workflow.stages.iter().enumerate() {
            let group = self.group(space, index, stage, chain);
            self.workflow_instances[space].stages.push(group);
        }
        space
    }

    fn group(&mut self, space: usize, index: usize, stage: &RawStage, chain: &mut Vec<PathBuf>) -> StageInstances {
        let Some(fan) = self.fan(space, stage) else { return StageInstances::broken() };
        if stage.body == StageBody::Run {
            let (with, outputs) = (stage.get("with"), stage.get("outputs"));
            stage.run_ports.get_or_init(|| run_stage::ports(with, outputs, &self.sources, &mut self.diagnostics));
        }
        match fan {
            FanOutSource::Known(axes) => {
                let instances = axes::product(&axes);
                if self.drafts.len() + instances.len() > MAX_INSTANCES {
                    if !std::mem::replace(&mut self.is_too_large, true) {
                        self.diagnostics.push(Diagnostic::error(
                            "too-many",
                            stage.id_span,
                            format!("the workflow has more than {MAX_INSTANCES} stage instances"),
                        ));
                    }
                    return StageInstances::broken();
                }
                let members: Vec<Option<StageInstance>> =
                    instances.into_iter().map(|c| self.member(space, index, stage, c, chain)).collect();
                let broken = members.iter().any(Option::is_none);
                StageInstances {
                    identity: axes::identity(&axes).into(),
                    axes,
                    instances: members.into_iter().flatten().collect(),
                    late: false,
                    broken,
                }
            }
            FanOutSource::Late { rows, cap } => {
                if let StageBody::Embed { span, .. } = &stage.body {
                    let d = Diagnostic::error(
                        "late-list",
                        *span,
                        "an embedded workflow cannot be repeated over a list that is not known before the run",
                    );
                    self.diagnostics.push(d.help("put `for_each` on a stage inside it"));
                    return StageInstances::broken();
                }
                let draft = self.draft(space, index, stage, Vec::new(), Some(LateList { rows, cap }));
                let member = StageInstance { coordinates: Vec::new(), body: InstanceBody::Draft(draft) };
                StageInstances { instances: vec![member], late: true, broken: false, ..StageInstances::broken() }
            }
        }
    }

    fn fan(&mut self, space: usize, stage: &RawStage) -> Option<FanOutSource> {
        match (stage.entry("matrix"), stage.entry("for_each")) {
            (None, None) => Some(FanOutSource::Known(Vec::new())),
            (Some(matrix), Some(for_each)) => {
                let d = Diagnostic::error(
                    "matrix-and-for-each",
                    for_each.key_span,
                    format!("stage `{}` has both `matrix` and `for_each`", stage.id),
                );
                self.diagnostics.push(
                    d.help("put the list into the matrix as one more axis")
                        .related(matrix.key_span, "`matrix` is set here"),
                );
                None
            }
            (Some(entry), None) => {
                let bound = self.bind_early(space, &[], &entry.value)?;
                axes::read_matrix(&bound, &mut ValueReader { diagnostics: &mut self.diagnostics })
                    .map(FanOutSource::Known)
            }
            (None, Some(entry)) => {
                let bound = self.bind_early(space, &[], &entry.value)?;
                axes::read_for_each(&bound, &mut ValueReader { diagnostics: &mut self.diagnostics })
            }
        }
    }

    fn member(
        &mut self,
        space: usize,
        index: usize,
        stage: &RawStage,
        coordinates: Vec<Coordinate>,
        chain: &mut Vec<PathBuf>,
    ) -> Option<StageInstance> {
        let body = match &stage.body {
            StageBody::Embed { path, span } => {
                let path = absolute(self.sources.folder(*span), path);
                InstanceBody::Workflow(self.embed(space, index, stage, &coordinates, &path, *span, chain)?)
            }
            _ => InstanceBody::Draft(self.draft(space, index, stage, coordinates.clone(), None)),
        };
        Some(StageInstance { coordinates, body })
    }

    fn draft(
        &mut self,
        space: usize,
        stage: usize,
        raw: &RawStage,
        coordinates: Vec<Coordinate>,
        late: Option<LateList>,
    ) -> usize {
        let home = &self.workflow_instances[space];
        let suffix = axes::suffix(home.inherited.iter().chain(&coordinates));
        let key = StageKey(format!("{}{}{suffix}", home.prefix, raw.id));
        self.drafts.push(Draft { key, workflow: space, stage, coordinates, late });
        self.drafts.len() - 1
    }

    /// Binds values that must be known while instances are made: references to artifacts stay, metrics and status are
    /// errors.
    fn bind_early(&mut self, space: usize, coordinates: &[Coordinate], node: &YamlNode) -> Option<BoundNode> {
        let mut found = Vec::new();
        let view = ReferenceScope {
            expanded: self,
            workflow: space,
            stage: None,
            coordinates,
            late_item: false,
            run: None,
            early: true,
        };
        let bound = Binder { sources: &self.sources, names: &view, text: false, diagnostics: &mut found }.bind(node);
        self.diagnostics.extend(found);
        bound
    }
}
