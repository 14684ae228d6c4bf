//! Draws a plan as a Mermaid flowchart, which GitHub and editors render.
//!
//! Instances of one stage share one box (`rl ×3`). Solid edges are artifacts, labeled by their input port; dotted edges
//! are order dependencies.

use crate::plan::{Edge, Plan, RunCondition};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Draws a flowchart from left to right; stages are in plan order.
pub fn mermaid(plan: &Plan) -> String {
    let mut boxes: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &plan.nodes {
        let id = node.key.stage_id();
        let count = counts.entry(id).or_insert(0);
        if *count == 0 {
            boxes.push(id);
        }
        *count += 1;
    }
    let names: BTreeMap<&str, String> = boxes.iter().enumerate().map(|(i, id)| (*id, format!("s{i}"))).collect();
    let mut text = String::from("flowchart LR\n");
    for id in &boxes {
        let node = plan.nodes.iter().find(|n| n.key.stage_id() == *id);
        let Some(node) = node else { continue };
        let count = counts.get(id).copied().unwrap_or(1);
        let times = if node.fan_out.is_some() {
            " ×n".to_string()
        } else if count > 1 {
            format!(" ×{count}")
        } else {
            String::new()
        };
        let when = match &node.when {
            RunCondition::Always => "",
            RunCondition::Never(_) => "<br/>skipped",
            RunCondition::Late(_) => "<br/>if …",
        };
        let kind = if node.kind == *id { String::new() } else { format!("<br/><i>{}</i>", node.kind) };
        let _ = writeln!(text, "  {}[\"{id}{times}{kind}{when}\"]", names[id]);
    }
    for (from, to, label) in arrows(plan) {
        let _ = match label {
            Some(port) => writeln!(text, "  {} -->|{port}| {}", names[from], names[to]),
            None => writeln!(text, "  {} -.-> {}", names[from], names[to]),
        };
    }
    text
}

/// Returns the edges of the flowchart as (from, to, port), each once, in plan order. An edge without a port is an order
/// dependency.
fn arrows(plan: &Plan) -> Vec<(&str, &str, Option<&str>)> {
    let mut seen = BTreeSet::new();
    let mut arrows = Vec::new();
    for (to, node) in plan.nodes.iter().enumerate() {
        for input in &node.inputs {
            for from in &input.from {
                let arrow = (from.stage.stage_id(), node.key.stage_id(), Some(input.port.as_str()));
                if seen.insert(arrow) {
                    arrows.push(arrow);
                }
            }
        }
        let mut order: Vec<usize> = Vec::new();
        let index = petgraph::graph::NodeIndex::new(to);
        for edge in plan.graph.edges_directed(index, petgraph::Direction::Incoming) {
            if *edge.weight() == Edge::Order || node.fan_out.is_some() {
                order.push(petgraph::visit::EdgeRef::source(&edge).index());
            }
        }
        order.sort_unstable();
        for from in order {
            let (a, b) = (plan.nodes[from].key.stage_id(), node.key.stage_id());
            let data = seen.range((a, b, None)..=(a, b, Some("\u{10ffff}"))).next().is_some();
            if !data && seen.insert((a, b, None)) {
                arrows.push((a, b, None));
            }
        }
    }
    arrows
}
