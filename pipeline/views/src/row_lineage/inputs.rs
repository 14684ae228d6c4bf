//! Reads the inputs of stages in the store, each manifest and table once.

use super::ID;
use super::node::{CountedInput, artifact_name};
use super::row::LinkedRow;
use crate::find::ResolvedOutput;
use crate::table;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tokio::runtime::Handle;
use trainyard_core::{ArtifactRef, Error, ErrorKind, Manifest, Result};
use trainyard_store::Store;
use trainyard_tables::{TableSource, first_rows};

/// Place of an artifact: stage digest, generation, output.
pub type Place = (String, u32, String);
/// Output and row of each found id.
pub type OutputRows = HashMap<String, (String, usize)>;

/// Returns the place of an output.
pub fn place(manifest: &Manifest, port: &str) -> Place {
    (manifest.stage_digest.to_string(), manifest.generation, port.to_string())
}

/// Maximum rows of a small table.
const SMALL_ROWS: u64 = 64;
/// Maximum bytes of a small table, whose rows are read at once: opening a table takes longer than reading a few rows.
const SMALL_BYTES: u64 = 64 << 10;

/// Rows of a small table.
type SmallTable = Arc<[LinkedRow]>;

/// Reader of manifests and tables that blocks its thread.
pub struct InputReader {
    store: Store,
    runtime: Handle,
    manifests: BTreeMap<(String, u32), Option<Manifest>>,
    tables: BTreeMap<Place, Option<TableSource>>,
    /// `None` for other tables.
    small: BTreeMap<Place, Option<SmallTable>>,
}

impl InputReader {
    /// Creates a reader. Must be called in the context of a runtime, and used in a thread for blocking work.
    pub fn new(store: Store) -> Self {
        let (manifests, tables, small) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { store, runtime: Handle::current(), manifests, tables, small }
    }
    /// Returns the manifest of an input; `None` if it is no longer in the store.
    pub fn manifest(&mut self, input: &ArtifactRef) -> Result<Option<Manifest>> {
        let key = (input.stage_digest.to_string(), input.generation);
        if let Some(known) = self.manifests.get(&key) {
            return Ok(known.clone());
        }
        let found = self.runtime.block_on(self.store.manifest_at(&input.stage_digest, input.generation))?;
        self.manifests.insert(key, found.clone());
        Ok(found)
    }
    /// Reads a row of an output. Errors: lost (the table), those of reading it.
    pub fn row(&mut self, manifest: &Manifest, port: &str, row: usize) -> Result<LinkedRow> {
        if let Some(cells) = self.small(manifest, port)?.and_then(|rows| rows.get(row).cloned()) {
            return Ok(cells);
        }
        let lost = || Error::lost(format!("{} is no longer in the store", artifact_name(manifest, port)));
        LinkedRow::read(&self.table(manifest, port)?.ok_or_else(lost)?, row)
    }
    /// Returns the first row of each of these ids that an output has, in one pass over its ids.
    pub fn find(&mut self, manifest: &Manifest, port: &str, ids: &HashSet<String>) -> Result<HashMap<String, usize>> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let Some(rows) = self.small(manifest, port)? else {
            return self.table(manifest, port)?.map_or_else(|| Ok(HashMap::new()), |table| first_rows(&table, ID, ids));
        };
        let mut found = HashMap::new();
        for (row, cells) in rows.iter().enumerate() {
            if let Some(id) = cells.text(ID).filter(|id| ids.contains(*id)) {
                found.entry(id.to_string()).or_insert(row);
            }
        }
        Ok(found)
    }
    /// Returns the rows of a small table; `None` for other outputs.
    fn small(&mut self, manifest: &Manifest, port: &str) -> Result<Option<SmallTable>> {
        let key = place(manifest, port);
        if let Some(known) = self.small.get(&key) {
            return Ok(known.clone());
        }
        let is_small = manifest.outputs.get(port).is_some_and(|output| {
            output.table.as_ref().is_some_and(|table| table.rows <= SMALL_ROWS)
                && output.files.iter().map(|file| file.size).sum::<u64>() <= SMALL_BYTES
        });
        let rows = match self.table(manifest, port)? {
            Some(table) if is_small => Some(LinkedRow::read_all(&table)?.into()),
            _ => None,
        };
        self.small.insert(key, rows.clone());
        Ok(rows)
    }
    /// Returns for each of these ids the first output of a stage that has it, and the row.
    pub fn find_in_outputs(&mut self, manifest: &Manifest, mut ids: HashSet<String>) -> Result<OutputRows> {
        let mut found = OutputRows::new();
        for port in manifest.outputs.keys() {
            for (id, row) in self.find(manifest, port, &ids)? {
                ids.remove(&id);
                found.insert(id, (port.clone(), row));
            }
        }
        Ok(found)
    }
    /// Names the inputs of a stage whose rows are no longer in the store.
    pub fn lost(&mut self, manifest: &Manifest) -> Result<Vec<String>> {
        let mut lost = Vec::new();
        for input in manifest.inputs.values().flatten() {
            match self.manifest(input)? {
                None => lost.push(unknown_name(input)),
                Some(made) => {
                    let is_table = made.outputs.get(&input.output).is_some_and(|output| output.table.is_some());
                    if is_table && self.table(&made, &input.output)?.is_none() {
                        lost.push(artifact_name(&made, &input.output));
                    }
                }
            }
        }
        Ok(lost)
    }
    /// Returns an input with its number of rows.
    pub fn counted(&mut self, name: &str, input: &ArtifactRef) -> Result<CountedInput> {
        let made = self.manifest(input)?;
        let output = made.as_ref().and_then(|made| made.outputs.get(&input.output));
        Ok(CountedInput {
            input: name.to_string(),
            artifact: made.as_ref().map_or_else(|| unknown_name(input), |made| artifact_name(made, &input.output)),
            stage_digest: input.stage_digest.to_string(),
            kind: input.kind.to_string(),
            rows: output.and_then(|output| output.table.as_ref()).map(|table| table.rows),
        })
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
}

/// Returns the name of an input whose manifest is no longer in the store.
fn unknown_name(input: &ArtifactRef) -> String {
    format!("{}/{}", input.stage_digest.short(), input.output)
}
