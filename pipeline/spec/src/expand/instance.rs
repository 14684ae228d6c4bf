//! Holds the results of expansion: workflow instances (a file with values for its parameters), stages with their
//! instances, and drafts (one stage instance each).

use super::axes::{Axis, Coordinate};
use super::params::{Param, ParamValue};
use crate::read::BoundNode;
use crate::workflow::Workflow;
use std::collections::BTreeMap;
use std::rc::Rc;
use trainyard_core::StageKey;

/// One stage instance before its references are bound.
#[derive(Debug)]
pub struct Draft {
    /// Name with the prefixes of embedding stages, and all axes.
    pub key: StageKey,
    /// Index into [`super::ExpandedWorkflow::workflow_instances`].
    pub workflow: usize,
    /// Index into the stages of the workflow.
    pub stage: usize,
    /// Position on the stage's own axes.
    pub coordinates: Vec<Coordinate>,
    /// Source of a list that is only known during the run.
    pub late: Option<LateList>,
}

/// A list for `for_each` that comes from an artifact.
#[derive(Debug, Clone)]
pub struct LateList {
    /// The reference to the artifact.
    pub rows: BoundNode,
    /// Maximum number of rows; with more the stage fails.
    pub cap: u32,
}

/// One workflow file with values for its parameters: the main file, or one embedding instance.
#[derive(Debug)]
pub struct WorkflowInstance {
    /// The file; instances that embed the same file share it.
    pub workflow: Rc<Workflow>,
    /// `parent/`, or empty for the main file.
    pub prefix: String,
    /// Axes of the embedding stages, outermost first.
    pub inherited: Vec<Coordinate>,
    /// Values by the parameters' names, after defaults.
    pub params: BTreeMap<String, ParamValue>,
    /// Readable declarations, in file order.
    pub declared: Vec<Param>,
    /// Parameters that are declared but have no usable value (reported); references to them are not reported again.
    pub broken: Vec<String>,
    /// One group per stage of the workflow.
    pub stages: Vec<StageInstances>,
    /// `None` for the main file.
    pub parent: Option<EmbeddingStage>,
}

/// The stage instance that embeds a workflow.
#[derive(Debug, Clone)]
pub struct EmbeddingStage {
    /// Index into [`super::ExpandedWorkflow::workflow_instances`] of the embedding file.
    pub workflow: usize,
    /// Index into the stages of the embedding workflow.
    pub stage: usize,
    /// Position of the instance on that stage's own axes.
    pub coordinates: Vec<Coordinate>,
}

/// All instances of one stage of a workflow instance.
#[derive(Debug)]
pub struct StageInstances {
    /// In file order; empty for a stage that is not repeated.
    pub axes: Vec<Axis>,
    /// Equal for equal axes; see [`super::axes::identity`].
    pub identity: Rc<str>,
    /// In matrix order, the last axis fastest.
    pub instances: Vec<StageInstance>,
    /// Whether the only instance is expanded to many during the run.
    pub late: bool,
    /// Whether the stage's body could not be read (reported).
    pub broken: bool,
}

impl StageInstances {
    pub(super) fn broken() -> Self {
        Self { axes: Vec::new(), identity: "".into(), instances: Vec::new(), late: false, broken: true }
    }
}

/// One instance of a stage, by its position on the stage's axes.
#[derive(Debug)]
pub struct StageInstance {
    /// One coordinate per axis of the group.
    pub coordinates: Vec<Coordinate>,
    /// Draft or workflow instance made by expansion.
    pub body: InstanceBody,
}

/// An instance, by index: a draft, or a workflow instance if the stage embeds a file.
#[derive(Debug, Clone, Copy)]
pub enum InstanceBody {
    /// Index into [`super::ExpandedWorkflow::drafts`].
    Draft(usize),
    /// Index into [`super::ExpandedWorkflow::workflow_instances`].
    Workflow(usize),
}
