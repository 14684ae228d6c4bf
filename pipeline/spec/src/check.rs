//! From drafts to nodes: binds every reference, validates every option, and looks at the graph as a whole.
//!
//! Each pass appends to one list of diagnostics and leaves out what it could not read, so one call reports all
//! mistakes. Whatever depends on something broken stays silent: no mistake is reported twice.

mod bounds;
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
mod scripts;
mod stage;
mod wiring;

pub use graph::Order;
pub(crate) use metrics::judge;

use crate::diagnostic::{Diagnostic, Span};
use crate::expand::Expanded;
use crate::expression::Reference;
use crate::options::KindOptions;
use crate::plan::{Edge, InputBinding, Node};
use crate::read::Bound;
use crate::schedule::Schedule;
use crate::site::Site;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use trainyard_core::{Digest, Error, KindInfo, Settled, StageKey};

/// One reason why one instance comes after another.
#[derive(Debug, Clone)]
pub struct Link {
    /// Index of the draft that comes first.
    pub from: usize,
    /// Index of the draft that waits for it.
    pub to: usize,
    /// Whether an artifact flows.
    pub edge: Edge,
    /// Output and input port of a data edge.
    pub ports: Option<(String, String)>,
    /// Where the file says so.
    pub span: Span,
}

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
    let order = checker.order();
    checker.wiring(order.as_ref());
    checker.metrics(&nodes, order.as_ref());
    checker.evaluation_sets();
    checker.placement(&nodes);
    checker.repetition(&nodes);
    let outputs = checker.outputs();
    let schedule = checker.schedule();
    Checked { nodes, links: checker.links, order, outputs, schedule, diagnostics: checker.diagnostics }
}

pub(crate) struct Checker<'e> {
    expanded: &'e Expanded<'e>,
    site: &'e Site,
    diagnostics: Vec<Diagnostic>,
    links: Vec<Link>,
    options: HashMap<String, Rc<KindOptions>>,
    digests: HashMap<String, Result<Digest, Error>>,
    /// Metrics that checks and expressions name.
    uses: Vec<metrics::Use>,
    /// Options as written, by draft.
    withs: HashMap<usize, Rc<Bound>>,
    /// Key → draft.
    index: HashMap<&'e str, usize>,
    /// By draft: options that are known and good in themselves.
    settled: HashMap<usize, Box<dyn Settled + 'e>>,
    /// By draft: the inputs of the stages whose options and inputs are whole.
    wired: HashMap<usize, Vec<InputBinding>>,
}

impl<'e> Checker<'e> {
    fn new(expanded: &'e Expanded<'e>, site: &'e Site) -> Self {
        let index = expanded.drafts.iter().enumerate().map(|(i, d)| (d.key.0.as_str(), i)).collect();
        Self {
            expanded,
            site,
            diagnostics: Vec::new(),
            links: Vec::new(),
            options: HashMap::new(),
            digests: HashMap::new(),
            uses: Vec::new(),
            withs: HashMap::new(),
            index,
            settled: HashMap::new(),
            wired: HashMap::new(),
        }
    }

    fn report(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }

    fn options(&mut self, info: &KindInfo) -> Rc<KindOptions> {
        if let Some(known) = self.options.get(info.name) {
            return known.clone();
        }
        let options = Rc::new(KindOptions::new(info));
        self.options.insert(info.name.to_string(), options.clone());
        options
    }

    /// Links from the stages whose metrics or status these references read.
    fn link_late(&mut self, draft: usize, references: &[&Reference], span: Span) {
        for reference in references {
            if let Reference::Metric { stage, .. } | Reference::Status { stage } = reference
                && let Some(from) = self.index.get(stage.as_str())
            {
                let from = *from;
                self.links.push(Link { from, to: draft, edge: Edge::Order, ports: None, span });
                if let Reference::Metric { name, of, .. } = reference {
                    let metric = name.clone();
                    self.uses.push(metrics::Use { draft: from, metric, of: *of, metric_span: span, of_span: span });
                }
            }
        }
    }
}
