//! Checks the graph of all instances for cycles, and orders the instances; ties are in file order.
//!
//! Cycles are found by strongly connected components (a topological sort names only one stage of a cycle) and shown in
//! full. Both algorithms are iterative, so a long chain cannot overflow the stack.

use super::checker::{Checker, StageLink};
use crate::diagnostic::Diagnostic;
use crate::plan::Edge;
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};

/// Drafts in topological order (ties in file order), and their graph with weights into that order.
#[derive(Debug)]
pub struct StageOrder {
    /// Indices of drafts.
    pub drafts: Vec<usize>,
    /// Edges from each predecessor; weights are positions in `drafts`.
    pub graph: DiGraph<usize, Edge>,
}

impl Checker<'_> {
    /// Computes the order; `None` if there is a cycle (reported).
    pub(super) fn order(&mut self) -> Option<StageOrder> {
        let edges = unique_edges(&self.links);
        let count = self.expanded.drafts.len();
        let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(count, edges.len());
        for _ in 0..count {
            graph.add_node(());
        }
        for (from, to, _) in &edges {
            graph.add_edge(NodeIndex::new(*from), NodeIndex::new(*to), ());
        }
        let looped: HashSet<usize> = edges.iter().filter(|(from, to, _)| from == to).map(|(from, ..)| *from).collect();
        let mut cycles: Vec<Vec<usize>> = kosaraju_scc(&graph)
            .into_iter()
            .map(|c| c.into_iter().map(NodeIndex::index).collect::<Vec<_>>())
            .filter(|c| c.len() > 1 || c.iter().any(|d| looped.contains(d)))
            .collect();
        if cycles.is_empty() {
            return Some(sorted(count, &edges));
        }
        cycles.iter_mut().for_each(|c| c.sort_unstable());
        cycles.sort();
        for component in &cycles {
            self.report_cycle(component);
        }
        None
    }

    fn report_cycle(&mut self, component: &[usize]) {
        let path = shortest_cycle(component, &self.links);
        let name = |draft: usize| self.expanded.key(draft).stage_id().to_string();
        let mut names: Vec<String> = path.iter().map(|link| name(link.from)).collect();
        names.push(name(component[0]));
        let start = self.expanded.raw(component[0]).id_span;
        let mut d =
            Diagnostic::error("cycle", start, format!("these stages wait for each other: {}", names.join(" → ")));
        d = d.help("each arrow is an input, a `needs` or a metric that is read; remove one of them");
        for link in &path {
            d = d.related(link.span, format!("`{}` waits for `{}` here", name(link.to), name(link.from)));
        }
        self.report(d);
    }
}

/// Removes duplicate edges and sorts; a data edge replaces an order edge between the same stages.
fn unique_edges(links: &[StageLink]) -> Vec<(usize, usize, Edge)> {
    let mut edges: HashMap<(usize, usize), Edge> = HashMap::with_capacity(links.len());
    for link in links {
        let edge = edges.entry((link.from, link.to)).or_insert(link.edge);
        if link.edge == Edge::Data {
            *edge = Edge::Data;
        }
    }
    let mut sorted: Vec<(usize, usize, Edge)> = edges.into_iter().map(|((from, to), edge)| (from, to, edge)).collect();
    sorted.sort_unstable_by_key(|(from, to, _)| (*from, *to));
    sorted
}

/// Sorts topologically (Kahn's algorithm); of all ready stages, the first in the file comes first.
fn sorted(count: usize, edges: &[(usize, usize, Edge)]) -> StageOrder {
    let mut waiting = vec![0usize; count];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, to, _) in edges {
        waiting[*to] += 1;
        next[*from].push(*to);
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..count).filter(|d| waiting[*d] == 0).map(Reverse).collect();
    let mut drafts = Vec::with_capacity(count);
    while let Some(Reverse(draft)) = ready.pop() {
        drafts.push(draft);
        for to in &next[draft] {
            waiting[*to] -= 1;
            if waiting[*to] == 0 {
                ready.push(Reverse(*to));
            }
        }
    }
    let mut place = vec![0; count];
    for (position, draft) in drafts.iter().enumerate() {
        place[*draft] = position;
    }
    let mut graph = DiGraph::with_capacity(count, edges.len());
    for position in 0..count {
        graph.add_node(position);
    }
    for (from, to, edge) in edges {
        graph.add_edge(NodeIndex::new(place[*from]), NodeIndex::new(place[*to]), *edge);
    }
    StageOrder { drafts, graph }
}

/// Finds a shortest path from the component's first stage back to itself, by breadth-first search.
fn shortest_cycle(component: &[usize], links: &[StageLink]) -> Vec<StageLink> {
    let inside: HashSet<usize> = component.iter().copied().collect();
    let mut out: HashMap<usize, Vec<&StageLink>> = HashMap::new();
    for link in links.iter().filter(|l| inside.contains(&l.from) && inside.contains(&l.to)) {
        out.entry(link.from).or_default().push(link);
    }
    let start = component[0];
    let mut reached: HashMap<usize, &StageLink> = HashMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for link in out.get(&at).into_iter().flatten() {
            if link.to == start {
                let mut path = vec![(*link).clone()];
                let mut back = at;
                while back != start {
                    let step = reached[&back];
                    path.push(step.clone());
                    back = step.from;
                }
                path.reverse();
                return path;
            }
            if let Entry::Vacant(new) = reached.entry(link.to) {
                new.insert(link);
                queue.push_back(link.to);
            }
        }
    }
    Vec::new()
}
