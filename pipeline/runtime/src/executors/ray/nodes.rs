//! Parses the nodes of a Ray cluster, and determines whether any node could ever run a job.
//!
//! Ray itself keeps a job that fits no node pending without a message.

use super::resources::RayResources;
use serde::Deserialize;

/// Path of live nodes. Without the filter Ray also lists the dead nodes of the last days; without the limit it lists
/// 100 nodes.
pub(super) const PATH: &str = "/api/v0/nodes?limit=10000&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE";

/// Path of resource usage.
pub(super) const USAGE: &str = "/api/cluster_status?format=1";

/// Machine of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RayNode {
    /// Name, or the address if it has no name.
    pub(super) name: String,
    /// Total resources.
    pub(super) total: RayResources,
}

/// Ray's response, as far as it is read.
#[derive(Deserialize)]
pub(super) struct NodesResponse {
    data: NodesData,
}

#[derive(Deserialize)]
struct NodesData {
    result: NodesResult,
}

#[derive(Deserialize)]
struct NodesResult {
    result: Vec<NodeRow>,
}

#[derive(Deserialize)]
struct NodeRow {
    node_ip: String,
    #[serde(default)]
    node_name: String,
    state: String,
    #[serde(default)]
    resources_total: RayResources,
}

/// Returns the live nodes of a response, by name.
pub(super) fn alive(listed: NodesResponse) -> Vec<RayNode> {
    let rows = listed.data.result.result.into_iter().filter(|row| row.state == "ALIVE");
    let node = |row: NodeRow| RayNode {
        name: if row.node_name.is_empty() { row.node_ip } else { row.node_name },
        total: row.resources_total.without_internals(),
    };
    let mut nodes: Vec<RayNode> = rows.map(node).collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    nodes
}

/// Returns why no node could run a job, even if idle; `None` if one could, or if no node is known.
pub(super) fn infeasible_reason(nodes: &[RayNode], request: &RayResources) -> Option<String> {
    let lacks = |node: &&RayNode| node.total.lacks(request).len();
    let nearest = nodes.iter().min_by_key(lacks)?;
    let lacking = nearest.total.lacks(request);
    if lacking.is_empty() {
        return None;
    }
    let (has, lacking) = (&nearest.total, lacking.join(", "));
    Some(format!("no node has {request}; the nearest, {}, has too little {lacking}: it has {has}", nearest.name))
}

/// Ray's response about resource usage, as far as it is read.
#[derive(Deserialize)]
pub(super) struct UsageResponse {
    data: UsageData,
}

#[derive(Deserialize)]
struct UsageData {
    #[serde(rename = "clusterStatus")]
    status: String,
}

/// Returns the part of the response about resources, without its heading.
pub(super) fn usage(used: UsageResponse) -> String {
    let text = used.data.status;
    let from = text.find("Total Usage:").unwrap_or(0);
    text[from..].trim_end().to_string()
}
