//! Walks from a row back to its sources.

use super::ID;
use super::inputs::{InputReader, OutputRows, Place, place};
use super::links::{RowLink, ids, is_place, links, own_links, relation_to};
use super::node::{LineageNode, Relation};
use super::row::LinkedRow;
use crate::find::ResolvedOutput;
use crate::table;
use std::collections::HashSet;
use trainyard_core::{ArtifactKind, ArtifactRef, Error, Manifest, Result};
use trainyard_store::Store;

/// Maximum nodes of a lineage.
const MAX_NODES: usize = 500;
/// Note of a node whose sources are left out because of [`MAX_NODES`].
const LONGER: &str = "the lineage is longer";

/// Walks from a row of an artifact to its sources. Reads columns of ids in a thread for blocking work.
///
/// Errors: invalid (not a table, no such row), those of the store.
pub async fn sources(store: &Store, artifact: &str, found: ResolvedOutput, row: usize) -> Result<LineageNode> {
    table::open(store, artifact, &found).await?;
    let mut walk = SourceWalk { reader: InputReader::new(store.clone()), nodes: 0 };
    let work = tokio::task::spawn_blocking(move || {
        walk.row(Relation::Row, &found.manifest, &found.port, row, &mut HashSet::new())
    });
    work.await.map_err(|e| Error::bug(format!("the walk of a lineage ended early: {e}")))?
}

struct SourceWalk {
    reader: InputReader,
    nodes: usize,
}

/// Rows above the present one, by output and number.
type RowsAbove = HashSet<(Place, usize)>;

impl SourceWalk {
    /// Returns the node of a row. `above` has the rows between it and the requested one.
    fn row(
        &mut self,
        relation: Relation,
        manifest: &Manifest,
        port: &str,
        row: usize,
        above: &mut RowsAbove,
    ) -> Result<LineageNode> {
        let cells = self.reader.row(manifest, port, row)?;
        let mut node = LineageNode {
            row: Some(row as u64),
            id: cells.text(ID).or_else(|| cells.text("rollout")).map(ToString::to_string),
            text: cells.excerpt(),
            ..LineageNode::of_output(relation, manifest, port)
        };
        self.nodes += 1;
        let key = (place(manifest, port), row);
        if self.nodes > MAX_NODES {
            return Ok(node.with_note(LONGER));
        }
        if !above.insert(key.clone()) {
            return Ok(node.with_note("shown above"));
        }
        node.sources = self.sources_of(manifest, &cells, above)?;
        above.remove(&key);
        node.note = self.note(manifest, &cells, &node.sources)?;
        Ok(node)
    }

    /// Returns the sources of a row of a stage: rows of the inputs, rows of other outputs, models, places in files.
    fn sources_of(
        &mut self,
        manifest: &Manifest,
        cells: &LinkedRow,
        above: &mut RowsAbove,
    ) -> Result<Vec<LineageNode>> {
        let (mut sources, mut links) = (Vec::new(), links(cells));
        let own = own_links(cells);
        let rows = self.reader.find_in_outputs(manifest, ids(&own))?;
        for link in own {
            match self.linked(manifest, &link, &rows, above)? {
                // The rollout of a result leads to its problem and its model.
                Some(found) if link.relation == Relation::Rollout => return Ok(vec![found]),
                Some(found) => sources.push(found),
                None => links.push(link),
            }
        }
        let inputs: Vec<ArtifactRef> = manifest.inputs.values().flatten().cloned().collect();
        for input in &inputs {
            sources.extend(self.in_input(input, cells, &mut links, above)?);
        }
        let is_kept = has_kept(&sources);
        // An import writes demonstrations and their problems side by side.
        links.retain(|link| link.relation != Relation::Kept);
        let rows = self.reader.find_in_outputs(manifest, ids(&links))?;
        for link in &links {
            match self.linked(manifest, link, &rows, above)? {
                Some(found) => sources.push(found),
                // The source of a kept row has the same links.
                None if is_kept || !link.is_source => {}
                None if is_place(&link.id) => {
                    sources.push(LineageNode::without_artifact(Relation::Source, &link.id));
                }
                None => sources.push(unknown_row(link, &manifest.kind)),
            }
        }
        if let Some(digest) = cells.text("model_digest").filter(|_| !is_kept) {
            sources.extend(self.models(manifest, &inputs, digest)?);
        }
        Ok(sources)
    }

