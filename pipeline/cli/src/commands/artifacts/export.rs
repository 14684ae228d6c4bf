//! Copies an artifact out of the store: a folder of its files, or a table as `.csv` or `.jsonl`.

use crate::args::Format;
use crate::exit::Exit;
use crate::names;
use crate::output::human::{print_json, print_text};
use crate::session::Session;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// The ending of `to` decides: `.csv` and `.jsonl` take the rows of a table, anything else is a folder.
pub fn run(session: &Session, artifact: &str, to: &Path, format: Format) -> Result<Exit> {
    let found = session.block_on(names::artifact(&session.store, artifact))?;
    let folder = tempfile::tempdir().map_err(|e| Error::retryable(format!("no scratch folder: {e}")))?;
    session.block_on(session.store.fetch_output(found.output(), folder.path()))?;
    let (files, rows) = match to.extension().and_then(|e| e.to_str()) {
        Some(extension @ ("csv" | "jsonl")) => {
            let rows = export_table(&folder.path().join("data.parquet"), extension, to)?;
            (vec![to.display().to_string()], Some(rows))
        }
        _ => (copy_files(folder.path(), found.output().files.iter().map(|f| f.path.as_str()), to)?, None),
    };
    match format {
        Format::Json => print_json(&json!({"artifact": artifact, "files": files, "rows": rows}))?,
        Format::Text => print_text(&format!("wrote {} to {}", amount(files.len(), rows), to.display())),
    }
    Ok(Exit::Done)
}

fn amount(files: usize, rows: Option<u64>) -> String {
    match (files, rows) {
        (_, Some(rows)) => format!("{rows} rows"),
        (1, None) => "1 file".into(),
        (files, None) => format!("{files} files"),
    }
}

/// The number of rows.
fn export_table(table: &Path, extension: &str, to: &Path) -> Result<u64> {
    if !table.is_file() {
        return Err(Error::invalid(format!("a {extension} file can only hold a table, and this artifact is none"))
            .help("name a folder instead"));
    }
    let mut out = BufWriter::new(File::create(to).map_err(|e| io_error(to, &e))?);
    let rows = if extension == "csv" {
        trainyard_tables::export_csv(table, &mut out)?
    } else {
        trainyard_tables::export_jsonl(table, &mut out)?
    };
    out.flush().map_err(|e| io_error(to, &e))?;
    Ok(rows)
}

/// Copies, never links: what stands in the store must not change with an exported file. Gives the places of the copies.
fn copy_files<'a>(from: &Path, files: impl Iterator<Item = &'a str>, to: &Path) -> Result<Vec<String>> {
    let mut copies = Vec::new();
    for file in files {
        let place = to.join(file);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|e| io_error(parent, &e))?;
        }
        let mut source = File::open(from.join(file)).map_err(|e| io_error(&from.join(file), &e))?;
        let mut target = File::create(&place).map_err(|e| io_error(&place, &e))?;
        std::io::copy(&mut source, &mut target).map_err(|e| io_error(&place, &e))?;
        copies.push(place.display().to_string());
    }
    Ok(copies)
}
