//! Expands late fan-outs: one instance for each row of an upstream stage's table.

use crate::engine::RunEngine;
use crate::io::{Command, NodeId};
use crate::node::{NodeOutcome, NodePhase, NodeState};
use serde_json::Value;
use trainyard_core::event::Event;
use trainyard_core::{Error, Output, Result, StageKey};

impl RunEngine {
    /// Takes the rows from the manifest's preview if that is the whole table, and requests them otherwise.
    pub(crate) fn read_rows(&mut self, node: NodeId) {
        match self.table_of(node) {
            Ok((output, cap)) => match whole_preview(&output) {
                Some(rows) => self.expand_into(node, rows),
                None => {
                    self.state_mut(node).phase = NodePhase::Reading;
                    self.command(Command::ReadRows { node, output: Box::new(output), limit: u64::from(cap) + 1 });
                }
            },
            Err(error) => self.fail(node, error),
        }
    }

    fn table_of(&self, node: NodeId) -> Result<(Output, u32)> {
        let state = self.state(node);
        let Some(fan_out) = &state.plan.fan_out else {
            return Err(Error::bug(format!("`{}` is not a fan-out", state.key)));
        };
        let of = &fan_out.rows_of;
        let manifest = self.find(&of.stage.0).and_then(|found| self.state(found).manifest.as_ref());
        let output = manifest.and_then(|m| m.outputs.get(&of.output));
        let output = output.ok_or_else(|| {
            Error::invalid(format!("`{}` left no output `{}` to fan `{}` out over", of.stage, of.output, state.key))
        })?;
        let rows = output.table.as_ref().map_or(0, |t| t.rows);
        if output.table.is_some() && rows > u64::from(fan_out.cap) {
            return Err(too_many(&state.key, &of.stage, fan_out.cap));
        }
        Ok((output.clone(), fan_out.cap))
    }

    pub(crate) fn expand(&mut self, node: NodeId, rows: Result<Vec<Value>>) {
        if self.state(node).phase != NodePhase::Reading {
            return;
        }
        match rows {
            Ok(rows) => self.expand_into(node, rows),
            Err(error) => self.fail(node, error.at("reading the rows of its list")),
        }
    }

    fn expand_into(&mut self, group: NodeId, rows: Vec<Value>) {
        let state = self.state(group);
        let (plan, mode) = (state.plan.clone(), state.mode);
        if let Some(fan_out) = plan.fan_out.as_ref().filter(|f| rows.len() > f.cap as usize) {
            let error = too_many(&state.key, &fan_out.rows_of.stage, fan_out.cap);
            return self.fail(group, error);
        }
        let first = self.states.len() as u32;
        let keys: Vec<StageKey> = (0..rows.len()).map(|at| instance_key(&self.state(group).key, at)).collect();
        let height = self.state(group).height;
        let after = self.state(group).after.clone();
        for (at, (row, key)) in rows.into_iter().zip(&keys).enumerate() {
            let mut instance = NodeState::new(plan.clone(), key.clone(), &self.setup, mode);
            instance.forced = instance.forced.or(self.state(group).forced);
            instance.item = Some((at, row, group));
            instance.height = height;
            instance.after.clone_from(&after);
            self.index.insert(key.clone(), NodeId(first + at as u32));
            self.states.push(instance);
        }
        let instances: Vec<NodeId> = (first..self.states.len() as u32).map(NodeId).collect();
        self.open += instances.len();
        self.emit(Event::StageExpanded { stage: self.key(group).clone(), instances: keys });
        let state = self.state_mut(group);
        state.instances.clone_from(&instances);
        state.open_instances = instances.len();
        state.phase = NodePhase::Expanded;
        if instances.is_empty() {
            return self.end_group(group);
        }
        for instance in instances {
            self.ready(instance);
        }
    }

    pub(crate) fn instance_ended(&mut self, group: NodeId) {
        let state = self.state_mut(group);
        state.open_instances -= 1;
        if state.open_instances == 0 && state.phase == NodePhase::Expanded {
            self.end_group(group);
        }
    }

