//! Shows rows that a filter rejected as near-duplicates, each with the kept row that it repeats.

use crate::find::ResolvedOutput;
use crate::table;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use trainyard_api::filter_tables::{KEPT, NEAR_DUPLICATE, REJECTED};
use trainyard_core::{Error, ErrorKind, Result};
use trainyard_store::Store;
use trainyard_tables::chosen_rows::ChosenRows;
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, find_texts};

/// Pairs of a page.
const PAIRS: usize = 5;
/// Rejected rows that are examined for a page.
const EXAMINED: u64 = 100_000;
/// Columns with the verdict.
const VERDICT: [&str; 2] = ["id", "verdicts"];
/// Columns with the text.
const TEXT: [&str; 2] = ["id", "messages"];
/// Limits on the size of a message: words of longer texts are not compared.
const LIMITS: CellLimits = CellLimits { text: 6_000, items: 12 };
/// Rows of a batch with texts.
const BATCH: usize = 16;

/// Page of near-duplicates.
#[derive(Debug, Clone, PartialEq)]
pub struct NearDuplicates {
    /// Pairs, in the order of the rejected rows.
    pub pairs: Vec<NearPair>,
    /// Number of rejected rows.
    pub rejected: u64,
    /// Number of the rejected row at which the next page begins; null at the end.
    pub next: Option<u64>,
}

/// Rejected row and the row that it repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct NearPair {
    /// Rejected row.
    pub rejected: PairRow,
    /// Similarity of the two, as the rule wrote it; empty if the verdict lacks it.
    pub similarity: String,
    /// Id of the row that it repeats.
    pub kept_id: String,
    /// That row; null if it is in no output.
    pub kept: Option<PairRow>,
}

/// Row of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairRow {
    /// Output that has the row.
    pub output: String,
    /// Number of the row.
    pub row: u64,
    /// Id of the row.
    pub id: String,
    /// Messages with their roles; long ones are cut with `…`.
    pub text: String,
}

/// Shows the near-duplicates from a rejected row on. Reads the columns of ids and verdicts, and the messages of the
/// pairs.
///
/// Errors: invalid (no output `rejected`), data (a damaged table), those of the store.
pub async fn near_duplicates(store: &Store, found: &ResolvedOutput, from: u64) -> Result<NearDuplicates> {
    let rejected = output(store, found, REJECTED).await?.ok_or_else(|| {
        Error::invalid(format!("`{}` has no output `{REJECTED}`", found.manifest.kind))
            .help("open an output of a stage of kind `data/filter`")
    })?;
    let kept = output(store, found, KEPT).await?;
    let work = tokio::task::spawn_blocking(move || {
        let (marked, total, next) = marked_rows(&rejected, from)?;
        let wanted: HashSet<String> = marked.iter().map(|marked| marked.of.clone()).collect();
        let mut originals = BTreeMap::new();
        // A row that is repeated may itself be rejected by a later rule.
        for (name, table) in kept.iter().map(|table| (KEPT, table)).chain([(REJECTED, &rejected)]) {
            let missing: HashSet<String> = wanted.iter().filter(|id| !originals.contains_key(*id)).cloned().collect();
            let rows = find_texts(table, &["id"], &missing, missing.len())?;
            let rows: BTreeMap<u64, String> = rows.into_iter().map(|found| (found.row as u64, found.text)).collect();
            for row in texts(name, table, rows)? {
                originals.entry(row.id.clone()).or_insert(row);
            }
        }
        let rows = marked.iter().map(|marked| (marked.row, marked.id.clone())).collect();
        let rows = texts(REJECTED, &rejected, rows)?.into_iter().zip(marked);
        let pair = |(rejected, marked): (PairRow, MarkedRow)| NearPair {
            rejected,
            similarity: marked.similarity,
            kept: originals.get(&marked.of).cloned(),
            kept_id: marked.of,
        };
        Ok(NearDuplicates { pairs: rows.map(pair).collect(), rejected: total, next })
    });
    work.await.map_err(|e| Error::bug(format!("reading near-duplicates ended early: {e}")))?
}

/// Opens the table of another output of a stage; `None` if the stage has no such output, or the store no longer has it.
async fn output(store: &Store, found: &ResolvedOutput, port: &str) -> Result<Option<TableSource>> {
    if !found.manifest.outputs.contains_key(port) {
        return Ok(None);
    }
    let found = ResolvedOutput { manifest: found.manifest.clone(), port: port.to_string() };
    match table::open(store, port, &found).await {
        Ok(table) => Ok(Some(table)),
        Err(error) if error.kind == ErrorKind::Lost => Ok(None),
        Err(error) => Err(error),
    }
}

/// Rejected row that repeats another.
#[derive(Debug, PartialEq)]
struct MarkedRow {
    row: u64,
    id: String,
    of: String,
    similarity: String,
}

