//! Exports rows in the format of another program, to one file, or to a folder with a file and a card.

use super::card;
use super::export_result::{ExportResult, INSPECT_LOG, expect_no_card, expect_room, extension};
use super::table::table;
use crate::args::ExportArgs;
use crate::commands::artifacts::fetch;
use crate::session::AppSession;
use serde_json::json;
use std::path::{Path, PathBuf};
use trainyard_app::Catalogue;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_data::export::{ExportForm, ExportFormat, ExportOmissions, ExportSource, FileKind, write_export};
use trainyard_views::find::ResolvedOutput;

/// Formats that write rows unchanged.
pub const PLAIN_FORMATS: [&str; 2] = ["csv", "jsonl"];

/// Exports rows unchanged in the plain format `name`, to a file or a folder.
pub fn export_plain(
    session: &AppSession,
    args: &ExportArgs,
    found: &ResolvedOutput,
    name: &str,
) -> Result<ExportResult> {
    if args.form.is_some() {
        return Err(Error::invalid(format!(
            "`--form` cannot be combined with `--as {name}`, which writes rows unchanged"
        ))
        .help("leave `--form` out, or choose the format of another program, such as `--as trl`"));
    }
    let (file, is_folder) = place(args, name)?;
    let mut exported = table(session, args, found, name, &file)?;
    if is_folder {
        let facts =
            card::ExportSummary { file: name_of(&file), format: name, form: None, rows: exported.rows, lost: &[] };
        exported.files.extend(card::write(&args.to, &card::rows_card(found, &facts))?);
    }
    Ok(exported)
}

/// Exports rows in the format `name`, in the form of `args` or the default form of the artifact. Errors: invalid (an
/// unknown format or form), data (invalid rows).
pub fn run(
    session: &AppSession,
    args: &ExportArgs,
    found: &ResolvedOutput,
    catalogue: &Catalogue,
    name: &str,
) -> Result<ExportResult> {
    let format = format(catalogue, name)?;
    if !args.columns.is_empty() {
        return Err(Error::invalid(format!(
            "`--columns` cannot be combined with `--as {name}`, which determines the columns"
        ))
        .help("leave `--columns` out"));
    }
    let kind = file_kind(&args.to, format)?;
    let output = found.output();
    let requested =
        args.form.as_deref().and_then(|form| ExportForm::ALL.into_iter().find(|known| known.name() == form));
    if output.table.is_none() {
        ExportForm::choose(requested, &[], format.forms(), output.kind, name)?;
    }
    let (_folder, rows) = fetch::table(session, &args.artifact, found)?;
    let source = ExportSource { table: &rows, kind: output.kind };
    let form = ExportForm::choose(requested, source.forms()?, format.forms(), output.kind, name)?;
    let (file, is_folder) = place(args, kind.extension())?;
    let mut omissions = ExportOmissions::default();
    let count = write_export(source, (form, format), (&file, kind), &mut omissions)?;
    let lost: Vec<(&'static str, u64)> = omissions.counts().collect();
    let mut files = vec![file.display().to_string()];
    if is_folder {
        let form = Some(form.name());
        let facts = card::ExportSummary { file: name_of(&file), format: name, form, rows: Some(count), lost: &lost };
        files.extend(card::write(&args.to, &card::rows_card(found, &facts))?);
    }
    Ok(ExportResult { files, rows: Some(count), lost, ..ExportResult::default() })
}

/// Finds a format. Errors: invalid, with the list of formats.
fn format(catalogue: &Catalogue, name: &str) -> Result<&'static dyn ExportFormat> {
    let known = catalogue.export_formats();
    if !known.names().contains(&name) {
        let names: Vec<&str> = known.names().into_iter().chain(PLAIN_FORMATS).collect();
        return Err(Error::invalid(format!("there is no export format `{name}`"))
            .help(format!("use one of: {}", names.join(", "))));
    }
    let chosen = known.read(&json!(name)).map_err(|problem| Error::invalid(problem.message))?;
    chosen.build(&()).map(|format| *format)
}

/// Returns the kind of the file of a destination. Errors: invalid, if rows of the format cannot have this kind.
fn file_kind(to: &Path, format: &dyn ExportFormat) -> Result<FileKind> {
    let name = format.name();
    match (format.file(), extension(to)) {
        (own, None) => Ok(own),
        (FileKind::InspectLog, Some(INSPECT_LOG)) => Ok(FileKind::InspectLog),
        (FileKind::InspectLog, Some(other)) => {
            Err(Error::invalid(format!("`{name}` writes a log of Inspect, which is no .{other} file"))
                .help(format!("write a name that ends in .{INSPECT_LOG}, or a folder")))
        }
        (_, Some("jsonl")) => Ok(FileKind::JsonLines),
        (_, Some("parquet")) => Ok(FileKind::Parquet),
        (_, Some(other)) => {
            Err(Error::invalid(format!("rows of `{name}` have lists, which a .{other} file cannot hold"))
                .help("write a name that ends in .jsonl or .parquet, or a folder"))
        }
    }
}

/// Returns the path of the file of rows, and whether the destination is a folder, which is created. Errors: invalid (a
/// card for a single file, or a folder that is not empty).
fn place(args: &ExportArgs, kind: &str) -> Result<(PathBuf, bool)> {
    if extension(&args.to).is_some() {
        expect_no_card(args)?;
        return Ok((args.to.clone(), false));
    }
    expect_room(args)?;
    std::fs::create_dir_all(&args.to).map_err(|e| io_error(&args.to, &e))?;
    Ok((args.to.join(format!("train.{kind}")), true))
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
