//! Walks from a row back to its sources.

use super::ID;
use super::row::LinkedRow;
use crate::find::ResolvedOutput;
use crate::table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use tokio::runtime::Handle;
use trainyard_core::{ArtifactKind, ArtifactRef, Error, ErrorKind, Manifest, Result};
use trainyard_store::Store;
use trainyard_tables::{TableSource, find_texts};

/// Maximum nodes of a lineage.
const MAX_NODES: usize = 500;

/// Why a node is among the sources of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The requested row.
    Row,
    /// The same row in the input that it was kept from.
    Kept,
    /// A row that it was made from.
    Parent,
    /// The problem that it answers.
    Problem,
    /// The rollout that it judges.
    Rollout,
    /// The rollout that it was forked from.
    Fork,
    /// The model that made it, or that this model was made from.
    Model,
    /// The place in a file that it was read from.
    Source,
}

/// Input of the stage that made a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedInput {
    /// Name of the input.
    pub input: String,
    /// Artifact, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Kind of the artifact.
    pub kind: String,
    /// Number of rows of a table.
    pub rows: Option<u64>,
}

/// A row, model or place in a file, with its own sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineageNode {
    /// Relation to the node that it is a source of.
    pub relation: Relation,
    /// Artifact of the row or model, as `RUN/STAGE/OUTPUT`; null for a place in a file.
    pub artifact: Option<String>,
    /// Kind of the stage that made the artifact.
    pub stage_kind: Option<String>,
    /// Number of the row, from 0.
    pub row: Option<u64>,
    /// Id of the row, or the place in a file.
    pub id: Option<String>,
    /// Beginning of the row's question or answer.
    pub text: Option<String>,
    /// Inputs of the stage that made a model.
    pub inputs: Vec<CountedInput>,
    /// Rows, models and files that the node was made from.
    pub sources: Vec<Self>,
    /// Reason why the walk ends at this node.
    pub note: Option<String>,
}

/// Walks from a row of an artifact to its sources. Reads columns of ids in a thread for blocking work.
///
/// Errors: invalid (not a table, no such row), those of the store.
pub async fn sources(store: &Store, artifact: &str, found: ResolvedOutput, row: usize) -> Result<LineageNode> {
    table::open(store, artifact, &found).await?;
    let mut walk = SourceWalk {
        store: store.clone(),
        runtime: Handle::current(),
        manifests: BTreeMap::new(),
        tables: BTreeMap::new(),
        nodes: 0,
    };
    let work = tokio::task::spawn_blocking(move || {
        walk.row(Relation::Row, &found.manifest, &found.port, row, &mut HashSet::new())
    });
    work.await.map_err(|e| Error::bug(format!("the walk of a lineage ended early: {e}")))?
}

/// Place of an artifact: stage digest, generation, output.
type Place = (String, u32, String);

struct SourceWalk {
    store: Store,
    runtime: Handle,
    manifests: BTreeMap<(String, u32), Option<Manifest>>,
    tables: BTreeMap<Place, Option<TableSource>>,
    nodes: usize,
}

impl SourceWalk {
    /// Returns the node of a row. `above` has the rows between it and the requested one.
    fn row(
        &mut self,
        relation: Relation,
        manifest: &Manifest,
        port: &str,
        row: usize,
        above: &mut HashSet<(Place, usize)>,
    ) -> Result<LineageNode> {
        let table = self.table(manifest, port)?;
        let table =
            table.ok_or_else(|| Error::lost(format!("{} is no longer in the store", artifact_name(manifest, port))))?;
        let cells = LinkedRow::read(&table, row)?;
        let mut node = LineageNode {
            row: Some(row as u64),
            id: cells.text(ID).or_else(|| cells.text("rollout")).map(ToString::to_string),
            text: cells.excerpt(),
            ..node(relation, manifest, port)
        };
        self.nodes += 1;
        let key = (place(manifest, port), row);
        if self.nodes > MAX_NODES || !above.insert(key.clone()) {
            node.note = Some(if self.nodes > MAX_NODES { "the lineage is longer" } else { "shown above" }.to_string());
            return Ok(node);
        }
        node.sources = self.sources_of(manifest, &cells, above)?;
        above.remove(&key);
        if node.sources.is_empty() {
            node.note = Some(end(manifest, &cells));
        }
        Ok(node)
    }

