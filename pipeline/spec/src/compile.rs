//! From a path to a plan: read, expand, check, order.
//!
//! ```text
//! text ─yaml→ tree ─workflow→ raw file ─expand→ drafts ─check→ nodes ─order→ Plan
//! ```

use crate::check::{self, Checked};
use crate::diagnostic::{Diagnostic, Sources, sort_and_dedup};
use crate::expand::{Arguments, Expanded, expand, params::ParamValue};
use crate::files::{Files, absolute};
use crate::plan::{Node, Plan, When};
use crate::recipe::Recipe;
use crate::site::Site;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::digest::{Hasher, canonical_json};
use trainyard_core::{Digest, StageKey, StageKinds};

/// What a compilation reads.
pub struct Request<'a> {
    /// Reads the workflow file, its parents and embedded files, and digests of sources.
    pub files: &'a dyn Files,
    /// The workflow file; relative to the working directory.
    pub path: &'a Path,
    /// Absolute.
    pub working_directory: &'a Path,
    /// What stands after `-p`, in order: `name=value` or `@file`.
    pub params: &'a [String],
    /// The time of the tick that the workflow runs for: the value of its param `tick`, if it declares one and `params`
    /// gives it none.
    pub tick: Option<&'a str>,
    /// The stage kinds that `uses` may name.
    pub catalogue: &'a dyn StageKinds,
    /// Decides whether requests for resources can be met, and which secrets there are.
    pub site: &'a Site,
}

/// A plan if there is no error; all diagnostics, in file order; the texts that they point into.
pub struct Compiled {
    /// Present only if no diagnostic is an error.
    pub plan: Option<Plan>,
    /// That of the file itself, whatever else is wrong with it.
    pub recipe: Option<Recipe>,
    /// Errors, warnings and notes, in file order, without repetitions.
    pub diagnostics: Vec<Diagnostic>,
    /// Every text that was read; spans of the diagnostics index into it.
    pub sources: Sources,
}

impl Compiled {
    /// How many of the diagnostics are errors.
    pub fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|d| d.is_error()).count()
    }
}

/// Compiles a workflow file. Never fails otherwise than by diagnostics.
pub fn compile(request: &Request<'_>) -> Compiled {
    let path = absolute(request.working_directory, &request.path.to_string_lossy());
    let arguments = Arguments { params: request.params, tick: request.tick };
    let mut expanded = expand(request.files, request.catalogue, &path, request.working_directory, arguments);
    let mut diagnostics = std::mem::take(&mut expanded.diagnostics);
    let checked = check::check(&expanded, request.site);
    diagnostics.extend(checked.diagnostics.iter().cloned());
    let good = !diagnostics.iter().any(Diagnostic::is_error) && !expanded.spaces.is_empty();
    sort_and_dedup(&mut diagnostics);
    let plan = if good { assemble(&expanded, checked, &path) } else { None };
    let recipe = expanded.spaces.first().and_then(|main| main.workflow.recipe.clone());
    Compiled { plan, recipe, diagnostics, sources: expanded.sources }
}

fn assemble(expanded: &Expanded<'_>, checked: Checked, path: &Path) -> Option<Plan> {
    let order = checked.order?;
    let mut after: Vec<BTreeSet<&StageKey>> = vec![BTreeSet::new(); expanded.drafts.len()];
    for link in &checked.links {
        after[link.to].insert(expanded.key(link.from));
    }
    let mut by_draft = checked.nodes;
    let mut nodes = Vec::with_capacity(by_draft.len());
    for draft in &order.drafts {
        let mut node = by_draft[*draft].take()?;
        node.after = after[*draft].iter().map(|key| (*key).clone()).collect();
        nodes.push(node);
    }
    let main = &expanded.spaces[0];
    let params: BTreeMap<String, Value> = main
        .params
        .iter()
        .filter_map(
            |(name, value)| if let ParamValue::Known(v) = value { Some((name.clone(), v.clone())) } else { None },
        )
        .collect();
    let digest = digest(&main.workflow.name, &params, &nodes, &checked.outputs)?;
    Some(Plan {
        workflow: main.workflow.name.clone(),
        source: path.to_path_buf(),
        recipe: main.workflow.recipe.clone(),
        params,
        nodes,
        graph: order.graph,
        outputs: checked.outputs,
        schedule: checked.schedule,
        digest,
    })
}

