//! Lists the rollouts of an artifact.

use super::facets::{Facet, count};
use super::query::{FactFilters, FoundText, PART, RolloutListQuery, RolloutSort};
use super::reading::{BATCH, blocking, first_line, open};
use crate::find::ResolvedOutput;
use crate::search::{Excerpt, NoteSink, SearchQuery, search_artifact};
use std::collections::BTreeMap;
use std::ops::Range;
use trainyard_core::{Error, Result};
use trainyard_store::Store;
use trainyard_tables::{
    AnswerVerdict, ChosenRows, FactTable, MessageColumns, RolloutFacts, TableSource, Trajectory, conform_rows,
    decode_part, read_facts, read_facts_of, row_count,
};

/// Maximum messages with a match of a search.
const HITS: usize = 20_000;
/// Maximum characters of a problem's first line.
const LINE: usize = 160;

/// Page of the rollouts of an artifact.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutList {
    /// Rows of the page.
    pub rows: Vec<RolloutRow>,
    /// Number of rows that the filters select.
    pub matching: usize,
    /// Facets with their counts.
    pub facets: Vec<Facet>,
    /// Examined rows, unless a text was searched for.
    pub examined: Option<Range<u64>>,
    /// Number of rows of the table.
    pub total: u64,
    /// Messages with the text that was searched for: number of all, and of those that are considered.
    pub found: Option<(u64, u64)>,
    /// Value of `from` for the next page.
    pub next: Option<usize>,
}

/// Rollout of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RolloutRow {
    /// Facts of the row, with the number of tokens.
    pub facts: RolloutFacts,
    /// Id of the row.
    pub id: String,
    /// Id of the problem.
    pub problem_id: String,
    /// First line of the problem.
    pub problem: String,
    /// Reason for the end.
    pub stop_reason: String,
    /// First match of the search.
    pub found: Option<RolloutMatch>,
}

/// Match in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RolloutMatch {
    /// Number of the message, from 0.
    pub message: u32,
    /// Match with the text around it.
    pub excerpt: Excerpt,
}

impl RolloutRow {
    /// Returns the verdict on the answer.
    pub fn verdict(&self) -> AnswerVerdict {
        self.facts.verdict
    }
}

/// Lists rollouts; `note` receives a line for each index of messages that a search builds.
///
/// Errors: invalid (not trajectories, a mistake in the expression), data (a damaged table), those of the store.
pub async fn list(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    query: RolloutListQuery,
    note: NoteSink,
) -> Result<RolloutList> {
    let table = open(store, artifact, found).await?;
    let hits = match &query.find {
        Some(text) => Some(search(store, artifact, found, text, note).await?),
        None => None,
    };
    blocking(move || listed(&table, &query, hits)).await
}

/// First match of each row, and the number of all messages with a match and of those considered.
struct Hits {
    rows: BTreeMap<u64, RolloutMatch>,
    messages: u64,
    considered: u64,
}

async fn search(
    store: &Store,
    artifact: &str,
    found: &ResolvedOutput,
    text: &FoundText,
    note: NoteSink,
) -> Result<Hits> {
    let query = SearchQuery { pattern: text.pattern.clone(), kind: text.kind, limit: HITS, ..SearchQuery::default() };
    let page = search_artifact(store, artifact, found, query, None, note).await?;
    if let Some(skipped) = page.skipped.first() {
        return Err(Error::data(format!("{artifact} cannot be searched: {}", skipped.why)));
    }
    let (messages, considered) = (page.matching_messages, page.hits.len() as u64);
    let mut rows = BTreeMap::new();
    for hit in page.hits {
        rows.entry(hit.row).or_insert(RolloutMatch { message: hit.message, excerpt: hit.excerpt });
    }
    Ok(Hits { rows, messages, considered })
}

