//! Reads the ids by which a row names its sources.

use super::ID;
use super::node::Relation;
use super::row::LinkedRow;
use std::collections::HashSet;
use trainyard_core::ArtifactKind;

/// Id by which a row is linked to another row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowLink {
    /// Id of the linked row.
    pub id: String,
    /// Relation that the link stands for.
    pub relation: Relation,
    /// Whether the row says that it was made from the linked one, so that a link to nowhere is shown.
    pub is_source: bool,
}

/// Returns the ids by which a row is linked to rows of the inputs, each once.
pub fn links(cells: &LinkedRow) -> Vec<RowLink> {
    let parents: HashSet<&str> = cells.parents().collect();
    let kept = cells.text(ID).map(|id| (id, Relation::Kept));
    let problem = cells.text("problem_id").map(|id| (id, Relation::Problem));
    let others = cells.parents().chain(cells.packed()).map(|id| (id, Relation::Parent));
    let mut known = HashSet::new();
    let each = kept.into_iter().chain(problem).chain(others).filter(|(id, _)| known.insert(*id));
    each.map(|(id, relation)| RowLink { id: id.to_string(), relation, is_source: parents.contains(id) }).collect()
}

/// Returns the ids by which a row is linked to rows of the same stage: the rollout of a result, and that of a fork.
pub fn own_links(cells: &LinkedRow) -> Vec<RowLink> {
    let columns = [("rollout", Relation::Rollout), ("fork_of", Relation::Fork)];
    let link = |id: &str, relation| RowLink { id: id.to_string(), relation, is_source: true };
    columns.into_iter().filter_map(|(column, relation)| Some(link(cells.text(column)?, relation))).collect()
}

/// Returns the ids of links.
pub fn ids(links: &[RowLink]) -> HashSet<String> {
    links.iter().map(|link| link.id.clone()).collect()
}

/// Returns whether a parent is a place in a file, `FILE:NUMBER`.
pub fn is_place(parent: &str) -> bool {
    let Some((file, number)) = parent.rsplit_once(':') else { return false };
    !file.is_empty() && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the relation to a row of an input: a rollout with the id of its problem is not that problem, kept.
pub fn relation_to(kind: ArtifactKind, relation: Relation, cells: &LinkedRow) -> Relation {
    let is_answer = kind == ArtifactKind::Problems && cells.text("problem_id").is_some();
    if relation == Relation::Kept && is_answer { Relation::Problem } else { relation }
}
