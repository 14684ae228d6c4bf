//! Walks from a row forward, through the stages of its run, to the rows that were made from it.

use super::ID;
use super::node::artifact_name;
use super::row::LinkedRow;
use crate::find::ResolvedOutput;
use crate::table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio::runtime::Handle;
use trainyard_core::{ArtifactKind, Error, ErrorKind, Manifest, Result, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_store::Store;
use trainyard_tables::find_rows;

/// Columns by which a row names rows that it was made from.
const LINKS: [&str; 6] = [ID, "problem_id", "parents", "rollout", "trajectories", "trajectory"];
/// Maximum rows of a table that the walk follows.
const MAX_ROWS: usize = 1_000;
/// Rows that are shown of a table.
const SHOWN_ROWS: usize = 5;

/// Row of a table of descendants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescendantRow {
    /// Number of the row, from 0.
    pub row: u64,
    /// Id of the row.
    pub id: Option<String>,
}

/// Artifact with rows that were made from the requested row, or that was made from a table with such rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescendantTable {
    /// Artifact, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Digest of the stage, used in `/artifacts/{digest}/{output}`.
    pub stage_digest: String,
    /// Kind of the stage that made it.
    pub stage_kind: String,
    /// Kind of the artifact.
    pub kind: String,
    /// Number of rows that name the requested row or one of its descendants, at most 1000; null if the artifact is not
    /// a table.
    pub rows: Option<u64>,
    /// First of these rows.
    pub first: Vec<DescendantRow>,
}

/// Artifacts that were made from a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Descendants {
    /// Artifacts, in the order of the run's stages.
    pub artifacts: Vec<DescendantTable>,
}

/// Walks from a row of a stage's output to its descendants in the run. Columns of ids are read in a thread for blocking
/// work.
///
/// Errors: invalid (not a table, no such row), those of the store.
pub async fn descendants(
    store: &Store,
    artifact: &str,
    found: ResolvedOutput,
    (view, stage): (RunView, StageKey),
    row: usize,
) -> Result<Descendants> {
    let table = table::open(store, artifact, &found).await?;
    let (store, runtime) = (store.clone(), Handle::current());
    let work = tokio::task::spawn_blocking(move || {
        let cells = LinkedRow::read(&table, row)?;
        let ids: HashSet<String> =
            cells.text(ID).or_else(|| cells.text("rollout")).map(str::to_string).into_iter().collect();
        DescendantWalk { store, runtime, ids: BTreeMap::new() }.run(&view, (&stage, &found.port), ids)
    });
    work.await.map_err(|e| Error::bug(format!("the walk of a lineage ended early: {e}")))?
}

struct DescendantWalk {
    store: Store,
    runtime: Handle,
    /// Ids of the rows that were reached, by stage and output; an output without ids is a model or other files.
    ids: BTreeMap<(StageKey, String), HashSet<String>>,
}

impl DescendantWalk {
    /// Visits the stages in the order of the plan, in which every stage follows its inputs.
    fn run(mut self, view: &RunView, (stage, port): (&StageKey, &str), ids: HashSet<String>) -> Result<Descendants> {
        self.ids.insert((stage.clone(), port.to_string()), ids);
        let mut reached = BTreeSet::from([stage.clone()]);
        let mut artifacts = Vec::new();
        let mut digests = BTreeMap::new();
        for stage in &view.stages {
            let (Some(digest), Some(generation)) = (&stage.digest, stage.generation) else { continue };
            digests.insert(digest.to_string(), stage.key().clone());
            if !stage.after.iter().any(|before| reached.contains(before)) {
                continue;
            }
            let Some(manifest) = self.runtime.block_on(self.store.manifest_at(digest, generation))? else { continue };
            let found = self.stage(stage.key(), &manifest, &digests)?;
            if !found.is_empty() {
                reached.insert(stage.key().clone());
                artifacts.extend(found);
            }
        }
        Ok(Descendants { artifacts })
    }

    /// Returns the outputs of a stage that were made from reached rows.
    fn stage(
        &mut self,
        key: &StageKey,
        manifest: &Manifest,
        digests: &BTreeMap<String, StageKey>,
    ) -> Result<Vec<DescendantTable>> {
        let mut wanted: HashSet<String> = HashSet::new();
        let mut is_made_from = false;
        for input in manifest.inputs.values().flatten() {
            let Some(stage) = digests.get(&input.stage_digest.to_string()) else { continue };
            if let Some(ids) = self.ids.get(&(stage.clone(), input.output.clone())) {
                is_made_from = true;
                wanted.extend(ids.iter().cloned());
            }
        }
        let mut found = Vec::new();
        if !is_made_from {
            return Ok(found);
        }
        for (port, output) in &manifest.outputs {
            let ids = match output.table {
                Some(_) => self.rows(manifest, port, &wanted)?,
                None => None,
            };
            let is_model = output.kind == ArtifactKind::Model;
            if ids.is_none() && !is_model {
                continue;
            }
            found.push(DescendantTable {
                artifact: artifact_name(manifest, port),
                stage_digest: manifest.stage_digest.to_string(),
                stage_kind: manifest.kind.clone(),
                kind: output.kind.to_string(),
                rows: ids.as_ref().map(|rows| rows.len() as u64),
                first: ids.iter().flatten().take(SHOWN_ROWS).cloned().collect(),
            });
            let reached = ids.into_iter().flatten().filter_map(|row| row.id).collect();
            self.ids.insert((key.clone(), port.clone()), reached);
        }
        Ok(found)
    }

    /// Returns the rows of an output that name wanted ids; `None` without such rows.
    fn rows(&self, manifest: &Manifest, port: &str, wanted: &HashSet<String>) -> Result<Option<Vec<DescendantRow>>> {
        let found = ResolvedOutput { manifest: manifest.clone(), port: port.to_string() };
        let table = match self.runtime.block_on(table::open(&self.store, &artifact_name(manifest, port), &found)) {
            Ok(table) => table,
            Err(error) if error.kind == ErrorKind::Lost => return Ok(None),
            Err(error) => return Err(error),
        };
        let rows = find_rows(&table, &LINKS, wanted, ID, MAX_ROWS)?;
        let rows: Vec<DescendantRow> =
            rows.into_iter().map(|(row, id)| DescendantRow { row: row as u64, id }).collect();
        Ok((!rows.is_empty()).then_some(rows))
    }
}
