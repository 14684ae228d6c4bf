//! Copies an artifact out of the store: its files into a folder, a table into one `.csv`, `.jsonl` or `.parquet` file,
//! or its rows in the format of another program.

mod card;
mod convert;
mod export_result;
mod table;

use super::fetch;
use crate::args::{ExportArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use export_result::{ExportResult, INSPECT_LOG, expect_room, extension};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use trainyard_app::Catalogue;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::write_complete;
use trainyard_views::find::{self, ResolvedOutput};

/// Exports an artifact in the format `--as`, else in that of the extension of `args.to`, else as its files in a folder.
/// Prints the written files.
pub fn run(session: &AppSession, args: &ExportArgs, catalogue: &Catalogue, format: OutputFormat) -> Result<CliExit> {
    if args.keep_formulas && args.format_as.as_deref().or(extension(&args.to)) != Some("csv") {
        return Err(Error::invalid("`--keep-formulas` has an effect on .csv files only").help("leave the option out"));
    }
    let found = session.block_on(find::artifact(&session.store, &args.artifact))?;
    let exported = match (args.format_as.as_deref(), extension(&args.to)) {
        (Some(name), _) if !convert::PLAIN_FORMATS.contains(&name) => {
            convert::run(session, args, &found, catalogue, name)?
        }
        (Some(name), _) => convert::export_plain(session, args, &found, name)?,
        (None, Some(INSPECT_LOG)) => {
            return Err(Error::invalid(format!(
                "{} is a log of Inspect, whose format is not named",
                args.to.display()
            ))
            .help("add `--as inspect`"));
        }
        (None, Some(ending)) => table::table(session, args, &found, ending, &args.to)?,
        (None, None) => folder(session, args, &found)?,
    };
    match format {
        OutputFormat::Json => {
            let mut document = json!({"artifact": args.artifact, "files": exported.files, "rows": exported.rows});
            if !exported.left_out.is_empty() {
                document["left_out"] = json!(exported.left_out);
            }
            if !exported.lost.is_empty() {
                document["lost"] = json!(exported.lost.iter().copied().collect::<BTreeMap<_, _>>());
            }
            print_json(&document)?;
        }
        OutputFormat::Text => print_text(&text(&exported, &args.to)),
    }
    Ok(CliExit::Done)
}

fn text(exported: &ExportResult, to: &Path) -> String {
    let amount = match (exported.files.len(), exported.rows) {
        (_, Some(rows)) => format!("{rows} rows"),
        (1, None) => "1 file".into(),
        (files, None) => format!("{files} files"),
    };
    let mut text = format!("wrote {amount} to {}", to.display());
    if !exported.left_out.is_empty() {
        let names = exported.left_out.join(", ");
        text.push_str(&format!("\nleft out {names}; `--columns` takes them, and a .parquet file has all columns"));
    }
    for (what, count) in &exported.lost {
        text.push_str(&format!("\nleft out {what}: {count}"));
    }
    text
}

/// Copies all files of the artifact into an empty folder.
fn folder(session: &AppSession, args: &ExportArgs, found: &ResolvedOutput) -> Result<ExportResult> {
    if !args.columns.is_empty() {
        return Err(Error::invalid("`--columns` needs the name of a table file")
            .help("write a name that ends in .csv, .jsonl or .parquet"));
    }
    let to = &args.to;
    expect_room(args)?;
    let scratch = fetch::files(session, found)?;
    let mut files = copy_files(scratch.path(), found.output().files.iter().map(|f| f.path.as_str()), to)?;
    if args.card {
        files.extend(card::write(to, &card::artifact_card(found))?);
    }
    Ok(ExportResult { files, ..ExportResult::default() })
}

/// Copies files without links, since a change of an exported file must not change the store. Returns the paths of the
/// copies.
fn copy_files<'a>(from: &Path, files: impl Iterator<Item = &'a str>, to: &Path) -> Result<Vec<String>> {
    let mut copies = Vec::new();
    for file in files {
        let place = to.join(file);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(|e| io_error(parent, &e))?;
        }
        let from = from.join(file);
        write_complete(&place, |partial| {
            let mut source = File::open(&from).map_err(|e| io_error(&from, &e))?;
            let mut target = File::create(partial).map_err(|e| io_error(partial, &e))?;
            std::io::copy(&mut source, &mut target).map_err(|e| io_error(partial, &e))
        })?;
        copies.push(place.display().to_string());
    }
    Ok(copies)
}
