//! Selects the part of the plan that a run covers: all stages, or those that `--until`, `--only` and `--rerun` name.

use crate::NodeId;
use trainyard_core::event::Selection;
use trainyard_core::{Error, Result, StageKey};

/// Permitted actions for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeMode {
    Run,
    /// Lookup only: an `--only` stage needs it, so it must be published already.
    LookupOnly,
    /// Not part of this run.
    Excluded,
}

/// Returns the mode of every node; nodes are in topological order, with their dependencies in `after`. Errors: invalid,
/// if an option names an unknown stage.
pub(crate) fn select(selection: &Selection, keys: &[&StageKey], after: &[Vec<NodeId>]) -> Result<Vec<NodeMode>> {
    let lists = [("--until", &selection.until), ("--only", &selection.only), ("--rerun", &selection.rerun)];
    for (option, list) in lists {
        if let Some(unknown) = list.iter().find(|name| !keys.iter().any(|k| names(std::slice::from_ref(*name), k))) {
            let mut ids: Vec<&str> = keys.iter().map(|k| k.stage_id()).collect();
            ids.dedup();
            ids.truncate(20);
            return Err(Error::invalid(format!("{option} names `{unknown}`, which is not a stage of this workflow"))
                .help(format!("stages are {}", ids.join(", "))));
        }
    }
    if selection.until.is_empty() && selection.only.is_empty() {
        return Ok(vec![NodeMode::Run; keys.len()]);
    }
    let mut modes = vec![NodeMode::Excluded; keys.len()];
    // From the end: the mode of a stage is known before those of the stages that it needs.
    for at in (0..keys.len()).rev() {
        if names(&selection.until, keys[at]) || names(&selection.only, keys[at]) {
            modes[at] = NodeMode::Run;
        }
        let runs_alone = names(&selection.only, keys[at]) || modes[at] == NodeMode::LookupOnly;
        for dep in after[at].iter().map(|d| d.0 as usize) {
            match modes[at] {
                NodeMode::Excluded => {}
                _ if runs_alone && modes[dep] == NodeMode::Excluded => modes[dep] = NodeMode::LookupOnly,
                NodeMode::Run if !runs_alone => modes[dep] = NodeMode::Run,
                _ => {}
            }
        }
    }
    Ok(modes)
}

/// Returns whether a list of the command line names this stage, by id or by instance key.
pub(crate) fn names(list: &[String], key: &StageKey) -> bool {
    list.iter().any(|name| *name == key.0 || name == key.stage_id())
}
