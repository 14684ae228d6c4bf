//! Holds the state that the passes share: the file under check, the diagnostics so far, and data that one pass leaves
//! for another.

use crate::diagnostic::{Diagnostic, Span};
use crate::expand::ExpandedWorkflow;
use crate::expression::ExprReference;
use crate::options::KindOptions;
use crate::plan::{Edge, InputBinding, ResourceRequest, SourceRef};
use crate::read::{BoundNode, ResolveError};
use crate::site::Site;
use std::collections::HashMap;
use std::rc::Rc;
use trainyard_core::{ComparisonField, Error, KindInfo, ValidatedOptions};

/// A reason for one instance to run after another.
#[derive(Debug, Clone)]
pub struct StageLink {
    /// Index of the draft that comes first.
    pub from: usize,
    /// Index of the draft that waits for it.
    pub to: usize,
    /// Whether an artifact is passed along.
    pub edge: Edge,
    /// Output and input port of a data edge.
    pub ports: Option<(String, String)>,
    /// Position in the file that causes the link.
    pub span: Span,
}

/// A metric that a check or an expression names.
pub(super) struct MetricUse {
    /// Stage that must report it.
    pub draft: usize,
    pub metric: String,
    pub of: Option<ComparisonField>,
    pub metric_span: Span,
    pub of_span: Span,
}

/// A stage whose options and inputs are known and valid; other parts of the stage may still be invalid.
pub(super) struct ValidStage<'e> {
    pub validated: Box<dyn ValidatedOptions + 'e>,
    pub inputs: Vec<InputBinding>,
    /// Options as written, for positions in diagnostics.
    pub with: BoundNode,
}

/// State of one check. Each pass is an `impl` of this type in a separate file.
pub(super) struct Checker<'e> {
    pub expanded: &'e ExpandedWorkflow<'e>,
    pub site: &'e Site,
    pub diagnostics: Vec<Diagnostic>,
    pub links: Vec<StageLink>,
    /// Outputs that files export: draft, port and position.
    pub exports: Vec<(usize, String, Span)>,
    /// Content of the sources that were looked up, by location and whether it is to be a model.
    pub looked_up: HashMap<(String, bool), Result<SourceRef, Error>>,
    /// Metrics that checks and expressions name.
    pub uses: Vec<MetricUse>,
    /// Key → draft.
    pub index: HashMap<&'e str, usize>,
    /// By draft.
    pub valid: HashMap<usize, Rc<ValidStage<'e>>>,
    /// By draft: settled options, until they are moved to `valid`.
    pub validated: HashMap<usize, Box<dyn ValidatedOptions + 'e>>,
    /// By draft: requests for resources, also of stages with other mistakes.
    pub requests: HashMap<usize, Vec<ResourceRequest>>,
    /// By name of the kind.
    options: HashMap<String, Rc<KindOptions>>,
}

impl<'e> Checker<'e> {
    pub fn new(expanded: &'e ExpandedWorkflow<'e>, site: &'e Site) -> Self {
        let index = expanded.drafts.iter().enumerate().map(|(i, d)| (d.key.0.as_str(), i)).collect();
        Self {
            expanded,
            site,
            diagnostics: Vec::new(),
            links: Vec::new(),
            exports: Vec::new(),
            looked_up: HashMap::new(),
            uses: Vec::new(),
            index,
            valid: HashMap::new(),
            validated: HashMap::new(),
            requests: HashMap::new(),
            options: HashMap::new(),
        }
    }

    pub fn report(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }

    /// Reports an error at a position, unless its cause is reported elsewhere.
    pub fn report_unresolved(&mut self, error: ResolveError, span: Span) {
        if !error.code.is_empty() {
            self.report(Diagnostic::error(error.code, span, error.message).help_if(error.help));
        }
    }

    pub fn options(&mut self, info: &KindInfo) -> Rc<KindOptions> {
        if let Some(known) = self.options.get(info.name) {
            return known.clone();
        }
        let options = Rc::new(KindOptions::new(info));
        self.options.insert(info.name.to_string(), options.clone());
        options
    }

    /// Links from the stages whose metrics or status these references read.
    pub fn link_late(&mut self, draft: usize, references: &[&ExprReference], span: Span) {
        for reference in references {
            if let ExprReference::Metric { stage, .. } | ExprReference::Status { stage } = reference
                && let Some(from) = self.index.get(stage.as_str())
            {
                let from = *from;
                self.links.push(StageLink { from, to: draft, edge: Edge::Order, ports: None, span });
                if let ExprReference::Metric { name, of, .. } = reference {
                    let metric = name.clone();
                    self.uses.push(MetricUse { draft: from, metric, of: *of, metric_span: span, of_span: span });
                }
            }
        }
    }
}