/// Returns the marked rows of a page, the number of all rows, and the row at which the next page begins.
fn marked_rows(table: &TableSource, from: u64) -> Result<(Vec<MarkedRow>, u64, Option<u64>)> {
    let columns = VERDICT.map(str::to_string);
    let offset = usize::try_from(from).unwrap_or(usize::MAX);
    let part = ReadSlice { offset, limit: Some(EXAMINED as usize), columns: Some(&columns) };
    let reader = BatchReader::open_part(table, &part)?;
    let (total, mut row, mut marked) = (reader.rows(), from, Vec::new());
    for batch in reader {
        let batch = batch?;
        for at in 0..batch.num_rows() {
            if marked.len() == PAIRS {
                return Ok((marked, total, Some(row)));
            }
            marked.extend(marked_row(row, &row_as_json(&batch, at, CellLimits::NONE)));
            row += 1;
        }
    }
    Ok((marked, total, (row < total).then_some(row)))
}

fn marked_row(row: u64, cells: &Value) -> Option<MarkedRow> {
    let last = cells["verdicts"].as_array()?.iter().rfind(|verdict| verdict["keep"] == false)?;
    let detail = last["reason"].as_str()?.strip_prefix(NEAR_DUPLICATE)?.strip_prefix(": of ")?;
    let (of, similarity) = match detail.rsplit_once(" (") {
        Some((of, similarity)) => (of, similarity.trim_end_matches(')')),
        None => (detail, ""),
    };
    let id = cells["id"].as_str().unwrap_or_default().to_string();
    Some(MarkedRow { row, id, of: of.to_string(), similarity: similarity.to_string() })
}

/// Reads the texts of rows with these ids.
fn texts(output: &str, table: &TableSource, rows: BTreeMap<u64, String>) -> Result<Vec<PairRow>> {
    let numbers: Vec<u64> = rows.keys().copied().collect();
    let mut texts = Vec::new();
    for batch in ChosenRows::open(table, &TEXT, &numbers, BATCH)? {
        let batch = batch?;
        texts.extend((0..batch.num_rows()).map(|at| conversation(&row_as_json(&batch, at, LIMITS))));
    }
    let row = |((row, id), text)| PairRow { output: output.to_string(), row, id, text };
    Ok(rows.into_iter().zip(texts).map(row).collect())
}

fn conversation(cells: &Value) -> String {
    let messages = cells["messages"].as_array().into_iter().flatten();
    let line = |message: &Value| match (message["role"].as_str(), message["content"].as_str()) {
        (Some(role), content) => format!("{role}: {}", content.unwrap_or_default()),
        (None, _) => message.as_str().unwrap_or_default().to_string(),
    };
    messages.map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::{Message, Trajectory, Verdict, write_trajectories};

    fn row(id: &str, reason: &str) -> Trajectory {
        let verdict = |rule: &str, keep, reason: &str| Verdict { rule: rule.into(), keep, reason: reason.into() };
        Trajectory {
            id: id.into(),
            messages: vec![Message::new("user", format!("I am {id}"))],
            verdicts: vec![verdict("format", true, ""), verdict("near_duplicates", reason.is_empty(), reason)],
            ..Trajectory::default()
        }
    }

    fn source(folder: &tempfile::TempDir, rows: &[Trajectory]) -> TableSource {
        let path = folder.path().join("data.parquet");
        write_trajectories(&path, rows).unwrap();
        TableSource::from(&path)
    }

    #[test]
    fn marked_rows_name_the_row_that_they_repeat() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [row("b", "near_duplicate: of a (x) (0.913)"), row("c", "duplicate: of a"), row("d", "")];
        let (marked, total, next) = marked_rows(&source(&folder, &rows), 0).unwrap();
        let expected = MarkedRow { row: 0, id: "b".into(), of: "a (x)".into(), similarity: "0.913".into() };
        assert_eq!((marked, total, next), (vec![expected], 3, None));
    }

    #[test]
    fn a_page_ends_after_five_pairs() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<Trajectory> = (0..12)
            .map(|n| row(&format!("r{n}"), if n % 2 == 0 { "near_duplicate: of a (0.9)" } else { "other" }))
            .collect();
        let table = source(&folder, &rows);
        let (marked, total, next) = marked_rows(&table, 0).unwrap();
        assert_eq!((marked.len(), marked[4].row, total, next), (5, 8, 12, Some(9)));
        let (marked, _, next) = marked_rows(&table, 9).unwrap();
        assert_eq!((marked.len(), marked[0].row, next), (1, 10, None));
    }

    #[test]
    fn texts_are_the_messages_of_the_rows() {
        let folder = tempfile::tempdir().unwrap();
        let table = source(&folder, &["a", "b", "c"].map(|id| row(id, "")));
        let found = texts(KEPT, &table, BTreeMap::from([(0, "a".to_string()), (2, "c".to_string())])).unwrap();
        let found: Vec<(u64, &str)> = found.iter().map(|row| (row.row, row.text.as_str())).collect();
        assert_eq!(found, [(0, "user: I am a"), (2, "user: I am c")]);
    }
}
