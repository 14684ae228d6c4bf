//! State shared by the passes: the file under check, the diagnostics so far, and data that one pass leaves for another.

use crate::diagnostic::{Diagnostic, Span};
use crate::expand::Expanded;
use crate::expression::Reference;
use crate::options::KindOptions;
use crate::plan::{Edge, InputBinding, Source};
use crate::read::{Bound, Trouble};
use crate::site::Site;
use std::collections::HashMap;
use std::rc::Rc;
use trainyard_core::{Error, KindInfo, Of, Settled};

/// A reason for one instance to run after another.
#[derive(Debug, Clone)]
pub struct Link {
    /// Index of the draft that comes first.
    pub from: usize,
    /// Index of the draft that waits for it.
    pub to: usize,
    /// Whether an artifact is passed along.
    pub edge: Edge,
    /// Output and input port of a data edge.
    pub ports: Option<(String, String)>,
    /// Place in the file that causes the link.
    pub span: Span,
}

/// A metric that a check or an expression names.
pub(super) struct Use {
    /// Stage that must report it.
    pub draft: usize,
    pub metric: String,
    pub of: Option<Of>,
    pub metric_span: Span,
    pub of_span: Span,
}

/// A stage whose options and inputs are known and valid; other parts of it may still be wrong.
pub(super) struct Whole<'e> {
    pub settled: Box<dyn Settled + 'e>,
    pub inputs: Vec<InputBinding>,
    /// Options as written, for places in diagnostics.
    pub with: Bound,
}

/// State of one check. Each pass is an `impl` of this type in a separate file.
pub(super) struct Checker<'e> {
    pub expanded: &'e Expanded<'e>,
    pub site: &'e Site,
    pub diagnostics: Vec<Diagnostic>,
    pub links: Vec<Link>,
    /// Content of the sources that were looked up, by location.
    pub looked_up: HashMap<String, Result<Source, Error>>,
    /// Metrics that checks and expressions name.
    pub uses: Vec<Use>,
    /// Key → draft.
    pub index: HashMap<&'e str, usize>,
    /// By draft.
    pub whole: HashMap<usize, Rc<Whole<'e>>>,
    /// By draft: settled options, until they are moved to `whole`.
    pub settled: HashMap<usize, Box<dyn Settled + 'e>>,
    /// By name of the kind.
    options: HashMap<String, Rc<KindOptions>>,
}

impl<'e> Checker<'e> {
    pub fn new(expanded: &'e Expanded<'e>, site: &'e Site) -> Self {
        let index = expanded.drafts.iter().enumerate().map(|(i, d)| (d.key.0.as_str(), i)).collect();
        Self {
            expanded,
            site,
            diagnostics: Vec::new(),
            links: Vec::new(),
            looked_up: HashMap::new(),
            uses: Vec::new(),
            index,
            whole: HashMap::new(),
            settled: HashMap::new(),
            options: HashMap::new(),
        }
    }

    pub fn report(&mut self, d: Diagnostic) {
        self.diagnostics.push(d);
    }

    /// Reports a trouble at a place, unless its cause is reported elsewhere.
    pub fn trouble(&mut self, trouble: Trouble, span: Span) {
        if !trouble.code.is_empty() {
            self.report(Diagnostic::error(trouble.code, span, trouble.message).help_if(trouble.help));
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
    pub fn link_late(&mut self, draft: usize, references: &[&Reference], span: Span) {
        for reference in references {
            if let Reference::Metric { stage, .. } | Reference::Status { stage } = reference
                && let Some(from) = self.index.get(stage.as_str())
            {
                let from = *from;
                self.links.push(Link { from, to: draft, edge: Edge::Order, ports: None, span });
                if let Reference::Metric { name, of, .. } = reference {
                    let metric = name.clone();
                    self.uses.push(Use { draft: from, metric, of: *of, metric_span: span, of_span: span });
                }
            }
        }
    }
}