    /// Returns the sources of a row of a stage: rows of the inputs, rows of other outputs, models, places in files.
    fn sources_of(
        &mut self,
        manifest: &Manifest,
        cells: &LinkedRow,
        above: &mut HashSet<(Place, usize)>,
    ) -> Result<Vec<LineageNode>> {
        let mut sources = Vec::new();
        let mut links = links(cells);
        let own = [("rollout", Relation::Rollout), ("fork_of", Relation::Fork)];
        for (id, relation) in own.iter().filter_map(|(column, relation)| Some((cells.text(column)?, *relation))) {
            for port in manifest.outputs.keys() {
                if let Some(row) = self.find(manifest, port, id)? {
                    sources.push(self.row(relation, manifest, port, row, above)?);
                    break;
                }
            }
        }
        // The rollout of a result leads to its problem and its model.
        if !sources.is_empty() && cells.text("rollout").is_some() {
            return Ok(sources);
        }
        let inputs: Vec<ArtifactRef> = manifest.inputs.values().flatten().cloned().collect();
        for input in &inputs {
            let Some(made) = self.manifest(input)? else { continue };
            let mut wanted: Vec<(String, Relation)> = Vec::new();
            for (id, relation) in &links {
                if let Some(row) = self.find(&made, &input.output, id)? {
                    let shown = relation_to(input.kind, *relation, cells);
                    sources.push(self.row(shown, &made, &input.output, row, above)?);
                    wanted.push((id.clone(), *relation));
                }
            }
            links.retain(|link| !wanted.contains(link));
        }
        // An import writes demonstrations and their problems side by side.
        for (id, relation) in links.iter().filter(|(_, relation)| *relation != Relation::Kept) {
            for port in manifest.outputs.keys() {
                if let Some(row) = self.find(manifest, port, id)? {
                    sources.push(self.row(*relation, manifest, port, row, above)?);
                    break;
                }
            }
        }
        if manifest.kind == IMPORT {
            sources.extend(cells.parents().filter(|place| is_place(place)).map(|place| LineageNode {
                relation: Relation::Source,
                artifact: None,
                stage_kind: None,
                row: None,
                id: Some(place.to_string()),
                text: None,
                inputs: Vec::new(),
                sources: Vec::new(),
                note: None,
            }));
        }
        sources.extend(self.models(&inputs, cells.text("model_digest"))?);
        Ok(sources)
    }

    /// Returns the model of a digest among the inputs, or else all of them, if a model made the row.
    fn models(&mut self, inputs: &[ArtifactRef], digest: Option<&str>) -> Result<Vec<LineageNode>> {
        let Some(digest) = digest else { return Ok(Vec::new()) };
        let models: Vec<&ArtifactRef> = inputs.iter().filter(|input| input.kind == ArtifactKind::Model).collect();
        let exact: Vec<&ArtifactRef> =
            models.iter().copied().filter(|input| input.digest.to_string() == digest).collect();
        let chosen = if exact.is_empty() { models } else { exact };
        chosen.into_iter().filter_map(|input| self.model(input).transpose()).collect()
    }

    /// Returns the node of a model, with the models that it was made from.
    fn model(&mut self, input: &ArtifactRef) -> Result<Option<LineageNode>> {
        self.nodes += 1;
        let Some(manifest) = self.manifest(input)? else { return Ok(None) };
        let mut node = node(Relation::Model, &manifest, &input.output);
        if self.nodes > MAX_NODES {
            node.note = Some("the lineage is longer".to_string());
            return Ok(Some(node));
        }
        for (name, inputs) in &manifest.inputs {
            for input in inputs {
                node.inputs.push(self.counted(name, input)?);
                if input.kind == ArtifactKind::Model {
                    node.sources.extend(self.model(input)?);
                }
            }
        }
        Ok(Some(node))
    }
    fn counted(&mut self, name: &str, input: &ArtifactRef) -> Result<CountedInput> {
        let made = self.manifest(input)?;
        let output = made.as_ref().and_then(|made| made.outputs.get(&input.output));
        Ok(CountedInput {
            input: name.to_string(),
            artifact: made.as_ref().map_or_else(
                || format!("{}/{}", input.stage_digest.short(), input.output),
                |made| artifact_name(made, &input.output),
            ),
            kind: input.kind.to_string(),
            rows: output.and_then(|output| output.table.as_ref()).map(|table| table.rows),
        })
    }

