//! Provides the values that late expressions read: metrics and status of ended stages, and the row of an instance.
//!
//! A metric that no manifest has is unknown rather than null: the expression fails, unless `default` gives a value.

use crate::engine::RunEngine;
use crate::io::NodeId;
use crate::node::{NodeOutcome, NodeState};
use serde_json::{Number, Value};
use trainyard_core::{ComparisonField, StageKey, metric};
use trainyard_spec::expression::{ExprReference, Scope};

pub(crate) struct LateScope<'a> {
    pub engine: &'a RunEngine,
    pub node: NodeId,
}

impl RunEngine {
    pub(crate) fn find(&self, stage: &str) -> Option<NodeId> {
        self.index.get(&StageKey(stage.to_string())).copied()
    }
    /// Returns whether a late fan-out and `dep` fan out over the same rows.
    pub(crate) fn same_axes(&self, state: &NodeState, dep: NodeId) -> bool {
        let rows = |s: &NodeState| s.plan.fan_out.as_ref().map(|f| f.rows_of.clone());
        self.state(dep).is_group() && rows(state).is_some() && rows(state) == rows(self.state(dep))
    }
    /// Resolves a reference to `dep` from `state`: between two fan-outs over the same rows, instance binds to instance.
    pub(crate) fn bound(&self, state: &NodeState, dep: NodeId) -> NodeId {
        match &state.item {
            Some((at, ..)) if self.same_axes(state, dep) => self.state(dep).instances.get(*at).copied().unwrap_or(dep),
            _ => dep,
        }
    }
    /// Returns a metric; `None` if the stage has no manifest, or its manifest lacks the metric.
    fn metric_of(&self, node: NodeId, name: &str, of: Option<ComparisonField>) -> Option<Value> {
        let manifest = self.state(node).manifest.as_ref()?;
        let value = metric::look_up(&manifest.metrics, &manifest.comparisons, name, of)?;
        Number::from_f64(value).map(Value::Number)
    }
    /// Returns the metrics in order; skipped instances are left out, as among inputs.
    fn metrics_of(&self, instances: &[NodeId], name: &str, of: Option<ComparisonField>) -> Option<Value> {
        let ran = instances.iter().filter(|i| self.state(**i).ending() != Some(NodeOutcome::Skipped));
        ran.map(|i| self.metric_of(*i, name, of)).collect()
    }
}

impl Scope<ExprReference> for LateScope<'_> {
    fn value(&self, reference: &ExprReference) -> Option<Value> {
        match reference {
            ExprReference::Item => self.engine.state(self.node).item.as_ref().map(|(_, row, _)| row.clone()),
            ExprReference::Metric { stage, name, of } => self.metric(stage, name, *of),
            ExprReference::Status { stage } => self.status(stage),
            _ => None,
        }
    }
}

impl LateScope<'_> {
    /// Returns a metric of a stage instance's manifest (for a late fan-out a list of numbers, in order, without skipped
    /// instances). `None` also if the stage did not report it.
    fn metric(&self, stage: &str, name: &str, of: Option<ComparisonField>) -> Option<Value> {
        let own = self.engine.state(self.node);
        let found = self.engine.bound(own, self.engine.find(stage)?);
        let state = self.engine.state(found);
        if !state.is_group() {
            return self.engine.metric_of(found, name, of);
        }
        // A fan-out over the same rows that was skipped as a whole has no instances to bind to.
        let unbound = own.item.is_some() && self.engine.same_axes(own, found);
        if unbound { None } else { self.engine.metrics_of(&state.instances, name, of) }
    }
    /// Returns the final status of a stage instance: `succeeded`, `failed`, `skipped`, `blocked` or `cancelled`.
    fn status(&self, stage: &str) -> Option<Value> {
        let found = self.engine.bound(self.engine.state(self.node), self.engine.find(stage)?);
        self.engine.state(found).ending().map(|e| e.status().into())
    }
}
