//! Turns drafts into nodes: binds every reference, validates every option and checks the graph as a whole.
//!
//! Each pass appends to one list of diagnostics and leaves out the parts that it could not read, so one call reports
//! all mistakes. Parts that depend on a broken part are not reported, so no mistake is reported twice.

mod beside;
mod bounds;
mod checker;
mod condition;
mod config;
mod evaluation;
mod families;
mod filled;
mod graph;
mod inputs;
mod metrics;
mod outputs;
mod placement;
mod repetition;
mod scripts;
mod settings;
mod stage;
mod wiring;

pub use checker::StageLink;
pub use graph::StageOrder;

use crate::diagnostic::Diagnostic;
use crate::expand::ExpandedWorkflow;
use crate::plan::PlanNode;
use crate::schedule::Schedule;
use crate::site::Site;
use checker::Checker;
use std::collections::BTreeMap;
use trainyard_core::StageKey;

/// Result of all checks.
pub struct CheckedStages {
    /// One entry per draft; `None` if the draft has an error.
    pub nodes: Vec<Option<PlanNode>>,
    /// All reasons for an order, in discovery order.
    pub links: Vec<StageLink>,
    /// `None` if there is a cycle (reported).
    pub order: Option<StageOrder>,
    /// Exports of the workflow: name → (stage, output).
    pub outputs: BTreeMap<String, (StageKey, String)>,
    /// Schedule of the workflow, if the file has one.
    pub schedule: Option<Schedule>,
    /// Diagnostics of the checks, unsorted.
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs all passes.
pub fn check(expanded: &ExpandedWorkflow<'_>, site: &Site) -> CheckedStages {
    let mut checker = Checker::new(expanded, site);
    let mut nodes: Vec<Option<PlanNode>> = (0..expanded.drafts.len()).map(|draft| checker.stage(draft)).collect();
    checker.groups(&nodes);
    let order = checker.order();
    checker.check_wiring(order.as_ref(), &nodes);
    checker.metrics(order.as_ref());
    checker.evaluation_sets();
    checker.placement(&nodes);
    checker.repetition(&nodes);
    let outputs = checker.outputs();
    checker.output_families(&mut nodes);
    let schedule = checker.schedule();
    CheckedStages { nodes, links: checker.links, order, outputs, schedule, diagnostics: checker.diagnostics }
}
