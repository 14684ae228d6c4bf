//! Fetches an artifact to a scratch folder, which is removed when its handle is dropped.

use crate::session::AppSession;
use std::path::PathBuf;
use trainyard_app::ScratchFolder;
use trainyard_core::{Error, Result};
use trainyard_views::find::ResolvedOutput;

/// Fetches all files of an artifact. Errors: those of the store.
pub fn files(session: &AppSession, found: &ResolvedOutput) -> Result<ScratchFolder> {
    let folder = ScratchFolder::new()?;
    session.block_on(session.store.fetch_output(found.output(), folder.path()))?;
    Ok(folder)
}

/// Fetches the table of an artifact. Returns its scratch folder and the path of the table. Errors: invalid (not a
/// table), and those of the store.
pub fn table(session: &AppSession, artifact: &str, found: &ResolvedOutput) -> Result<(ScratchFolder, PathBuf)> {
    let output = found.output();
    if output.table.is_none() {
        return Err(Error::invalid(format!("{artifact} is a {}, not a table", output.kind))
            .help("`trainyard artifacts show` lists its files; export it into a folder"));
    }
    let folder = files(session, found)?;
    let table = folder.path().join("data.parquet");
    Ok((folder, table))
}