    /// Returns the rows of an input that links lead to, and takes these links out of the list.
    fn in_input(
        &mut self,
        input: &ArtifactRef,
        cells: &LinkedRow,
        links: &mut Vec<RowLink>,
        above: &mut RowsAbove,
    ) -> Result<Vec<LineageNode>> {
        let (mut sources, mut others) = (Vec::new(), Vec::new());
        let Some(made) = self.reader.manifest(input)? else { return Ok(sources) };
        let rows = self.reader.find(&made, &input.output, &ids(links))?;
        for link in std::mem::take(links) {
            match rows.get(&link.id) {
                Some(row) => {
                    let shown = relation_to(input.kind, link.relation, cells);
                    sources.push(self.row(shown, &made, &input.output, *row, above)?);
                }
                None => others.push(link),
            }
        }
        *links = others;
        Ok(sources)
    }

    /// Returns the node of the row of a stage that a link leads to, if any.
    fn linked(
        &mut self,
        manifest: &Manifest,
        link: &RowLink,
        rows: &OutputRows,
        above: &mut RowsAbove,
    ) -> Result<Option<LineageNode>> {
        let Some((port, row)) = rows.get(&link.id) else { return Ok(None) };
        self.row(link.relation, manifest, port, *row, above).map(Some)
    }

    /// Returns the inputs that are the model of a digest, or else all models among the inputs.
    fn models(&mut self, manifest: &Manifest, inputs: &[ArtifactRef], digest: &str) -> Result<Vec<LineageNode>> {
        let mut models: Vec<&ArtifactRef> = Vec::new();
        for input in inputs.iter().filter(|input| input.kind == ArtifactKind::Model) {
            if !models.contains(&input) {
                models.push(input);
            }
        }
        let exact: Vec<&ArtifactRef> =
            models.iter().copied().filter(|input| input.digest.to_string() == digest).collect();
        let note = match exact.len() {
            0 if models.is_empty() => {
                let note = format!("no input of `{}` is this model", manifest.kind);
                return Ok(vec![LineageNode::without_artifact(Relation::Model, digest).with_note(note)]);
            }
            0 => Some("the row names other weights".to_string()),
            1 => None,
            same => Some(format!("one of {same} inputs with the same weights")),
        };
        let chosen = if exact.is_empty() { models } else { exact };
        let mut nodes = Vec::new();
        for input in chosen {
            let node = self.model(input)?;
            nodes.push(LineageNode { note: node.note.clone().or_else(|| note.clone()), ..node });
        }
        Ok(nodes)
    }

    /// Returns the node of a model, with the models that it was made from.
    fn model(&mut self, input: &ArtifactRef) -> Result<LineageNode> {
        self.nodes += 1;
        let Some(manifest) = self.reader.manifest(input)? else {
            let digest = input.digest.to_string();
            return Ok(LineageNode::without_artifact(Relation::Model, &digest).with_note("no longer in the store"));
        };
        let mut node = LineageNode::of_output(Relation::Model, &manifest, &input.output);
        if self.nodes > MAX_NODES {
            return Ok(node.with_note(LONGER));
        }
        for (name, inputs) in &manifest.inputs {
            for input in inputs {
                node.inputs.push(self.reader.counted(name, input)?);
                if input.kind == ArtifactKind::Model {
                    node.sources.push(self.model(input)?);
                }
            }
        }
        Ok(node)
    }

    /// Says why a row has no sources, or which inputs may have had more of them.
    fn note(&mut self, manifest: &Manifest, cells: &LinkedRow, sources: &[LineageNode]) -> Result<Option<String>> {
        if has_kept(sources) || sources.iter().any(|source| source.relation == Relation::Rollout) {
            return Ok(None);
        }
        let lost = self.reader.lost(manifest)?;
        if !lost.is_empty() {
            return Ok(Some(format!("no longer in the store: {}", lost.join(", "))));
        }
        Ok(sources.is_empty().then(|| end(manifest, cells)))
    }
}

fn has_kept(sources: &[LineageNode]) -> bool {
    sources.iter().any(|source| source.relation == Relation::Kept)
}

/// Returns the node of a row that is in no table of a stage.
fn unknown_row(link: &RowLink, kind: &str) -> LineageNode {
    let note = format!("no input or other output of `{kind}` has a row with this id");
    LineageNode::without_artifact(link.relation, &link.id).with_note(note)
}

/// Says why a row has no sources.
fn end(manifest: &Manifest, cells: &LinkedRow) -> String {
    if manifest.inputs.values().any(|inputs| !inputs.is_empty()) {
        return format!("`{}` does not name the rows that it was made from", manifest.kind);
    }
    let source = cells.text("source").map(|source| format!(" from {source}")).unwrap_or_default();
    format!("made by `{}`{source}", manifest.kind)
}
