//! Opens the table of an artifact where it is: the file of a store on a disk, or ranges of an object of any other
//! store.

use crate::find::ResolvedOutput;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use tokio::runtime::Handle;
use trainyard_core::{Digest, Error, Result};
use trainyard_store::Store;
use trainyard_tables::{ReadRanges, TableSource};

/// File of a table in its artifact.
pub(crate) const DATA: &str = "data.parquet";
/// Bytes of a request. Decoders read headers of pages in small pieces, each of which would otherwise be a request.
const BLOCK: u64 = 512 << 10;
/// Maximum blocks kept.
const MAX_BLOCKS: usize = 64;

/// Opens the table of an artifact, which errors call `artifact`. Nothing but its footer and what is read of it leaves
/// the store; bytes are not checked against the digest, which would need all of them. Reading blocks the thread, which
/// must not be one of the runtime's asynchronous workers.
///
/// Errors: invalid (not a table), lost (the object is missing), those of the store.
pub async fn open(store: &Store, artifact: &str, found: &ResolvedOutput) -> Result<TableSource> {
    let output = found.output();
    let file = output.files.iter().find(|file| file.path == DATA).filter(|_| output.table.is_some());
    let file = file.ok_or_else(|| {
        Error::invalid(format!("{artifact} is a {}, not a table", output.kind))
            .help("`trainyard artifacts show` lists its files; export it into a folder")
    })?;
    store.require_objects(std::slice::from_ref(file)).await?;
    if let Some(path) = store.object_path(&file.digest) {
        return Ok(path.as_path().into());
    }
    let object = StoredObject {
        store: store.clone(),
        digest: file.digest.clone(),
        size: file.size,
        runtime: Handle::current(),
        blocks: Mutex::default(),
    };
    Ok(TableSource::of_object(artifact, Box::new(object)))
}

/// Object of a store, read in blocks.
struct StoredObject {
    store: Store,
    digest: Digest,
    size: u64,
    runtime: Handle,
    blocks: Mutex<BTreeMap<u64, Bytes>>,
}

impl StoredObject {
    /// Reads the blocks from `first` to `last` that are not there yet, adjacent ones by one request.
    fn fill(&self, blocks: &mut BTreeMap<u64, Bytes>, first: u64, last: u64) -> Result<()> {
        if blocks.len() > MAX_BLOCKS {
            blocks.clear();
        }
        let mut at = first;
        while at <= last {
            if blocks.contains_key(&at) {
                at += 1;
                continue;
            }
            let end = (at..=last).find(|block| blocks.contains_key(block)).unwrap_or(last + 1);
            let range = at * BLOCK..(end * BLOCK).min(self.size);
            let bytes = self.runtime.block_on(self.store.read_object_range(&self.digest, range))?;
            for block in at..end {
                let start = ((block - at) * BLOCK) as usize;
                blocks.insert(block, bytes.slice(start..bytes.len().min(start + BLOCK as usize)));
            }
            at = end;
        }
        Ok(())
    }
}

impl ReadRanges for StoredObject {
    fn size(&self) -> u64 {
        self.size
    }
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let (first, last) = (range.start / BLOCK, (range.end - 1) / BLOCK);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        self.fill(&mut blocks, first, last)?;
        let mut joined = Vec::with_capacity((range.end - range.start) as usize);
        for block in first..=last {
            let begin = block * BLOCK;
            let bytes = &blocks[&block];
            let from = range.start.saturating_sub(begin) as usize;
            let to = (range.end - begin).min(bytes.len() as u64) as usize;
            if first == last {
                return Ok(bytes.slice(from..to));
            }
            joined.extend_from_slice(&bytes[from..to]);
        }
        Ok(joined.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::artifact::TableSummary;
    use trainyard_core::{ArtifactKind, FileEntry, Manifest, Output};
    use trainyard_store::StoreOptions;
    use trainyard_tables::{TableBuilder, columns_as_json, rows_as_json};

    async fn stored(store: &Store, bytes: Bytes) -> ResolvedOutput {
        let (digest, size) = store.put_object(bytes).await.unwrap();
        let file: FileEntry = serde_json::from_value(json!({"path": DATA, "digest": digest, "size": size})).unwrap();
        let table = TableSummary { rows: 0, columns: Vec::new(), preview: Vec::new() };
        let output = Output::new(ArtifactKind::Table, vec![file], Some(table), Default::default()).unwrap();
        let manifest = json!({
            "format": 1, "stage_digest": Digest::of(b"s"), "generation": 0, "kind": "run", "kind_version": 1,
            "config": {}, "inputs": {}, "outputs": {"rows": output}, "metrics": {},
            "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
        });
        let manifest: Manifest = serde_json::from_value(manifest).unwrap();
        ResolvedOutput { manifest, port: "rows".into() }
    }

    fn table(rows: u64) -> Bytes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA);
        // Texts that do not compress, so that the table has several blocks.
        let texts = (0..rows).map(|i| Digest::of(&i.to_le_bytes()).to_string().repeat(2));
        TableBuilder::new().i64("n", 0..rows as i64).string("text", texts).write(&path).unwrap();
        std::fs::read(&path).unwrap().into()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rows_of_a_remote_table_equal_those_of_a_file() {
        let bytes = table(40_000);
        assert!(bytes.len() as u64 > 2 * BLOCK, "{} bytes", bytes.len());
        let remote = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let found = stored(&remote, bytes.clone()).await;
        let source = open(&remote, "r/s/rows", &found).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DATA);
        std::fs::write(&path, &bytes).unwrap();
        tokio::task::spawn_blocking(move || {
            for at in [0, 1, 16_383, 16_384, 39_999] {
                assert_eq!(rows_as_json(&source, at, 2).unwrap(), rows_as_json(&path, at, 2).unwrap());
            }
            assert_eq!(columns_as_json(&source, &["n"]).unwrap(), columns_as_json(&path, &["n"]).unwrap());
            assert_eq!(rows_as_json(&source, 0, 40_000).unwrap(), rows_as_json(&path, 0, 40_000).unwrap());
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn missing_objects_and_other_kinds_are_errors() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let mut found = stored(&store, table(1)).await;
        let other = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let error = open(&other, "r/s/rows", &found).await.err().unwrap();
        assert_eq!(error.kind, trainyard_core::ErrorKind::Lost, "{error}");
        found.manifest.outputs.get_mut("rows").unwrap().table = None;
        let error = open(&store, "r/s/rows", &found).await.err().unwrap();
        assert!(error.message.ends_with("not a table"), "{error}");
    }
}
