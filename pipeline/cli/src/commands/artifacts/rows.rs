//! Shows rows of a table in full, selected by position, by id, or by a condition: a trajectory as a conversation,
//! another row as a record.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::conversation;
use crate::output::human::{print_json, print_text};
use crate::output::notes;
use crate::output::shell;
use crate::session::AppSession;
use arrow_schema::DataType;
use serde_json::{Value, json};
use std::collections::HashSet;
use trainyard_core::{ArtifactKind, Error, Result};
use trainyard_query::filter_mask;
use trainyard_tables::{
    ReadSlice, TableSource, columns_as_json, find_texts, part_as_json, read_schema, row_count, rows_as_json,
};
use trainyard_views::annotations::{self, NoteRow};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::table;

/// Columns that identify a row, in order of preference: `rollout` is the id of a row of `results`.
const ID_COLUMNS: [&str; 2] = ["id", "rollout"];

/// Maximum rows among whose ids one like an unknown id is searched.
const NEAR_ROWS: usize = 100_000;

/// Selection of rows.
pub enum RowSelector<'a> {
    /// Number of the row, from 0.
    Position(usize),
    /// Value of the id column.
    Id(&'a str),
    /// SQL expression, and the maximum number of rows that are shown.
    Where(&'a str, usize),
}

/// Prints the selected rows. Errors: invalid (no such row, an expression with mistakes, not a table), and those of the
/// store.
pub fn run(session: &AppSession, artifact: &str, rows: &RowSelector<'_>, format: OutputFormat) -> Result<CliExit> {
    let found = session.block_on(find::artifact(&session.store, artifact))?;
    let table = session.block_on(table::open(&session.store, artifact, &found))?;
    let notes = session.block_on(annotations::notes_of(&session.store, &found.output().digest))?;
    let position = match rows {
        RowSelector::Where(condition, limit) => return print_matching(&table, condition, *limit, &notes, format),
        RowSelector::Position(position) => *position,
        RowSelector::Id(id) => position_of(artifact, &table, id)?,
    };
    let cells = row_at(artifact, &table, position)?;
    match format {
        OutputFormat::Json => print_json(&cells)?,
        OutputFormat::Text => {
            let next = next_command(artifact, &found, &cells).map(|next| format!("\n\nnext: {next}"));
            let (row, notes) = (conversation::row(&cells), notes::below_row(&notes, position));
            print_text(&format!("{row}{notes}{}", next.unwrap_or_default()));
        }
    }
    Ok(CliExit::Done)
}

/// Returns the command that shows the conversation of a result: the trajectory that its `rollout` names, in another
/// output of the stage.
fn next_command(artifact: &str, found: &ResolvedOutput, cells: &Value) -> Option<String> {
    let rollout = cells.get("rollout").and_then(Value::as_str)?;
    let outputs = &found.manifest.outputs;
    let (port, _) = outputs.iter().find(|(_, output)| output.kind == ArtifactKind::Trajectories)?;
    let (stage, _) = artifact.rsplit_once('/')?;
    let trajectories = shell::word(&format!("{stage}/{port}"));
    Some(format!("trainyard artifacts show {trajectories} --id {}", shell::word(rollout)))
}

/// Reads a row. Errors: invalid (no such row), those of reading the table.
pub fn row_at(artifact: &str, table: &TableSource, position: usize) -> Result<Value> {
    let found = rows_as_json(table, position, 1)?.pop();
    let rows = row_count(table)?;
    found.ok_or_else(|| {
        Error::invalid(format!("{artifact} has no row {position}: it has {rows} rows")).help("rows are counted from 0")
    })
}

/// Returns the position of the first row with an id. Only the id column is read.
pub fn position_of(artifact: &str, table: &TableSource, id: &str) -> Result<usize> {
    let schema = read_schema(table)?;
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let Some(column) = ID_COLUMNS.into_iter().find(|column| names.contains(column)) else {
        return Err(Error::invalid(format!("{artifact} has no column `id`")).help(format!(
            "select rows with `--where`, e.g. `--where \"{} is not null\"`; the columns are {}",
            names.first().unwrap_or(&"x"),
            names.join(", ")
        )));
    };
    let is_text = schema.field_with_name(column).is_ok_and(|field| field.data_type() == &DataType::Utf8);
    let found = if is_text {
        find_texts(table, &[column], &HashSet::from([id.to_string()]), 1)?.first().map(|found| found.row)
    } else {
        columns_as_json(table, &[column])?.iter().position(|row| conversation::plain(&row[column]) == id)
    };
    found.ok_or_else(|| unknown_id(artifact, table, column, id).unwrap_or_else(|error| error))
}

/// Returns the error of an id that no row has. Errors: those of reading the table.
fn unknown_id(artifact: &str, table: &TableSource, column: &str, id: &str) -> Result<Error> {
    let part = ReadSlice { limit: Some(NEAR_ROWS), columns: Some(&[column.to_string()]), ..ReadSlice::default() };
    let ids: Vec<String> = part_as_json(table, &part)?.iter().map(|row| conversation::plain(&row[column])).collect();
    let known: Vec<&str> = ids.iter().map(String::as_str).collect();
    let rows = row_count(table)?;
    let count = format!("`--row N` takes a position from 0 to {}", rows.saturating_sub(1));
    let help = find::near_ids(id, &known).map_or(count.clone(), |near| format!("{near}; {count}"));
    Ok(Error::invalid(format!("{artifact} has no row with the {column} `{id}`: it has {rows} rows")).help(help))
}

fn print_matching(
    table: &TableSource,
    condition: &str,
    limit: usize,
    notes: &[NoteRow],
    format: OutputFormat,
) -> Result<CliExit> {
    let mask = filter_mask(table, condition)?;
    let matching: Vec<usize> = mask.iter().enumerate().filter(|(_, is_kept)| **is_kept).map(|(at, _)| at).collect();
    let mut shown = Vec::new();
    for position in matching.iter().take(limit) {
        shown.extend(rows_as_json(table, *position, 1)?.into_iter().map(|cells| (*position, cells)));
    }
    match format {
        OutputFormat::Json => {
            let rows: Vec<Value> =
                shown.iter().map(|(position, cells)| json!({"row": position, "cells": cells})).collect();
            print_json(&json!({"matching": matching.len(), "of": mask.len(), "rows": rows}))?;
        }
        OutputFormat::Text => print_text(&matching_text(&shown, notes, matching.len(), mask.len())),
    }
    Ok(CliExit::Done)
}

fn matching_text(shown: &[(usize, Value)], notes: &[NoteRow], matching: usize, of: usize) -> String {
    let rows: String = shown
        .iter()
        .map(|(position, cells)| {
            let notes = notes::below_row(notes, *position);
            format!("════ row {position}\n{}{notes}\n\n", conversation::row(cells))
        })
        .collect();
    let more = if shown.len() < matching {
        format!("; the first {} are shown, and `--rows N` shows more", shown.len())
    } else {
        String::new()
    };
    format!("{rows}{matching} of {of} rows match{more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{Problem, TableBuilder, write_problems};

    #[test]
    fn rows_are_found_by_the_id_of_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let problem = |id: &str| Problem { id: id.into(), answer: format!("of {id}"), ..Problem::default() };
        write_problems(&path, &["word-1", "word-2", "sum-1"].map(problem)).unwrap();
        let path = TableSource::from(&path);
        let position = position_of("a/b/c", &path, "word-2").unwrap();
        assert_eq!(row_at("a/b/c", &path, position).unwrap()["answer"], "of word-2");
        let error = position_of("a/b/c", &path, "word").unwrap_err();
        assert_eq!(error.message, "a/b/c has no row with the id `word`: it has 3 rows");
        let help = "near ids: `word-1`, `word-2`; `--row N` takes a position from 0 to 2";
        assert_eq!(error.help.as_deref(), Some(help));
        assert!(row_at("a/b/c", &path, 3).unwrap_err().message.contains("no row 3: it has 3 rows"));
    }

    #[test]
    fn rows_of_results_are_found_by_their_rollout() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.parquet");
        let table = TableBuilder::new().string("model", ["a", "b"]).optional_string("rollout", [None, Some("r2")]);
        table.write(&path).unwrap();
        assert_eq!(position_of("a/b/c", &TableSource::from(&path), "r2").unwrap(), 1);
        TableBuilder::new().string("model", ["a", "b"]).write(&path).unwrap();
        let error = position_of("a/b/c", &TableSource::from(&path), "r2").unwrap_err();
        assert!(error.help.unwrap().contains("--where \"model is not null\""));
    }

    #[test]
    fn matching_rows_are_counted() {
        let rows = [(3, json!({"id": "a"})), (7, json!({"id": "b"}))];
        let text = matching_text(&rows, &[], 2, 10);
        assert_eq!(text, "════ row 3\nid: a\n\n════ row 7\nid: b\n\n2 of 10 rows match");
        assert!(
            matching_text(&rows, &[], 5, 10)
                .ends_with("5 of 10 rows match; the first 2 are shown, and `--rows N` shows more")
        );
        assert_eq!(matching_text(&[], &[], 0, 10), "0 of 10 rows match");
    }
}
