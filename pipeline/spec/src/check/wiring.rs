//! Checks options against the artifacts wired to the ports: their number, and the facts that their producers declare.
//!
//! Stages are visited in topological order, so that a producer's facts (its environment) reach all stages after it.

use super::checker::Checker;
use super::graph::StageOrder;
use crate::plan::{PlanNode, ResourceRequest, StageOutput};
use std::collections::{BTreeMap, HashMap};
use trainyard_core::{Facts, Placement, WiredInputs};

impl Checker<'_> {
    /// Reports contradictions between configs and inputs. A stage with an input list that is not known before the run
    /// is left out: it checks again at run time. Without an order (the graph has a cycle) no facts about artifacts are
    /// known.
    pub(super) fn check_wiring(&mut self, order: Option<&StageOrder>, nodes: &[Option<PlanNode>]) {
        let mut known: HashMap<usize, BTreeMap<String, Facts>> = HashMap::new();
        let drafts = order.map_or_else(|| (0..self.expanded.drafts.len()).collect(), |order| order.drafts.clone());
        for draft in drafts {
            let Some(stage) = self.valid.get(&draft).cloned() else { continue };
            if stage.inputs.iter().flat_map(|input| &input.from).any(|of| self.is_late(of)) {
                continue;
            }
            let mut wired = WiredInputs::default();
            for input in &stage.inputs {
                let facts = |of: &StageOutput| {
                    let producer = known.get(self.index.get(of.stage.0.as_str())?)?;
                    producer.get(&of.output).cloned()
                };
                wired.wire(&input.port, input.from.iter().map(|of| facts(of).unwrap_or_default()).collect());
                wired.set_kind(&input.port, input.kind);
            }
            let wired = wired.with_memory(nodes[draft].as_ref().and_then(|node| self.memory_of(node)));
            known.insert(draft, stage.validated.facts(&wired));
            self.wrong_options(stage.validated.validate_inputs(&wired), &stage.with);
            self.unusual_options(stage.validated.warnings(&wired), &stage.with);
        }
    }

    /// Returns the bytes of memory that a stage may use: its request, or else the largest amount of a machine that fits
    /// it. `None` if that is unknown.
    fn memory_of(&self, node: &PlanNode) -> Option<u64> {
        if node.placement == Placement::InProcess {
            return None;
        }
        let memory_of_request = |request: &ResourceRequest| match request.memory {
            0 => {
                let fits = self.site.pools.iter().filter(|pool| pool.misfit(request).is_empty());
                let all: Option<Vec<u64>> = fits.map(|pool| Some(pool.memory).filter(|bytes| *bytes > 0)).collect();
                all?.into_iter().max()
            }
            bytes => Some(bytes),
        };
        node.resources.iter().map(memory_of_request).collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    fn is_late(&self, of: &StageOutput) -> bool {
        self.index.get(of.stage.0.as_str()).is_some_and(|draft| self.expanded.drafts[*draft].late.is_some())
    }
}
