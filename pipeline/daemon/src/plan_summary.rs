//! Summarizes a plan for its readers: its stages in layers, where the instances of one fan-out are one line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use trainyard_core::StageKey;
use trainyard_spec::Plan;

/// Plan, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSummary {
    /// Name of the workflow.
    pub workflow: String,
    /// Stages in the order of the plan.
    pub stages: Vec<PlannedStage>,
    /// Number of stage instances.
    pub instances: usize,
}

/// Stage with all its instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// Stage key without axes.
    pub name: String,
    /// Value of `uses`, or `run`.
    pub kind: String,
    /// Number of instances.
    pub instances: usize,
    /// Whether a list that is known during the run determines the number of instances.
    pub is_late: bool,
    /// Length of the longest path from a stage without dependencies; 0 for such a stage.
    pub layer: usize,
    /// Names of the stages that must end first, in the order of the plan.
    pub after: Vec<String>,
    /// Description from the file; may be empty.
    pub description: String,
}

/// Summarizes a plan.
pub fn summarize(plan: &Plan) -> PlanSummary {
    let mut stages: Vec<PlannedStage> = Vec::new();
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut layers: BTreeMap<&StageKey, usize> = BTreeMap::new();
    let mut after: Vec<BTreeSet<usize>> = Vec::new();
    // Nodes are in topological order.
    for node in &plan.nodes {
        let name = without_axes(&node.key.0).to_string();
        let layer = node.after.iter().filter_map(|key| layers.get(key)).max().map_or(0, |layer| layer + 1);
        layers.insert(&node.key, layer);
        let index = *known.entry(name.clone()).or_insert_with(|| {
            stages.push(PlannedStage {
                name,
                kind: node.kind.clone(),
                instances: 0,
                is_late: node.fan_out.is_some(),
                layer: 0,
                after: Vec::new(),
                description: node.description.clone(),
            });
            after.push(BTreeSet::new());
            stages.len() - 1
        });
        stages[index].instances += 1;
        stages[index].layer = stages[index].layer.max(layer);
        let needed = node.after.iter().filter_map(|key| known.get(without_axes(&key.0)));
        after[index].extend(needed.copied().filter(|other| *other != index));
    }
    let names: Vec<String> = stages.iter().map(|stage| stage.name.clone()).collect();
    for (stage, after) in stages.iter_mut().zip(after) {
        stage.after = after.into_iter().map(|index| names[index].clone()).collect();
    }
    PlanSummary { workflow: plan.workflow.clone(), stages, instances: plan.nodes.len() }
}

/// Returns a key without the axes of its last segment.
fn without_axes(key: &str) -> &str {
    key.split_once('[').map_or(key, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compiled;

    #[test]
    fn instances_are_one_stage_in_the_layer_after_the_stages_that_they_need() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.yaml");
        let text = "version: 1\nname: w\nstages:\n  \
            data: {run: [\"true\"], cache: false}\n  \
            fit: {needs: [data], matrix: {seed: [1, 2]}, run: [\"true\"], cache: false, description: Fits.}\n  \
            end: {needs: [data, fit], run: [\"true\"], cache: false}\n";
        std::fs::write(&path, text).unwrap();
        let summary = summarize(&compiled(&path, &[]).unwrap().plan.unwrap());
        assert_eq!((summary.workflow.as_str(), summary.instances), ("w", 4));
        let stage = |s: &PlannedStage| (s.name.clone(), s.instances, s.layer, s.after.join(","), s.description.clone());
        let stages: Vec<_> = summary.stages.iter().map(stage).collect();
        let expected = [("data", 1, 0, "", ""), ("fit", 2, 1, "data", "Fits."), ("end", 1, 2, "data,fit", "")];
        let owned = expected.map(|(name, n, layer, after, text)| (name.into(), n, layer, after.into(), text.into()));
        assert_eq!(stages, owned);
    }
}
