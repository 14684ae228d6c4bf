//! Fetches the input artifacts of an attempt to local folders.

use std::collections::BTreeMap;
use std::path::Path;
use trainyard_api::InputArtifact;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::error::Context as _;
use trainyard_core::{Result, error::io_error};
use trainyard_spec::run_stage::KIND as RUN_KIND;
use trainyard_store::{FetchMode, Store};

/// Fetches inputs to `<folder>/<port>/<index>/…`, and returns them by port. Files of a local store are linked, or
/// copied if the stage could change them through links; other files are downloaded.
pub async fn materialize(
    store: &Store,
    spec: &AttemptSpec,
    folder: &Path,
) -> Result<BTreeMap<String, Vec<InputArtifact>>> {
    let mode = mode(spec);
    let mut fetched = BTreeMap::new();
    for (port, list) in &spec.inputs {
        let mut artifacts = Vec::with_capacity(list.len());
        for (index, input) in list.iter().enumerate() {
            let place = folder.join(port).join(index.to_string());
            std::fs::create_dir_all(&place).map_err(|e| io_error(&place, &e))?;
            store.fetch_input(input, &place, mode).await.at(format!("input `{port}`"))?;
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

/// Chooses between links and copies. A link shares its bytes with the published file. Built-in kinds only read, and the
/// permissions of stored files protect them from other commands, except those of root.
fn mode(spec: &AttemptSpec) -> FetchMode {
    let ignores_permissions = spec.kind == RUN_KIND && rustix::process::geteuid().is_root();
    if ignores_permissions { FetchMode::Copy } else { FetchMode::Link }
}