    /// Ends a fan-out like the worst of its instances; it is skipped if all of them were.
    fn end_group(&mut self, group: NodeId) {
        let endings: Vec<NodeOutcome> =
            self.state(group).instances.iter().filter_map(|i| self.state(*i).ending()).collect();
        let any = |outcomes: &[NodeOutcome]| endings.iter().any(|e| outcomes.contains(e));
        let all = |outcomes: &[NodeOutcome]| !endings.is_empty() && endings.iter().all(|e| outcomes.contains(e));
        if any(&[NodeOutcome::Failed, NodeOutcome::Blocked]) {
            let failed = endings.iter().filter(|e| matches!(e, NodeOutcome::Failed | NodeOutcome::Blocked)).count();
            let error = Error::data(format!("{failed} of {} instances failed", endings.len()))
                .help("see the errors of the instances");
            self.fail(group, error);
        } else if any(&[NodeOutcome::Cancelled]) {
            self.cancel_node(group);
        } else if all(&[NodeOutcome::Skipped]) {
            self.skip(group, "every instance was skipped".into());
        } else if any(&[NodeOutcome::WouldRun, NodeOutcome::Deferred]) {
            self.end(group, NodeOutcome::Deferred);
        } else {
            self.end(group, NodeOutcome::Done);
        }
    }
}

fn too_many(stage: &StageKey, list: &StageKey, cap: u32) -> Error {
    Error::invalid(format!("the list of `{stage}` from `{list}` has more than {cap} rows"))
        .help("raise `cap` under `for_each`, or filter the list first")
}

/// Returns `eval[item=3]`, or `eval[seed=1,item=3]` if there are axes already.
fn instance_key(group: &StageKey, at: usize) -> StageKey {
    StageKey(match group.0.strip_suffix(']') {
        Some(axes) => format!("{axes},item={at}]"),
        None => format!("{group}[item={at}]"),
    })
}

/// Returns the preview, if it has all rows and no cell was cut.
fn whole_preview(output: &Output) -> Option<Vec<Value>> {
    let table = output.table.as_ref()?;
    let is_complete = table.preview.len() as u64 == table.rows && !table.preview.iter().any(was_cut);
    is_complete.then(|| table.preview.clone())
}

fn was_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => text.ends_with('…'),
        Value::Array(items) => items.iter().any(was_cut),
        // A cut map has the key `…` with null in place of the missing entries.
        Value::Object(entries) => entries.get("…").is_some_and(Value::is_null) || entries.values().any(was_cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;
    use trainyard_core::artifact::TableSummary;
    use trainyard_core::{ArtifactKind, Digest, FileEntry};

    fn is_whole(row: Value) -> bool {
        let file = FileEntry { path: "data.parquet".into(), digest: Digest::of(b"rows"), size: 4 };
        let table = TableSummary { rows: 1, columns: Vec::new(), preview: vec![row] };
        whole_preview(&Output::new(ArtifactKind::Table, vec![file], Some(table), BTreeMap::new()).unwrap()).is_some()
    }

    #[test]
    fn truncated_preview_is_not_used_as_rows() {
        assert!(is_whole(json!({"text": "a", "list": [1, "b"], "map": {"k": null}})));
        assert!(!is_whole(json!({"text": "a…"})));
        assert!(!is_whole(json!({"list": [1, "…"]})));
        assert!(!is_whole(json!({"map": {"k": 1, "…": null}})));
        assert!(!is_whole(json!({"list": [{"map": {"…": null}}]})));
    }

    #[test]
    fn instance_keys_join_the_axes() {
        assert_eq!(instance_key(&StageKey("eval".into()), 3).0, "eval[item=3]");
        assert_eq!(instance_key(&StageKey("eval[seed=1]".into()), 0).0, "eval[seed=1,item=0]");
    }
}
