//! Adds, lists and removes notes about artifacts and their rows.

use super::rows::{position_of, row_at};
use crate::args::{NoteArgs, OutputFormat};
use crate::commands::author;
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::notes;
use crate::session::AppSession;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_core::{Digest, Error, Result};
use trainyard_views::annotations::{self, NoteRow};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::table;

/// Adds a note. Errors: invalid (the text, no such artifact or row), those of the store.
pub fn add(session: &AppSession, args: &NoteArgs, format: OutputFormat) -> Result<CliExit> {
    annotations::check_note(&args.text)?;
    let found = session.block_on(find::artifact(&session.store, &args.artifact))?;
    let row = row(session, args, &found)?;
    let (output, by) = (&found.output().digest, author(args.by.as_deref()));
    let position = row.map(|row| row as u64);
    let number = session.block_on(session.store.add_note(output, position, &args.text, by.as_deref()))?;
    match format {
        OutputFormat::Json => print_json(&json!({"output": output, "number": number, "row": row}))?,
        OutputFormat::Text => {
            let place = row.map(|row| format!(" row {row}")).unwrap_or_default();
            print_text(&format!("added note {number} to {}{place}", args.artifact));
        }
    }
    Ok(CliExit::Done)
}

/// Returns the position of the row that the arguments select, which must exist.
fn row(session: &AppSession, args: &NoteArgs, found: &ResolvedOutput) -> Result<Option<usize>> {
    if args.row.is_none() && args.id.is_none() {
        return Ok(None);
    }
    let table = session.block_on(table::open(&session.store, &args.artifact, found))?;
    let position = match (&args.id, args.row) {
        (Some(id), _) => position_of(&args.artifact, &table, id)?,
        (None, row) => row.unwrap_or_default(),
    };
    row_at(&args.artifact, &table, position).map(|_| Some(position))
}

/// Removes a note. Errors: invalid (no such artifact or note), those of the store.
pub fn remove(
    session: &AppSession,
    artifact: &str,
    number: u64,
    by: Option<&str>,
    format: OutputFormat,
) -> Result<CliExit> {
    let removed = session.block_on(async {
        let found = find::artifact(&session.store, artifact).await?;
        session.store.remove_note(&found.output().digest, number, author(by).as_deref()).await
    })?;
    if !removed {
        return Err(Error::invalid(format!("{artifact} has no note {number}"))
            .help(format!("`trainyard artifacts notes {artifact}` lists them")));
    }
    match format {
        OutputFormat::Json => print_json(&json!({"artifact": artifact, "number": number, "removed": true}))?,
        OutputFormat::Text => print_text(&format!("removed note {number} of {artifact}")),
    }
    Ok(CliExit::Done)
}

/// Lists the notes about an artifact, or all notes of the store.
pub fn list(session: &AppSession, artifact: Option<&str>, format: OutputFormat) -> Result<CliExit> {
    match artifact {
        Some(artifact) => of_artifact(session, artifact, format),
        None => all(session, format),
    }
}

fn of_artifact(session: &AppSession, artifact: &str, format: OutputFormat) -> Result<CliExit> {
    let found = session.block_on(async {
        let found = find::artifact(&session.store, artifact).await?;
        annotations::notes_of(&session.store, &found.output().digest).await
    })?;
    match format {
        OutputFormat::Json => print_json(&found)?,
        OutputFormat::Text if found.is_empty() => print_text(&format!("no notes about {artifact}")),
        OutputFormat::Text => print_text(&notes::lines(&found)),
    }
    Ok(CliExit::Done)
}

fn all(session: &AppSession, format: OutputFormat) -> Result<CliExit> {
    let (notes, names) = session.block_on(async {
        let notes = session.store.notes().await?;
        let names =
            if notes.is_empty() { BTreeMap::new() } else { annotations::names_of_outputs(&session.store).await? };
        Ok((notes, names))
    })?;
    let name = |output: &Digest| names.get(output).cloned().unwrap_or_else(|| output.short().to_string());
    let found: Vec<(Digest, Vec<NoteRow>)> =
        notes.into_iter().map(|(output, notes)| (output, notes.into_iter().map(NoteRow::from).collect())).collect();
    match format {
        OutputFormat::Json => {
            let documents: Vec<Value> = found
                .iter()
                .map(|(output, notes)| json!({"artifact": names.get(output), "output": output, "notes": notes}))
                .collect();
            print_json(&documents)?;
        }
        OutputFormat::Text if found.is_empty() => print_text("no notes"),
        OutputFormat::Text => {
            let texts = found.iter().map(|(output, rows)| format!("{}\n{}", name(output), notes::indented(rows)));
            print_text(&texts.collect::<Vec<_>>().join("\n\n"));
        }
    }
    Ok(CliExit::Done)
}
