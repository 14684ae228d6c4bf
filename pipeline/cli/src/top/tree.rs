//! Lists the rows of an open run: nodes of its graph, and the instances of expanded fan-outs.

use super::model::{RunModel, StageLine};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::StageKey;

/// Name of the status of a fan-out's own stage.
const EXPANDED: &str = "expanded";

/// Row of the list of stages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeRow {
    /// Layer of the node, plus one for an instance below its fan-out.
    pub depth: usize,
    /// Index of the node in the graph.
    pub node: usize,
    /// Index of the stage: the stage of the row, or the first instance of a collapsed fan-out.
    pub stage: usize,
    pub kind: RowKind,
}

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// One stage.
    Stage,
    /// Fan-out whose instances are hidden.
    Collapsed,
    /// Fan-out whose instances follow.
    Expanded,
}

/// Returns the rows to show. `expanded` holds the names of expanded fan-outs. With a filter, only stages whose key
/// contains it are shown, and fan-outs are expanded.
pub fn rows(run: &RunModel, expanded: &BTreeSet<String>, filter: &str) -> Vec<TreeRow> {
    let mut rows = Vec::new();
    for (at, node) in run.graph.nodes.iter().enumerate() {
        let stages = node.instances.iter().filter(|i| run.stages.get(**i).is_some_and(|s| s.key.0.contains(filter)));
        let row = |depth, stage: usize, kind| TreeRow { depth, node: at, stage, kind };
        let is_fan_out = node.instances.iter().any(|i| run.stages.get(*i).is_some_and(|s| s.key.0 != node.name));
        let Some(first) = stages.clone().next() else { continue };
        if !is_fan_out {
            rows.push(row(node.layer, *first, RowKind::Stage));
            continue;
        }
        let is_open = !filter.is_empty() || expanded.contains(&node.name);
        rows.push(row(node.layer, *first, if is_open { RowKind::Expanded } else { RowKind::Collapsed }));
        if is_open {
            rows.extend(stages.map(|stage| row(node.layer + 1, *stage, RowKind::Stage)));
        }
    }
    rows
}

/// Returns the displayed statuses of a node's instances, each with its number.
pub fn counts(run: &RunModel, node: usize) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for stage in instances(run, node) {
        *counts.entry(stage.status).or_default() += 1;
    }
    counts
}

/// Returns the instances of a node.
pub fn instances(run: &RunModel, node: usize) -> impl Iterator<Item = &StageLine> {
    let indices = run.graph.nodes.get(node).map_or(&[][..], |node| &node.instances[..]);
    indices.iter().filter_map(|at| run.stages.get(*at))
}

/// Returns the stage of a row.
pub fn stage_of<'a>(run: &'a RunModel, row: &TreeRow) -> Option<&'a StageLine> {
    run.stages.get(row.stage)
}

/// Returns the number of stages that are over, and of all stages. A fan-out's own stage does not count.
pub fn totals<'a>(stages: impl Iterator<Item = &'a StageLine>) -> (usize, usize) {
    let is_over = |s: &str| matches!(s, "done" | "hit" | "skipped" | "failed" | "blocked" | "cancelled");
    stages
        .filter(|stage| stage.status != EXPANDED)
        .fold((0, 0), |(done, all), stage| (done + usize::from(is_over(stage.status)), all + 1))
}

/// Identity of a row that survives changes of the run: the stage, or the name of a fan-out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowId {
    Stage(StageKey),
    FanOut(String),
}

/// Returns the identity of a row.
pub fn id_of(run: &RunModel, row: &TreeRow) -> Option<RowId> {
    match row.kind {
        RowKind::Stage => stage_of(run, row).map(|stage| RowId::Stage(stage.key.clone())),
        RowKind::Collapsed | RowKind::Expanded => {
            run.graph.nodes.get(row.node).map(|node| RowId::FanOut(node.name.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::samples::run_model;

    fn shown(expanded: &[&str], filter: &str) -> Vec<String> {
        let run = run_model();
        let expanded = expanded.iter().map(ToString::to_string).collect();
        let name = |row: &TreeRow| match id_of(&run, row).unwrap() {
            RowId::Stage(key) => format!("{}{key}", "  ".repeat(row.depth)),
            RowId::FanOut(name) => format!("{}{name} {:?}", "  ".repeat(row.depth), row.kind),
        };
        rows(&run, &expanded, filter).iter().map(name).collect()
    }

    #[test]
    fn fan_outs_are_one_row_until_they_are_expanded() {
        assert_eq!(shown(&[], ""), ["data", "  sft", "    rl Collapsed", "      evaluate"]);
        assert_eq!(
            shown(&["rl"], ""),
            [
                "data",
                "  sft",
                "    rl Expanded",
                "      rl[seed=1]",
                "      rl[seed=2]",
                "      rl[seed=3]",
                "      evaluate"
            ]
        );
    }

    #[test]
    fn filter_keeps_matching_stages_and_expands_their_fan_out() {
        assert_eq!(shown(&[], "seed=2"), ["    rl Expanded", "      rl[seed=2]"]);
        assert_eq!(shown(&[], "nothing"), Vec::<String>::new());
    }

    #[test]
    fn totals_count_stages_that_are_over() {
        let run = run_model();
        assert_eq!(totals(run.stages.iter()), (3, 6));
        assert_eq!(counts(&run, 2), BTreeMap::from([("done", 1), ("running", 1), ("waiting", 1)]));
    }
}
