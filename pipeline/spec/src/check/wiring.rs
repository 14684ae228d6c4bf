//! Options against what is wired to the ports: the number of artifacts, and what their producers know about them.
//!
//! Stages are taken in topological order, so that what a producer knows (its environment) reaches everything behind it.

use super::checker::Checker;
use super::graph::Order;
use crate::plan::OutputOf;
use std::collections::{BTreeMap, HashMap};
use trainyard_core::{Facts, Wired};

impl Checker<'_> {
    /// Reports what contradicts between configs and inputs. A stage with an input list that is not known before the run
    /// is left out: it looks again itself. Without an order (the graph has a cycle) nothing is known about any
    /// artifact.
    pub(super) fn wiring(&mut self, order: Option<&Order>) {
        let mut known: HashMap<usize, BTreeMap<String, Facts>> = HashMap::new();
        let drafts = order.map_or_else(|| (0..self.expanded.drafts.len()).collect(), |order| order.drafts.clone());
        for draft in drafts {
            let Some(stage) = self.whole.get(&draft).cloned() else { continue };
            if stage.inputs.iter().flat_map(|input| &input.from).any(|of| self.is_late(of)) {
                continue;
            }
            let mut wired = Wired::default();
            for input in &stage.inputs {
                let facts = |of: &OutputOf| {
                    let producer = known.get(self.index.get(of.stage.0.as_str())?)?;
                    producer.get(&of.output).cloned()
                };
                wired.wire(&input.port, input.from.iter().map(|of| facts(of).unwrap_or_default()).collect());
            }
            known.insert(draft, stage.settled.facts(&wired));
            self.wrong_options(stage.settled.validate_inputs(&wired), &stage.with);
        }
    }

    fn is_late(&self, of: &OutputOf) -> bool {
        self.index.get(of.stage.0.as_str()).is_some_and(|draft| self.expanded.drafts[*draft].late.is_some())
    }
}
