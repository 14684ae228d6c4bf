//! What expansion makes: spaces (a file with values), groups (a stage with its instances), drafts (one instance).

use super::axes::{Axis, Coordinate};
use super::params::ParamValue;
use crate::read::Bound;
use crate::workflow::Workflow;
use std::collections::BTreeMap;
use std::rc::Rc;
use trainyard_core::StageKey;

/// One stage instance before its references are bound.
#[derive(Debug)]
pub struct Draft {
    pub key: StageKey,
    pub space: usize,
    /// Index into the stages of the space's workflow.
    pub stage: usize,
    /// The stage's own axes.
    pub coordinates: Vec<Coordinate>,
    /// Where a list comes from that is only known during the run.
    pub late: Option<LateList>,
}

/// A list for `for_each` that comes from an artifact: its reference, and the most rows it may have.
#[derive(Debug, Clone)]
pub struct LateList {
    pub rows: Bound,
    pub cap: u32,
}

/// One workflow file with values for its parameters: the main file, or one embedding instance.
#[derive(Debug)]
pub struct Space {
    pub workflow: Rc<Workflow>,
    /// `parent/` or nothing.
    pub prefix: String,
    /// Axes of the embedding stages, outermost first.
    pub inherited: Vec<Coordinate>,
    pub params: BTreeMap<String, ParamValue>,
    /// Declared, but without a usable value (reported): references to them are not reported again.
    pub broken: Vec<String>,
    /// As many as the workflow has stages.
    pub groups: Vec<Group>,
    pub parent: Option<Parent>,
}

/// The stage instance that embeds a space.
#[derive(Debug, Clone)]
pub struct Parent {
    pub space: usize,
    pub stage: usize,
    pub coordinates: Vec<Coordinate>,
}

/// All instances of one stage of a space.
#[derive(Debug)]
pub struct Group {
    pub axes: Vec<Axis>,
    /// Equal where the axes are: see [`super::axes::identity`].
    pub identity: Rc<str>,
    pub members: Vec<Member>,
    /// One member that becomes many during the run.
    pub late: bool,
    /// Its body could not be read (reported).
    pub broken: bool,
}

impl Group {
    pub(super) fn broken() -> Self {
        Self { axes: Vec::new(), identity: "".into(), members: Vec::new(), late: false, broken: true }
    }
}

/// One instance of a stage, by its place on the stage's axes.
#[derive(Debug)]
pub struct Member {
    pub coordinates: Vec<Coordinate>,
    pub body: MemberBody,
}

/// What an instance is: a draft, or a space if the stage embeds a file; by index.
#[derive(Debug, Clone, Copy)]
pub enum MemberBody {
    Draft(usize),
    Space(usize),
}
