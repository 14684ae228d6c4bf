//! Compiles the workflow file at a path to a plan in four steps: read, expand, check, order.
//!
//! ```text
//! text ─yaml→ tree ─workflow→ raw file ─expand→ drafts ─check→ nodes ─order→ Plan
//! ```

use crate::check::{self, CheckedStages};
use crate::declaration::ParamDeclaration;
use crate::diagnostic::{Diagnostic, Sources, sort_and_dedup};
use crate::expand::{ExpandedWorkflow, WorkflowArguments, expand, params::ParamValue};
use crate::files::{FileSystem, absolute};
use crate::identity;
use crate::plan::Plan;
use crate::recipe::{RecipeHeader, is_pooled};
use crate::site::Site;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::{StageKey, StageKinds};

/// Inputs of a compilation.
pub struct CompileRequest<'a> {
    /// Reader of the workflow file, its parents, embedded files, and digests of sources.
    pub files: &'a dyn FileSystem,
    /// The workflow file; relative to the working directory.
    pub path: &'a Path,
    /// Absolute path.
    pub working_directory: &'a Path,
    /// Arguments of `-p`, in order: `name=value` or `@file`.
    pub params: &'a [String],
    /// Time of the tick that the workflow runs for: the value of its param `tick`, if it declares one and `params` does
    /// not set it.
    pub tick: Option<&'a str>,
    /// The stage kinds that `uses` may name.
    pub catalogue: &'a dyn StageKinds,
    /// Pools and secrets that requests are checked against.
    pub site: &'a Site,
}

/// Result of a compilation: a plan if there is no error, and all diagnostics with the texts that they point into.
pub struct Compilation {
    /// Present only if no diagnostic is an error.
    pub plan: Option<Plan>,
    /// Recipe of the file, even if other parts of the file are invalid.
    pub recipe: Option<RecipeHeader>,
    /// Name of the workflow, even if other parts of the file are invalid; `None` if the file is no workflow.
    pub workflow: Option<String>,
    /// Readable declarations of the file's params, in file order.
    pub params: Vec<ParamDeclaration>,
    /// Errors, warnings and notes, in file order, without repetitions.
    pub diagnostics: Vec<Diagnostic>,
    /// All texts that were read; spans of the diagnostics index into them.
    pub sources: Sources,
}

impl Compilation {
    /// Returns the number of errors.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.is_error()).count()
    }
}

/// Compiles a workflow file. All errors are reported as diagnostics.
pub fn compile(request: &CompileRequest<'_>) -> Compilation {
    let path = absolute(request.working_directory, &request.path.to_string_lossy());
    let arguments = WorkflowArguments { params: request.params, tick: request.tick };
    let mut expanded = expand(request.files, request.catalogue, &path, request.working_directory, arguments);
    let mut diagnostics = std::mem::take(&mut expanded.diagnostics);
    let checked = check::check(&expanded, request.site);
    diagnostics.extend(checked.diagnostics.iter().cloned());
    let good = !diagnostics.iter().any(Diagnostic::is_error) && !expanded.workflow_instances.is_empty();
    sort_and_dedup(&mut diagnostics);
    let plan = if good { assemble(&expanded, checked, &path) } else { None };
    let main = expanded.workflow_instances.first();
    let recipe = main.and_then(|main| main.workflow.recipe.clone());
    let workflow = main.map(|main| main.workflow.name.clone());
    let params = main.map_or_else(Vec::new, |main| main.declared.iter().map(ParamDeclaration::of).collect());
    Compilation { plan, recipe, workflow, params, diagnostics, sources: expanded.sources }
}

fn assemble(expanded: &ExpandedWorkflow<'_>, checked: CheckedStages, path: &Path) -> Option<Plan> {
    let order = checked.order?;
    let mut after: Vec<BTreeSet<&StageKey>> = vec![BTreeSet::new(); expanded.drafts.len()];
    for link in &checked.links {
        after[link.to].insert(expanded.key(link.from));
    }
    let mut by_draft = checked.nodes;
    let mut nodes = Vec::with_capacity(by_draft.len());
    for draft in &order.drafts {
        let mut node = by_draft[*draft].take()?;
        node.after = after[*draft].iter().map(|key| (*key).clone()).collect();
        nodes.push(node);
    }
    let main = &expanded.workflow_instances[0];
    if main.workflow.recipe.as_ref().is_some_and(|recipe| recipe.result.is_some()) {
        let checks = nodes.iter_mut().flat_map(|node| &mut node.checks);
        checks.for_each(|check| check.pooled = check.role.as_deref().is_some_and(is_pooled));
    }
    let params: BTreeMap<String, Value> = main
        .params
        .iter()
        .filter_map(
            |(name, value)| if let ParamValue::Known(v) = value { Some((name.clone(), v.clone())) } else { None },
        )
        .collect();
    let digest = identity::digest(&main.workflow.name, &params, &nodes, &checked.outputs)?;
    Some(Plan {
        workflow: main.workflow.name.clone(),
        source: path.to_path_buf(),
        recipe: main.workflow.recipe.clone(),
        params,
        nodes,
        graph: order.graph,
        outputs: checked.outputs,
        schedule: checked.schedule,
        digest,
    })
}

/// Returns the indices of the nodes `until` and of all nodes that they depend on, sorted; for `--until`.
pub fn ancestors(plan: &Plan, until: &[usize]) -> Vec<usize> {
    let mut found: BTreeSet<usize> = until.iter().copied().collect();
    let mut stack = until.to_vec();
    while let Some(at) = stack.pop() {
        for from in plan.graph.neighbors_directed(petgraph::graph::NodeIndex::new(at), petgraph::Direction::Incoming) {
            if found.insert(from.index()) {
                stack.push(from.index());
            }
        }
    }
    found.into_iter().collect()
}
