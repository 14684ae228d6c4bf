//! From drafts to nodes: binds every reference, validates every option, and looks at the graph as a whole.
//!
//! Each pass appends to one list of diagnostics and leaves out what it could not read, so one call reports all
//! mistakes. Whatever depends on something broken stays silent: no mistake is reported twice.

mod beside;
mod bounds;
mod checker;
mod condition;
mod config;
mod envelope;
mod evaluation;
mod graph;
mod inputs;
mod metrics;
mod outputs;
mod placement;
mod repetition;
mod reported;
mod scripts;
mod stage;
mod wiring;

pub use checker::Link;
pub use graph::Order;
pub(crate) use reported::judge;

use crate::diagnostic::Diagnostic;
use crate::expand::Expanded;
use crate::plan::Node;
use crate::schedule::Schedule;
use crate::site::Site;
use checker::Checker;
use std::collections::BTreeMap;
use trainyard_core::StageKey;

/// Everything that the checks found out.
pub struct Checked {
    /// By draft; `None` where something is wrong.
    pub nodes: Vec<Option<Node>>,
    /// All reasons for an order, in the order of finding.
    pub links: Vec<Link>,
    /// None if there is a cycle (reported).
    pub order: Option<Order>,
    /// What the workflow exports: name → (stage, output).
    pub outputs: BTreeMap<String, (StageKey, String)>,
    /// When the workflow starts by itself, if the file says so.
    pub schedule: Option<Schedule>,
    /// What the checks found, not yet sorted.
    pub diagnostics: Vec<Diagnostic>,
}

/// Runs all passes.
pub fn check(expanded: &Expanded<'_>, site: &Site) -> Checked {
    let mut checker = Checker::new(expanded, site);
    let nodes: Vec<Option<Node>> = (0..expanded.drafts.len()).map(|draft| checker.stage(draft)).collect();
    checker.groups(&nodes);
    let order = checker.order();
    checker.wiring(order.as_ref(), &nodes);
    checker.metrics(order.as_ref());
    checker.evaluation_sets();
    checker.placement(&nodes);
    checker.repetition(&nodes);
    let outputs = checker.outputs();
    let schedule = checker.schedule();
    Checked { nodes, links: checker.links, order, outputs, schedule, diagnostics: checker.diagnostics }
}
