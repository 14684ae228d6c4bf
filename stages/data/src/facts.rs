//! Defines the names of facts about artifacts that stages pass to later stages before a run.

use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Facts, WiredInputs};

/// Environment of problems, as in their column `environment`.
pub const ENVIRONMENT: &str = "environment";
/// Columns `meta_…` of imported rows, by the first rows of their source: a sorted list of names.
pub const META_COLUMNS: &str = "meta_columns";

/// Returns the columns `meta_…` of the rows at a port; `None` unless those of all its artifacts are known.
pub fn meta_columns(inputs: &WiredInputs, port: &str) -> Option<BTreeSet<String>> {
    let lists: Vec<Vec<String>> = inputs
        .fact(port, META_COLUMNS)
        .map(|names| serde_json::from_value(names.clone()))
        .collect::<Result<_, _>>()
        .ok()?;
    (!lists.is_empty() && inputs.get(port) == Some(&lists.len())).then(|| lists.into_iter().flatten().collect())
}

/// Returns the facts of outputs whose rows are some of those at a port, by output.
pub fn of_rows<const N: usize>(inputs: &WiredInputs, port: &str, outputs: [&str; N]) -> BTreeMap<String, Facts> {
    let environment = inputs.shared_fact(port, ENVIRONMENT).map(|kind| (ENVIRONMENT.to_string(), kind.clone()));
    let columns = meta_columns(inputs, port).map(|names| (META_COLUMNS.to_string(), names.into_iter().collect()));
    let facts: Facts = environment.into_iter().chain(columns).collect();
    outputs.map(|output| (output.to_string(), facts.clone())).into()
}
