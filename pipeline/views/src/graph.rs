//! Arranges the stages of a run in layers, where the instances of one fan-out are one node.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trainyard_engine::fold::{RunView, StageStatus};

/// Stages of a run in layers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GraphView {
    /// Nodes, ordered by layer, then in plan order.
    pub nodes: Vec<GraphNode>,
}

/// Stage, or fan-out with all its instances.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GraphNode {
    /// Stage key without axes.
    pub name: String,
    /// Length of the longest path from a node without dependencies; 0 for such a node.
    pub layer: usize,
    /// Indices of the instances in the stages of the run, in plan order. A stage without axes is its only instance.
    pub instances: Vec<usize>,
    /// Indices of the nodes that must end first, in the order of `nodes`.
    pub after: Vec<usize>,
    /// Number of instances in each status.
    pub counts: BTreeMap<StageStatus, usize>,
}

impl GraphNode {
    /// Returns whether the node has axes, so that it stands for a list of instances.
    pub fn is_fan_out(&self, view: &RunView) -> bool {
        self.instances.iter().any(|at| view.stages[*at].key().0 != self.name)
    }
}

impl GraphView {
    /// Arranges the stages of a run.
    pub fn of(view: &RunView) -> Self {
        let mut nodes: Vec<GraphNode> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let names: Vec<String> = view.stages.iter().map(|stage| without_axes(&stage.key().0)).collect();
        for (at, name) in names.iter().enumerate() {
            let node = *known.entry(name.clone()).or_insert_with(|| {
                nodes.push(GraphNode { name: name.clone(), ..GraphNode::default() });
                nodes.len() - 1
            });
            nodes[node].instances.push(at);
        }
        let after = dependencies(view, &names, &known);
        let layers = layers(&after);
        for (node, layer) in nodes.iter_mut().zip(&layers) {
            node.layer = *layer;
            complete(node, view);
        }
        order(nodes, &after)
    }
}

/// Leaves a late fan-out's own stage out of its instances, once it has instances, and counts the statuses.
fn complete(node: &mut GraphNode, view: &RunView) {
    if node.instances.len() > 1 {
        node.instances.retain(|at| view.stages[*at].status != StageStatus::Expanded);
    }
    for at in &node.instances {
        *node.counts.entry(view.stages[*at].status).or_default() += 1;
    }
}

/// Returns the nodes that each node needs.
fn dependencies(view: &RunView, names: &[String], known: &HashMap<String, usize>) -> Vec<BTreeSet<usize>> {
    let mut after = vec![BTreeSet::new(); known.len()];
    for (stage, name) in view.stages.iter().zip(names) {
        let node = known[name];
        let needed = stage.after.iter().filter_map(|key| known.get(&without_axes(&key.0)));
        after[node].extend(needed.copied().filter(|other| *other != node));
    }
    after
}

/// Returns the layer of each node. Nodes of a cycle, which a plan cannot have, get layer 0.
fn layers(after: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut dependents = vec![Vec::new(); after.len()];
    for (node, needed) in after.iter().enumerate() {
        needed.iter().for_each(|other| dependents[*other].push(node));
    }
    let mut open: Vec<usize> = after.iter().map(BTreeSet::len).collect();
    let mut ready: Vec<usize> = (0..after.len()).filter(|node| open[*node] == 0).collect();
    let mut layers = vec![0; after.len()];
    while let Some(node) = ready.pop() {
        for dependent in &dependents[node] {
            layers[*dependent] = layers[*dependent].max(layers[node] + 1);
            open[*dependent] -= 1;
            if open[*dependent] == 0 {
                ready.push(*dependent);
            }
        }
    }
    layers
}

/// Sorts the nodes by layer, and points their dependencies to the new places.
fn order(nodes: Vec<GraphNode>, after: &[BTreeSet<usize>]) -> GraphView {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|node| nodes[*node].layer);
    let mut places = vec![0; nodes.len()];
    order.iter().enumerate().for_each(|(place, node)| places[*node] = place);
    let mut sorted: Vec<(usize, GraphNode)> = nodes.into_iter().enumerate().collect();
    sorted.sort_by_key(|(node, _)| places[*node]);
    let moved = |(node, mut moved): (usize, GraphNode)| {
        moved.after = after[node].iter().map(|other| places[*other]).collect();
        moved.after.sort_unstable();
        moved
    };
    GraphView { nodes: sorted.into_iter().map(moved).collect() }
}

/// Removes the axes from a stage key: `train[seed=1]/rl[lr=2]` becomes `train/rl`.
pub fn without_axes(key: &str) -> String {
    let mut depth = 0usize;
    let mut name = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            '[' => depth += 1,
            ']' if depth > 0 => depth -= 1,
            c if depth == 0 => name.push(c),
            _ => {}
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, fold, key};
    use trainyard_core::event::Event;

    fn run(stages: &[(&str, &[&str])], more: Vec<Event>) -> RunView {
        fold(std::iter::once(created(stages)).chain(more).map(|event| (1, event)))
    }

    fn shown(graph: &GraphView) -> Vec<(&str, usize, &[usize], &[usize])> {
        graph.nodes.iter().map(|n| (n.name.as_str(), n.layer, &n.instances[..], &n.after[..])).collect()
    }

    #[test]
    fn layers_are_longest_paths() {
        let view = run(&[("end", &["a", "c"]), ("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])], Vec::new());
        let graph = GraphView::of(&view);
        assert_eq!(
            shown(&graph),
            [
                ("a", 0, &[1][..], &[][..]),
                ("d", 0, &[4], &[]),
                ("b", 1, &[2], &[0]),
                ("c", 2, &[3], &[2]),
                ("end", 3, &[0], &[0, 3]),
            ]
        );
    }

    #[test]
    fn instances_of_a_fan_out_are_one_node() {
        let rl: &[(&str, &[&str])] =
            &[("sft", &[]), ("rl[seed=1]", &["sft"]), ("rl[seed=2]", &["sft"]), ("end", &["rl[seed=1]", "rl[seed=2]"])];
        let skipped = Event::Skipped { stage: key("rl[seed=2]"), why: "its condition is false".into() };
        let view = run(rl, vec![skipped]);
        let graph = GraphView::of(&view);
        assert_eq!(shown(&graph), [("sft", 0, &[0][..], &[][..]), ("rl", 1, &[1, 2], &[0]), ("end", 2, &[3], &[1])]);
        let counts = BTreeMap::from([(StageStatus::Pending, 1), (StageStatus::Skipped, 1)]);
        assert_eq!(graph.nodes[1].counts, counts);
        assert!(graph.nodes[1].is_fan_out(&view) && !graph.nodes[0].is_fan_out(&view));
    }

    #[test]
    fn stage_of_a_late_fan_out_counts_until_it_has_instances() {
        let expand = |instances: &[&str]| Event::StageExpanded {
            stage: key("a"),
            instances: instances.iter().map(|name| key(name)).collect(),
        };
        let nodes = |event| GraphView::of(&run(&[("a", &[]), ("b", &["a"])], vec![event])).nodes;
        assert_eq!(nodes(expand(&["a[item=0]", "a[item=1]"]))[0].instances, [1, 2]);
        assert_eq!(nodes(expand(&[]))[0].instances, [0], "no items");
    }

    #[test]
    fn axes_anywhere_in_a_key_are_removed() {
        assert_eq!(without_axes("train[seed=1]/rl[x=[2]]/end"), "train/rl/end");
        assert_eq!(without_axes("plain]"), "plain]");
    }
}
