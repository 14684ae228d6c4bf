//! Fetches the input artifacts of an attempt into local folders.

use std::collections::BTreeMap;
use std::path::Path;
use trainyard_api::InputArtifact;
use trainyard_core::attempt::AttemptInput;
use trainyard_core::error::Context as _;
use trainyard_core::{Result, error::io_error};
use trainyard_store::Store;

/// `<folder>/<port>/<index>/…`; files of a local store are linked, others downloaded.
pub async fn materialize(
    store: &Store,
    inputs: &BTreeMap<String, Vec<AttemptInput>>,
    folder: &Path,
) -> Result<BTreeMap<String, Vec<InputArtifact>>> {
    let mut fetched = BTreeMap::new();
    for (port, list) in inputs {
        let mut artifacts = Vec::with_capacity(list.len());
        for (index, input) in list.iter().enumerate() {
            let place = folder.join(port).join(index.to_string());
            std::fs::create_dir_all(&place).map_err(|e| io_error(&place, &e))?;
            store.fetch_input(input, &place).await.at(format!("input `{port}`"))?;
            artifacts.push(InputArtifact {
                kind: input.output.kind,
                digest: input.output.digest.clone(),
                stage_digest: input.stage_digest.clone(),
                folder: place,
                metadata: input.output.metadata.clone(),
            });
        }
        fetched.insert(port.clone(), artifacts);
    }
    Ok(fetched)
}
