//! Copies an artifact out of the store: its files into a folder, or a table into one `.csv`, `.jsonl` or `.parquet`
//! file.

use super::fetch;
use crate::args::{ExportArgs, Format};
use crate::exit::Exit;
use crate::names::{self, Found};
use crate::output::conversation::PER_TOKEN;
use crate::output::human::{print_json, print_text};
use crate::session::Session;
use serde_json::json;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::{BatchReader, BatchWriter, Part};

/// Endings that mean one file with the rows of a table; any other name is a folder.
const ENDINGS: [&str; 3] = ["csv", "jsonl", "parquet"];

/// What was written.
#[derive(Default)]
struct Exported {
    files: Vec<String>,
    rows: Option<u64>,
    left_out: Vec<String>,
}

/// The ending of `args.to` decides what is written.
pub fn run(session: &Session, args: &ExportArgs, format: Format) -> Result<Exit> {
    let found = session.block_on(names::artifact(&session.store, &args.artifact))?;
    let ending = args.to.extension().and_then(|e| e.to_str()).filter(|e| ENDINGS.contains(e));
    let exported = match ending {
        Some(ending) => table(session, args, &found, ending)?,
        None => folder(session, args, &found)?,
    };
    match format {
        Format::Json => {
            let mut told = json!({"artifact": args.artifact, "files": exported.files, "rows": exported.rows});
            if !exported.left_out.is_empty() {
                told["left_out"] = json!(exported.left_out);
            }
            print_json(&told)?;
        }
        Format::Text => print_text(&text(&exported, &args.to)),
    }
    Ok(Exit::Done)
}

fn text(exported: &Exported, to: &Path) -> String {
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
    text
}

/// Rows of a table as one file. CSV and JSON Lines leave out the columns of tokens unless they are asked for: they are
/// most of the bytes and mean nothing without the tokenizer.
fn table(session: &Session, args: &ExportArgs, found: &Found, ending: &str) -> Result<Exported> {
    let (_folder, table) = fetch::table(session, &args.artifact, found)?;
    let all: Vec<String> = trainyard_tables::read_schema(&table)?.fields().iter().map(|f| f.name().clone()).collect();
    let wanted = columns(&all, &args.columns, ending)?;
    let left_out =
        if args.columns.is_empty() { all.into_iter().filter(|c| !wanted.contains(c)).collect() } else { Vec::new() };
    let rows = match ending {
        "parquet" => copy_table(&table, &wanted, &args.to)?,
        _ => {
            let mut out = BufWriter::new(File::create(&args.to).map_err(|e| io_error(&args.to, &e))?);
            let rows = match ending {
                "csv" => trainyard_tables::export_csv(&table, Some(&wanted), &mut out)?,
                _ => trainyard_tables::export_jsonl(&table, Some(&wanted), &mut out)?,
            };
            out.flush().map_err(|e| io_error(&args.to, &e))?;
            rows
        }
    };
    Ok(Exported { files: vec![args.to.display().to_string()], rows: Some(rows), left_out })
}

fn columns(all: &[String], asked: &[String], ending: &str) -> Result<Vec<String>> {
    if let Some(unknown) = asked.iter().find(|name| !all.contains(name)) {
        return Err(Error::invalid(format!("the table has no column `{unknown}`"))
            .help(format!("its columns are {}", all.join(", "))));
    }
    if !asked.is_empty() {
        return Ok(asked.to_vec());
    }
    let is_kept = |name: &&String| ending == "parquet" || !PER_TOKEN.contains(&name.as_str()) || !is_trajectories(all);
    Ok(all.iter().filter(is_kept).cloned().collect())
}

fn is_trajectories(all: &[String]) -> bool {
    all.iter().any(|name| name == "token_ids")
}

fn copy_table(table: &Path, wanted: &[String], to: &Path) -> Result<u64> {
    let reader = BatchReader::open_part(table, &Part { columns: Some(wanted), ..Part::default() })?;
    let mut writer = BatchWriter::create(to, reader.schema())?;
    for batch in reader {
        writer.write(&batch?)?;
    }
    writer.finish()
}

/// All files into a folder that holds nothing yet.
fn folder(session: &Session, args: &ExportArgs, found: &Found) -> Result<Exported> {
    if !args.columns.is_empty() {
        return Err(Error::invalid("`--columns` needs the name of a table file")
            .help("write a name that ends in .csv, .jsonl or .parquet"));
    }
    let to = &args.to;
    let is_taken = std::fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_some());
    if is_taken && !args.force {
        return Err(Error::invalid(format!("the folder {} is not empty", to.display()))
            .help("name a new folder; `--force` writes into this one and leaves other files in it"));
    }
    let scratch = fetch::files(session, found)?;
    let files = copy_files(scratch.path(), found.output().files.iter().map(|f| f.path.as_str()), to)?;
    Ok(Exported { files, ..Exported::default() })
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