/// Over everything that decides what a run does; comments, places and the file's own path do not count. It is that of
/// one JSON object, of which only one stage at a time is ever in memory.
fn digest(
    name: &str,
    params: &BTreeMap<String, Value>,
    nodes: &[Node],
    outputs: &BTreeMap<String, (StageKey, String)>,
) -> Option<Digest> {
    let mut hasher = Hasher::new();
    // Keys in the order of RFC 8785.
    hasher.update(b"{\"format\":1,\"nodes\":[");
    for (i, node) in nodes.iter().enumerate() {
        hasher.update(if i > 0 { b"," } else { b"" });
        hasher.update(&canonical_json(&summary(node)).ok()?);
    }
    hasher.update(b"],");
    let rest = canonical_json(&json!({"outputs": outputs, "params": params, "workflow": name})).ok()?;
    hasher.update(&rest[1..]);
    Some(hasher.finish())
}

fn summary(node: &Node) -> Value {
    let sources: BTreeMap<&str, &Digest> =
        node.sources.iter().map(|(pointer, s)| (pointer.as_str(), &s.digest)).collect();
    let inputs: Vec<Value> = node.inputs.iter().map(|i| json!([i.port, i.from])).collect();
    let mut summary = json!({
        "key": node.key,
        "kind": [node.kind, node.kind_version],
        "config": node.config,
        "sources": sources,
        "inputs": inputs,
        "after": node.after,
        "when": when_text(&node.when),
        "fan_out": node.fan_out.as_ref().map(|f| json!([f.rows_of, f.cap])),
        "checks": node.checks,
        "retry": format!("{:?}", node.retry),
        "timeout": node.timeout.map(|t| t.as_millis() as u64),
        "resources": node.resources,
        "cache": format!("{:?}", node.cache),
        "env": node.env,
        "secrets": node.secrets,
    });
    // Left out where a file says nothing, so that plans of older files keep their digests.
    if let Some(wait) = node.wait {
        summary["wait"] = json!(wait.as_millis() as u64);
    }
    if let Some(lead) = &node.beside {
        summary["beside"] = json!(lead);
    }
    summary
}

fn when_text(when: &When) -> String {
    match when {
        When::Always => "always".into(),
        When::Never(_) => "never".into(),
        When::Late(e) => e.to_string(),
    }
}

/// The stages that `until` needs, itself included, by key; for `--until`.
pub fn ancestors(plan: &Plan, until: &[usize]) -> Vec<usize> {
    let mut wanted: BTreeSet<usize> = until.iter().copied().collect();
    let mut stack = until.to_vec();
    while let Some(at) = stack.pop() {
        for from in plan.graph.neighbors_directed(petgraph::graph::NodeIndex::new(at), petgraph::Direction::Incoming) {
            if wanted.insert(from.index()) {
                stack.push(from.index());
            }
        }
    }
    wanted.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Cache, Retry};
    use crate::template::Template;
    use std::time::Duration;
    use trainyard_core::Placement;
    use trainyard_core::units::Backoff;

    fn node(key: &str) -> Node {
        Node {
            key: StageKey(key.into()),
            kind: "noop".into(),
            kind_version: 1,
            placement: Placement::InProcess,
            all_cpus: false,
            main_metric: None,
            config: Template::Literal(json!({"value": 0.5, "ä": key})),
            sources: BTreeMap::new(),
            inputs: Vec::new(),
            outputs: BTreeMap::new(),
            after: Vec::new(),
            when: When::Always,
            fan_out: None,
            checks: Vec::new(),
            retry: Retry {
                attempts: 1,
                backoff: Backoff { first: Duration::ZERO, most: Duration::ZERO },
                on: Vec::new(),
            },
            timeout: None,
            resources: vec![crate::plan::Request::default()],
            wait: None,
            beside: None,
            cache: Cache::Enabled,
            env: BTreeMap::new(),
            secrets: Vec::new(),
            description: String::new(),
            place: String::new(),
        }
    }

    #[test]
    fn the_digest_is_that_of_one_json_object() {
        let params = BTreeMap::from([("steps".to_string(), json!(1e2)), ("a \"b\"".to_string(), json!(null))]);
        let outputs = BTreeMap::from([("o".to_string(), (StageKey("s".into()), "x".to_string()))]);
        let nodes = ["first", "second"].map(node);
        for nodes in [&nodes[..0], &nodes[..1], &nodes[..]] {
            let summaries: Vec<Value> = nodes.iter().map(summary).collect();
            let whole = json!({"format": 1, "workflow": "w", "params": params, "nodes": summaries, "outputs": outputs});
            assert_eq!(digest("w", &params, nodes, &outputs), Digest::of_json(&whole).ok());
        }
    }
}
