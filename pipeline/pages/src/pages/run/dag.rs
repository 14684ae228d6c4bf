//! Draws the graph of a run: one column per layer, one node per stage or fan-out.

use crate::layout::empty;
use crate::links::{Links, query};
use crate::text::{self, status_symbol};
use maud::{Markup, html};
use trainyard_core::RunId;
use trainyard_engine::fold::{RunView, StageStatus};
use trainyard_views::graph::{GraphNode, GraphView};

/// Maximum number of drawn nodes.
const MAX_NODES: usize = 300;
/// Maximum number of drawn edges.
const MAX_EDGES: usize = 2_000;
/// Characters of a name in a node.
const NAME: usize = 22;
const NODE_WIDTH: usize = 172;
const NODE_HEIGHT: usize = 40;
const COLUMN: usize = 232;
const ROW: usize = 52;
const MARGIN: usize = 8;
/// Statuses in the order in which the first present one colors a fan-out.
const BY_WEIGHT: [StageStatus; 13] = [
    StageStatus::Failed,
    StageStatus::Running,
    StageStatus::Publishing,
    StageStatus::Retrying,
    StageStatus::Waiting,
    StageStatus::Queued,
    StageStatus::Blocked,
    StageStatus::Cancelled,
    StageStatus::Pending,
    StageStatus::Expanded,
    StageStatus::Done,
    StageStatus::Hit,
    StageStatus::Skipped,
];

/// Place of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NodePlace {
    x: usize,
    y: usize,
}

/// Draws a graph. Nodes beyond the limit are counted.
pub fn draw(graph: &GraphView, view: &RunView, is_live: bool, links: &Links, run: &RunId) -> Markup {
    if graph.nodes.is_empty() {
        return empty("The run has no stages.");
    }
    let nodes = &graph.nodes[..graph.nodes.len().min(MAX_NODES)];
    let places = places(nodes);
    let width = places.iter().map(|place| place.x).max().unwrap_or(0) + NODE_WIDTH + MARGIN;
    let height = places.iter().map(|place| place.y).max().unwrap_or(0) + NODE_HEIGHT + MARGIN;
    let left_out = graph.nodes.len() - nodes.len();
    html! {
        div .scroll .graph-box role="region" aria-label="Graph of the stages" tabindex="0" {
            svg .dag width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="group"
                aria-label=(format!("{} stages in {} nodes", view.stages.len(), graph.nodes.len())) {
                @for edge in edges(nodes, &places) { path .edge d=(edge) {} }
                @for (node, place) in nodes.iter().zip(&places) {
                    (draw_node(node, *place, view, is_live, links, run))
                }
            }
        }
        @if left_out > 0 {
            p .muted { (text::count(left_out as u64)) " more nodes are not drawn; the table of stages has all." }
        }
    }
}

/// Places the nodes of each layer in a column, ordered by the mean height of the nodes that they need.
fn places(nodes: &[GraphNode]) -> Vec<NodePlace> {
    let mut places: Vec<NodePlace> = Vec::with_capacity(nodes.len());
    let mut start = 0;
    while start < nodes.len() {
        let layer = nodes[start].layer;
        let end = start + nodes[start..].iter().take_while(|node| node.layer == layer).count();
        let mut order: Vec<(usize, usize)> =
            (start..end).map(|node| (mean_height(&nodes[node], &places), node)).collect();
        order.sort_unstable();
        let mut column = vec![NodePlace { x: 0, y: 0 }; end - start];
        for (row, (_, node)) in order.into_iter().enumerate() {
            column[node - start] = NodePlace { x: MARGIN + layer * COLUMN, y: MARGIN + row * ROW };
        }
        places.extend(column);
        start = end;
    }
    places
}

/// Returns the mean height of the nodes that a node needs, all of which are in earlier layers.
fn mean_height(node: &GraphNode, places: &[NodePlace]) -> usize {
    let heights: Vec<usize> = node.after.iter().filter_map(|other| Some(places.get(*other)?.y)).collect();
    if heights.is_empty() { 0 } else { heights.iter().sum::<usize>() / heights.len() }
}