    /// Returns the manifest of an input; `None` if it is no longer in the store.
    fn manifest(&mut self, input: &ArtifactRef) -> Result<Option<Manifest>> {
        let key = (input.stage_digest.to_string(), input.generation);
        if let Some(known) = self.manifests.get(&key) {
            return Ok(known.clone());
        }
        let found = self.runtime.block_on(self.store.manifest_at(&input.stage_digest, input.generation))?;
        self.manifests.insert(key, found.clone());
        Ok(found)
    }
    /// Returns an output's table; `None` for other outputs, and if it is no longer in the store.
    fn table(&mut self, manifest: &Manifest, port: &str) -> Result<Option<TableSource>> {
        let key = place(manifest, port);
        if let Some(known) = self.tables.get(&key) {
            return Ok(known.clone());
        }
        let is_table = manifest.outputs.get(port).is_some_and(|output| output.table.is_some());
        let found = ResolvedOutput { manifest: manifest.clone(), port: port.to_string() };
        let opened = match is_table {
            true => match self.runtime.block_on(table::open(&self.store, &artifact_name(manifest, port), &found)) {
                Ok(table) => Some(table),
                Err(error) if error.kind == ErrorKind::Lost => None,
                Err(error) => return Err(error),
            },
            false => None,
        };
        self.tables.insert(key, opened.clone());
        Ok(opened)
    }
    /// Returns the row of an output that has an id, if any.
    fn find(&mut self, manifest: &Manifest, port: &str, id: &str) -> Result<Option<usize>> {
        let Some(table) = self.table(manifest, port)? else { return Ok(None) };
        let found = find_texts(&table, &[ID], &HashSet::from([id.to_string()]), 1)?;
        Ok(found.first().map(|found| found.row))
    }
}

/// Kind of the stage that reads files.
const IMPORT: &str = "data/import";

/// Returns the ids by which a row is linked to rows of the inputs, each once.
fn links(cells: &LinkedRow) -> Vec<(String, Relation)> {
    let mut links: Vec<(String, Relation)> = Vec::new();
    let kept = cells.text(ID).map(|id| (id, Relation::Kept));
    let problem = cells.text("problem_id").map(|id| (id, Relation::Problem));
    let parents = cells.parents().map(|id| (id, Relation::Parent));
    for (id, relation) in kept.into_iter().chain(problem).chain(parents) {
        if !links.iter().any(|(known, _)| known == id) {
            links.push((id.to_string(), relation));
        }
    }
    links
}

/// Returns whether the parent of an imported row is a place in a file, `FILE:NUMBER`.
fn is_place(parent: &str) -> bool {
    parent.rsplit_once(':').is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Returns the relation to a row of an input: a rollout with the id of its problem is not that problem, kept.
fn relation_to(kind: ArtifactKind, relation: Relation, cells: &LinkedRow) -> Relation {
    let is_answer = kind == ArtifactKind::Problems && cells.text("problem_id").is_some();
    if relation == Relation::Kept && is_answer { Relation::Problem } else { relation }
}

/// Says why a row has no sources.
fn end(manifest: &Manifest, cells: &LinkedRow) -> String {
    if manifest.inputs.values().any(|inputs| !inputs.is_empty()) {
        return format!("`{}` does not name the rows that it was made from", manifest.kind);
    }
    let source = cells.text("source").map(|source| format!(" from {source}")).unwrap_or_default();
    format!("made by `{}`{source}", manifest.kind)
}

fn node(relation: Relation, manifest: &Manifest, port: &str) -> LineageNode {
    LineageNode {
        relation,
        artifact: Some(artifact_name(manifest, port)),
        stage_kind: Some(manifest.kind.clone()),
        row: None,
        id: None,
        text: None,
        inputs: Vec::new(),
        sources: Vec::new(),
        note: None,
    }
}

fn place(manifest: &Manifest, port: &str) -> Place {
    (manifest.stage_digest.to_string(), manifest.generation, port.to_string())
}

/// Returns the name of an output, by the run that made it.
pub(super) fn artifact_name(manifest: &Manifest, port: &str) -> String {
    format!("{}/{}/{port}", manifest.provenance.run, manifest.provenance.stage)
}