fn listed(table: &TableSource, query: &RolloutListQuery, hits: Option<Hits>) -> Result<RolloutList> {
    let total = row_count(table)?;
    let with_tokens = query.sort == RolloutSort::Tokens;
    let examined = examined(query, total);
    let facts = match &hits {
        Some(hits) => read_facts_of(table, &hits.rows.keys().copied().collect::<Vec<_>>(), with_tokens)?,
        None => read_facts(table, examined.clone(), with_tokens)?,
    };
    let (mut selected, facets) = count(&facts, &FactFilters::new(&query.filters, &facts));
    query.sort.apply(&mut selected, query.is_descending);
    let matching = selected.len();
    let limit = query.limit.max(1);
    let page: Vec<RolloutFacts> = selected.into_iter().skip(query.from).take(limit).collect();
    let mut rows = read_rows(table, &page, &facts)?;
    if let Some(hits) = &hits {
        rows.iter_mut().for_each(|row| row.found = hits.rows.get(&row.facts.row).cloned());
    }
    let end = query.from.saturating_add(limit);
    Ok(RolloutList {
        rows,
        matching,
        facets,
        examined: hits.is_none().then_some(examined),
        total,
        found: hits.map(|hits| (hits.messages, hits.considered)),
        next: (end < matching).then_some(end),
    })
}

/// Returns the rows whose facts are read.
fn examined(query: &RolloutListQuery, total: u64) -> Range<u64> {
    if query.is_whole {
        return 0..total;
    }
    let start = query.part.saturating_mul(PART).min(total);
    start..start.saturating_add(PART).min(total)
}

/// Reads the texts and the numbers of tokens of the rows of a page.
fn read_rows(table: &TableSource, page: &[RolloutFacts], facts: &FactTable) -> Result<Vec<RolloutRow>> {
    let mut numbers: Vec<u64> = page.iter().map(|row| row.row).collect();
    numbers.sort_unstable();
    let counted = read_facts_of(table, &numbers, true)?;
    let tokens: BTreeMap<u64, u32> = counted.rows.iter().map(|row| (row.row, row.tokens)).collect();
    let texts = read_texts(table, &numbers)?;
    let row = |facts_of_row: &RolloutFacts| {
        let (id, problem) = texts.get(&facts_of_row.row).cloned().unwrap_or_default();
        RolloutRow {
            facts: RolloutFacts { tokens: tokens.get(&facts_of_row.row).copied().unwrap_or(0), ..*facts_of_row },
            id,
            problem,
            problem_id: facts.problems[facts_of_row.problem as usize].clone(),
            stop_reason: facts.stops[facts_of_row.stop as usize].clone(),
            found: None,
        }
    };
    Ok(page.iter().map(row).collect())
}

/// Returns the id and the first line of the problem of each row.
fn read_texts(table: &TableSource, rows: &[u64]) -> Result<BTreeMap<u64, (String, String)>> {
    let columns = ["id", "messages"];
    let names = columns.map(str::to_string);
    let mut texts = BTreeMap::new();
    let mut left = rows.iter().copied();
    for batch in ChosenRows::open(table, &columns, rows, BATCH)? {
        let batch = conform_rows::<Trajectory>(table.path(), &batch?, Some(&names))?;
        let ids = decode_part::<Trajectory>(table.path(), &batch.project(&[0]).map_err(no_column)?)?;
        let messages = MessageColumns::of(&batch)?;
        for (at, (row, of_row)) in left.by_ref().take(batch.num_rows()).zip(ids).enumerate() {
            texts.insert(row, (of_row.id, first_line(messages.question(at), LINE)));
        }
    }
    Ok(texts)
}

fn no_column(error: impl std::fmt::Display) -> Error {
    Error::bug(format!("the column `id` cannot be selected: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_with_the_table() {
        let query = |part, is_whole| RolloutListQuery { part, is_whole, ..RolloutListQuery::default() };
        assert_eq!(examined(&query(0, false), 10), 0..10);
        assert_eq!(examined(&query(1, false), PART + 5), PART..PART + 5);
        assert_eq!(examined(&query(9, false), 10), 10..10);
        assert_eq!(examined(&query(0, true), 3 * PART), 0..3 * PART);
        assert_eq!(examined(&query(u64::MAX, false), 10), 10..10);
    }

    #[test]
    fn first_lines_are_cut() {
        assert_eq!(first_line("\n  What is 2 + 3?\nmore", 100), "What is 2 + 3?");
        assert_eq!(first_line("äöü", 2), "äö…");
        assert_eq!(first_line(" \n", 2), "");
    }
}
