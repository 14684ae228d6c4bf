//! Decides about a node whose dependencies have ended: the node is blocked, skipped, expanded or prepared.

use crate::engine::RunEngine;
use crate::io::NodeId;
use crate::node::{NodeOutcome, NodeState};
use crate::scope::LateScope;
use serde_json::Value;
use trainyard_core::event::Event;
use trainyard_core::{Error, Result};
use trainyard_spec::expression::{ExprReference, Expression};
use trainyard_spec::plan::RunCondition;

impl RunEngine {
    /// Continues a node after all its dependencies have ended.
    pub(crate) fn ready(&mut self, node: NodeId) {
        if self.stopping.is_some() {
            return self.cancel_node(node);
        }
        if self.forecasting && self.depends_on_miss(node) {
            return self.end(node, NodeOutcome::Deferred);
        }
        if let Some(by) = self.blocker(node) {
            let (stage, by) = (self.key(node).clone(), self.key(by).clone());
            self.state_mut(node).why = Some(format!("blocked by {by}"));
            self.emit(Event::Blocked { stage, by });
            return self.end(node, NodeOutcome::Blocked);
        }
        match self.skip_reason(node) {
            Ok(None) if self.state(node).is_group() => self.read_rows(node),
            Ok(None) => self.schedule_prepare(node),
            Ok(Some(why)) => self.skip(node, why),
            Err(error) => self.fail(node, error),
        }
    }

    fn depends_on_miss(&self, node: NodeId) -> bool {
        let state = self.state(node);
        let endings = state.after.iter().map(|d| self.state(self.bound(state, *d)).ending());
        endings.into_iter().any(|e| matches!(e, Some(NodeOutcome::WouldRun | NodeOutcome::Deferred)))
    }

    /// Returns a needed stage that did not end well; `None` if all did. A node that reads only its status is not
    /// blocked by it.
    fn blocker(&self, node: NodeId) -> Option<NodeId> {
        let state = self.state(node);
        let bad = |d: &NodeId| {
            matches!(self.state(*d).ending(), Some(NodeOutcome::Failed | NodeOutcome::Blocked | NodeOutcome::Cancelled))
        };
        let needed = state.after.iter().filter(|d| !(state.is_group() && self.same_axes(state, **d)));
        needed.map(|d| self.bound(state, *d)).filter(bad).find(|d| !self.only_status_is_read(state, *d))
    }

    fn only_status_is_read(&self, state: &NodeState, dep: NodeId) -> bool {
        let is = |stage: &str| self.find(stage).is_some_and(|found| found == dep || self.bound(state, found) == dep);
        if state.plan.inputs.iter().flat_map(|i| &i.from).any(|of| is(&of.stage.0)) {
            return false;
        }
        let references = references(state);
        let metric = references.iter().any(|r| matches!(r, ExprReference::Metric { stage, .. } if is(stage)));
        !metric && references.iter().any(|r| matches!(r, ExprReference::Status { stage } if is(stage)))
    }

    /// Returns the reason to skip the node; `None` if it runs.
    fn skip_reason(&self, node: NodeId) -> Result<Option<String>> {
        // Must precede the condition, which may read a metric of a skipped stage.
        if let Some(why) = self.skipped_input(node) {
            return Ok(Some(why));
        }
        let state = self.state(node);
        let RunCondition::Late(condition) = &state.plan.when else { return Ok(None) };
        if !self.evaluates_condition(state, condition) {
            return Ok(None);
        }
        match condition.evaluate(&LateScope { engine: self, node })? {
            Value::Bool(true) => Ok(None),
            Value::Bool(false) => Ok(Some(format!("`when: {condition}` is false"))),
            other => Err(Error::invalid(format!("`when: {condition}` is {other}, not true or false"))
                .help("write a comparison, as in `item.level > 2`")),
        }
    }

    /// Returns whether the condition is evaluated for this node: a condition on the row, or on a fan-out over the same
    /// rows, is evaluated for every instance, any other once for the whole fan-out.
    fn evaluates_condition(&self, state: &NodeState, condition: &Expression) -> bool {
        let by_row = condition.references().into_iter().any(|reference| match reference {
            ExprReference::Item => true,
            ExprReference::Metric { stage, .. } | ExprReference::Status { stage } => {
                self.find(stage).is_some_and(|dep| self.same_axes(state, dep))
            }
            _ => false,
        });
        state.plan.fan_out.is_none() || by_row != state.is_group()
    }
}

/// Returns all late references of a node.
fn references(state: &NodeState) -> Vec<&ExprReference> {
    let mut found = state.plan.config.references();
    found.extend(state.plan.env.values().flat_map(|t| t.references()));
    if let RunCondition::Late(condition) = &state.plan.when {
        found.extend(condition.references());
    }
    found
}
