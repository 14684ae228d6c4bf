//! The nodes of a cluster: what each has, and whether any could ever hold a job.
//!
//! Ray keeps a job that no node can hold pending without a word about it.

use super::amounts::Amounts;
use serde::Deserialize;

/// Where Ray tells its living nodes; it would list the dead ones of the last days too. Without a limit it tells 100.
pub(super) const PATH: &str = "/api/v0/nodes?limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE";

/// Where Ray tells what is in use.
pub(super) const USAGE: &str = "/api/cluster_status?format=1";

/// One machine of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Its name; its address where it was given none.
    pub(super) name: String,
    /// All that it has.
    pub(super) total: Amounts,
}

/// Ray's answer, as far as it is read.
#[derive(Deserialize)]
pub(super) struct Listed {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    result: Rows,
}

#[derive(Deserialize)]
struct Rows {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    node_ip: String,
    #[serde(default)]
    node_name: String,
    state: String,
    #[serde(default)]
    resources_total: Amounts,
}

/// The nodes of an answer that are alive, by name.
pub(super) fn alive(listed: Listed) -> Vec<Node> {
    let rows = listed.data.result.result.into_iter().filter(|row| row.state == "ALIVE");
    let node = |row: Row| Node {
        name: if row.node_name.is_empty() { row.node_ip } else { row.node_name },
        total: row.resources_total.without_internals(),
    };
    let mut nodes: Vec<Node> = rows.map(node).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

/// Why no node could hold a job, even if it were idle; none if one could, or if no node is known.
pub(super) fn misfit(nodes: &[Node], request: &Amounts) -> Option<String> {
    let lacks = |node: &&Node| node.total.lacks(request).len();
    let nearest = nodes.iter().min_by_key(lacks)?;
    let lacking = nearest.total.lacks(request);
    if lacking.is_empty() {
        return None;
    }
    let (has, lacking) = (&nearest.total, lacking.join(", "));
    Some(format!("no node has {request}; the nearest, {}, has too little {lacking}: it has {has}", nearest.name))
}

/// Ray's answer about what is in use, as far as it is read.
#[derive(Deserialize)]
pub(super) struct Used {
    data: Text,
}

#[derive(Deserialize)]
struct Text {
    #[serde(rename = "clusterStatus")]
    status: String,
}

/// The part of the answer that is about resources, without its heading.
pub(super) fn usage(used: Used) -> String {
    let text = used.data.status;
    let from = text.find("Total Usage:").unwrap_or(0);
    text[from..].trim_end().to_string()
}