/// Returns the paths of the edges between drawn nodes.
fn edges(nodes: &[GraphNode], places: &[NodePlace]) -> Vec<String> {
    let pairs = nodes
        .iter()
        .zip(places)
        .flat_map(|(node, to)| node.after.iter().filter_map(|other| places.get(*other)).map(move |from| (*from, *to)));
    let path = |(from, to): (NodePlace, NodePlace)| {
        let (x1, y1) = (from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2);
        let (x2, y2) = (to.x, to.y + NODE_HEIGHT / 2);
        let bend = (x2.saturating_sub(x1) / 2).min(60);
        format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend))
    };
    pairs.take(MAX_EDGES).map(path).collect()
}

fn draw_node(node: &GraphNode, place: NodePlace, view: &RunView, is_live: bool, links: &Links, run: &RunId) -> Markup {
    let is_fan_out = node.is_fan_out(view);
    let only = node.instances.first().filter(|_| !is_fan_out).map(|at| &view.stages[*at]);
    let (status, words, address, key) = match only {
        Some(stage) => {
            let status = stage.shown_status(is_live);
            (status, status.to_string(), links.stage(&run.0, &stage.key().0), Some(text::visible(&stage.key().0)))
        }
        None => {
            let address = format!("{}{}#stages", links.run(&run.0), query(&[("group", &node.name)]));
            (main_status(node).name(), counts(node), address, None)
        }
    };
    let (name, cut) = text::cut(&node.name, NAME);
    html! {
        a .node href=(address) data-stage=[key] data-status=(status) {
            title { (text::visible(&node.name)) ": " (words) }
            @if is_fan_out { rect x=(place.x + 4) y=(place.y + 4) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="6" {} }
            rect x=(place.x) y=(place.y) width=(NODE_WIDTH) height=(NODE_HEIGHT) rx="6" {}
            text .name x=(place.x + 10) y=(place.y + 16) { (name) @if cut > 0 { "…" } }
            text .words x=(place.x + 10) y=(place.y + 32) {
                tspan data-part="symbol" aria-hidden="true" { (status_symbol(status)) }
                tspan dx="4" data-part="word" { (words) }
            }
        }
    }
}

/// Returns the status that colors a node with several instances.
fn main_status(node: &GraphNode) -> StageStatus {
    BY_WEIGHT.into_iter().find(|status| node.counts.contains_key(status)).unwrap_or_default()
}

/// Returns the numbers of instances by status, as in `3 done, 1 running`; the last ones are summed up.
fn counts(node: &GraphNode) -> String {
    let present = BY_WEIGHT.into_iter().filter_map(|status| Some((status, *node.counts.get(&status)?)));
    let present: Vec<(StageStatus, usize)> = present.collect();
    let shown = present.iter().take(2).map(|(status, count)| format!("{count} {}", status.name()));
    let rest: usize = present.iter().skip(2).map(|(_, count)| count).sum();
    let mut parts: Vec<String> = shown.collect();
    parts.extend((rest > 0).then(|| format!("{rest} other")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, layer: usize, after: &[usize]) -> GraphNode {
        GraphNode { name: name.into(), layer, after: after.to_vec(), ..GraphNode::default() }
    }

    #[test]
    fn nodes_are_in_columns_next_to_what_they_need() {
        let nodes = [node("a", 0, &[]), node("b", 0, &[]), node("of b", 1, &[1]), node("of a", 1, &[0])];
        let places = places(&nodes);
        assert_eq!((places[0].x, places[2].x), (MARGIN, MARGIN + COLUMN));
        assert_eq!((places[2].y, places[3].y), (MARGIN + ROW, MARGIN), "the edges do not cross");
        assert_eq!(edges(&nodes, &places)[0], "M180 80C210 80 210 80 240 80");
        assert_eq!(edges(&nodes[..2], &places[..2]).len(), 0);
    }

    #[test]
    fn fan_outs_are_counted_by_status() {
        let counts_of = |pairs: &[(StageStatus, usize)]| {
            let node = GraphNode { counts: pairs.iter().copied().collect(), ..GraphNode::default() };
            (main_status(&node), counts(&node))
        };
        let mixed =
            [(StageStatus::Done, 3), (StageStatus::Running, 1), (StageStatus::Pending, 2), (StageStatus::Hit, 4)];
        assert_eq!(counts_of(&mixed), (StageStatus::Running, "1 running, 2 pending, 7 other".to_string()));
        assert_eq!(counts_of(&[(StageStatus::Done, 5)]), (StageStatus::Done, "5 done".to_string()));
    }
}
