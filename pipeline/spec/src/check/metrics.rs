//! Checks names of metrics, in checks, late expressions and options, against the declarations of stages.
//!
//! The metrics of a stage may depend on its options and on the stages that produce its inputs (`compare`, `report`), so
//! this pass runs last, in topological order. If a stage's options are not known before the run, the names are checked
//! against all metrics of its kind.

use super::checker::{Checker, ValidStage};
use super::graph::StageOrder;
use crate::diagnostic::{Diagnostic, suggest};
use crate::plan::InputBinding;
use crate::read::locate;
use crate::reported::{judge, renamed};
use crate::workflow::StageBody;
use trainyard_core::{DeclaredMetrics, MetricInfo, Producer, Producers};

impl Checker<'_> {
    /// Checks all names that were used.
    pub(super) fn metrics(&mut self, order: Option<&StageOrder>) {
        let mut declared: Vec<Option<DeclaredMetrics>> =
            (0..self.expanded.drafts.len()).map(|draft| self.of_kind(draft)).collect();
        let kinds = declared.clone();
        for &draft in order.map_or(&[][..], |order| order.drafts.as_slice()) {
            if let Some(stage) = self.valid.get(&draft).cloned() {
                self.exact(draft, &stage, &kinds, &mut declared);
            }
        }
        for used in std::mem::take(&mut self.uses) {
            let Some(found) = &declared[used.draft] else { continue };
            let reporter = format!("stage `{}`", self.expanded.raw(used.draft).id);
            if let Err((error, of)) = judge(found, &reporter, &used.metric, used.of) {
                let span = if of { used.of_span } else { used.metric_span };
                self.report_unresolved(error, span);
            }
        }
    }

    /// Returns the metrics that the stage's kind may report under any options; `None` for a command.
    fn of_kind(&self, draft: usize) -> Option<DeclaredMetrics> {
        let StageBody::Kind { name, .. } = &self.expanded.raw(draft).body else { return None };
        self.expanded.catalogue.kind(name).map(|info| info.metrics.clone())
    }

    /// Replaces the metrics of the kind by those of this stage.
    fn exact(
        &mut self,
        draft: usize,
        stage: &ValidStage<'_>,
        kinds: &[Option<DeclaredMetrics>],
        declared: &mut [Option<DeclaredMetrics>],
    ) {
        let producers = self.producers(&stage.inputs, kinds, declared);
        declared[draft] = Some(stage.validated.declared(&producers));
        for read in stage.validated.metrics_read(&producers) {
            let Some(producers_of_port) = producers.get(&read.port) else { continue };
            let open = |p: &Producer| p.declared.as_ref().is_none_or(|d| d.open);
            let may_report = |p: &Producer| {
                p.kind.metric(&read.name).is_some()
                    || p.declared.as_ref().is_some_and(|d| d.metric(&read.name).is_some())
            };
            if producers_of_port.iter().any(|p| open(p) || may_report(p)) {
                continue;
            }
            let span = locate(&stage.with, &read.pointer).0;
            let all: Vec<&MetricInfo> = producers_of_port
                .iter()
                .flat_map(|p| p.declared.iter().flat_map(|d| &d.metrics).chain(&p.kind.metrics))
                .collect();
            let message = format!("no stage that provides `{}` reports a metric `{}`", read.port, read.name);
            let help = renamed(&read.name, all.iter().copied())
                .or_else(|| suggest(&read.name, all.iter().map(|m| m.name.as_str())));
            self.report(Diagnostic::error("unknown-metric", span, message).help_if(help));
        }
    }

    fn producers(
        &self,
        inputs: &[InputBinding],
        kinds: &[Option<DeclaredMetrics>],
        declared: &[Option<DeclaredMetrics>],
    ) -> Producers {
        let producer = |stage: &str| {
            let Some(&draft) = self.index.get(stage) else { return Producer::default() };
            let repeated = self.expanded.drafts[draft].late.is_some();
            let kind = kinds[draft].clone().unwrap_or_default();
            Producer { declared: declared[draft].clone().filter(|_| !repeated), kind }
        };
        let producers_of = |input: &InputBinding| input.from.iter().map(|of| producer(&of.stage.0)).collect();
        inputs.iter().map(|input| (input.port.clone(), producers_of(input))).collect()
    }
}
