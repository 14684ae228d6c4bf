//! Checks whether some pool can ever grant each stage's request, and whether its options fit the granted GPUs and the
//! content of its sources. A request that no pool can meet is an error, since its stage would wait forever.

use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::plan::{PlanNode, ResourceRequest, SourceRef};
use crate::site::SitePool;
use std::collections::{BTreeMap, BTreeSet};

impl Checker<'_> {
    /// Reports requests that no pool can meet, also of stages with other mistakes.
    pub(super) fn placement(&mut self, nodes: &[Option<PlanNode>]) {
        for (draft, node) in nodes.iter().enumerate() {
            let Some(requests) = self.requests.remove(&draft) else { continue };
            self.gpus_of_options(draft, &requests);
            if let Some(node) = node {
                self.sources_of_options(draft, node);
            }
            let Some(nearest) = self.nearest_misfit(&requests) else { continue };
            let raw = self.expanded.raw(draft);
            let span = raw.entry("resources").map_or(raw.id_span, |e| e.key_span);
            let d = Diagnostic::error(
                "never-placed",
                span,
                format!("stage `{}` can never be placed: no pool has the resources that it requests", raw.id),
            );
            self.report(d.help(nearest));
        }
    }

    /// Reports GPUs that the options of the stage do not use, or lack.
    fn gpus_of_options(&mut self, draft: usize, requests: &[ResourceRequest]) {
        let Some(stage) = self.valid.get(&draft).cloned() else { return };
        let counts: BTreeSet<u32> = requests.iter().map(|request| request.gpus).collect();
        for gpus in counts {
            self.wrong_options(stage.validated.validate_gpus(gpus), &stage.with);
        }
    }

    /// Reports options that contradict the content of the stage's sources.
    fn sources_of_options(&mut self, draft: usize, node: &PlanNode) {
        let Some(stage) = self.valid.get(&draft).cloned() else { return };
        let location = |(pointer, source): (&String, &SourceRef)| (pointer.clone(), source.location.clone());
        let locations: BTreeMap<String, String> = node.sources.iter().map(location).collect();
        if !locations.is_empty() {
            self.wrong_options(stage.validated.validate_sources(&locations), &stage.with);
        }
    }

    /// Returns the pool that lacks least and what it lacks; `None` if a pool fits.
    fn nearest_misfit(&self, requests: &[ResourceRequest]) -> Option<String> {
        let mut nearest: Option<(usize, &SitePool, Vec<String>)> = None;
        for request in requests {
            for pool in &self.site.pools {
                let reasons = pool.misfit(request);
                if reasons.is_empty() {
                    return None;
                }
                if nearest.as_ref().is_none_or(|(count, ..)| reasons.len() < *count) {
                    nearest = Some((reasons.len(), pool, reasons));
                }
            }
        }
        Some(match nearest {
            Some((_, pool, reasons)) => format!("nearest is pool `{}`: {}", pool.name, reasons.join(", ")),
            None => "the site has no pools".to_string(),
        })
    }
}
