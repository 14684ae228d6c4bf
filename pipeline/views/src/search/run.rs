//! Searches the trajectories of a run, one output after another.

use super::Excerpt;
use super::filters::SearchFilters;
use super::index::MessageIndex;
use super::pattern::{PatternKind, SearchPattern};
use super::places::{IndexPlaces, NoteSink};
use super::scan::{FoundMessage, FoundMessages, scan};
use crate::find::{self, ResolvedOutput};
use crate::table;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tokio::runtime::Handle;
use trainyard_core::{ArtifactKind, Digest, Error, ErrorKind, Result, RunId, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_store::Store;
use trainyard_tables::TableSource;

/// A search.
#[derive(Debug, Clone, Default)]
pub struct SearchQuery {
    /// Text or regular expression.
    pub pattern: String,
    /// How the pattern is read.
    pub kind: PatternKind,
    /// Stage key, or id of a stage with several instances; `None` for all stages.
    pub stage: Option<String>,
    /// Selection of messages.
    pub filters: SearchFilters,
    /// Maximum number of hits that are returned; all are counted.
    pub limit: usize,
}

/// Message with a match.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchHit {
    /// Artifact, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Number of the row, from 0.
    pub row: u64,
    /// Id of the row.
    pub id: String,
    /// Number of the message in the conversation, from 0.
    pub message: u32,
    /// Role of the message.
    pub role: String,
    /// Reward of the row; null if it is not a finite number.
    pub reward: Option<f64>,
    /// Whether the answer is correct; null if no verifier judged it.
    pub correct: Option<bool>,
    /// Number of the update that used the row.
    pub step: Option<u32>,
    /// First match in the message.
    pub excerpt: Excerpt,
}

/// Artifact that could not be searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedArtifact {
    /// Artifact, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Reason why it was skipped.
    pub why: String,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SearchPage {
    /// First hits, in the order of the stages and rows.
    pub hits: Vec<SearchHit>,
    /// Number of all messages with a match.
    pub matching_messages: u64,
    /// Number of all rows with a match.
    pub matching_rows: u64,
    /// Number of searched artifacts.
    pub artifacts: u64,
    /// Number of messages of these artifacts, before the filters.
    pub messages: u64,
    /// Number of rows of these artifacts, before the filters.
    pub rows: u64,
    /// Artifacts that could not be searched.
    pub skipped: Vec<SkippedArtifact>,
}

/// Searches the trajectories of a run. Indexes that are missing, damaged or of another format are built first, and kept
/// in the store, or in `home` if the store may not be written to; `note` receives a line for each.
///
/// Errors: invalid (an empty pattern, a mistake in a regular expression, an unknown stage, role or rule, no
/// trajectories), those of the store.
pub async fn search(
    store: &Store,
    run: &RunId,
    query: SearchQuery,
    home: Option<PathBuf>,
    note: NoteSink,
) -> Result<SearchPage> {
    let pattern = SearchPattern::new(&query.pattern, query.kind)?;
    let view = find::view(store, run).await?;
    let outputs = trajectories(run, &view, query.stage.as_deref())?;
    search_outputs(store, outputs, pattern, query, (home, note)).await
}

/// Searches one artifact of trajectories, which hits and notes call `name`. Errors: those of [`search`].
pub async fn search_artifact(
    store: &Store,
    name: &str,
    found: &ResolvedOutput,
    query: SearchQuery,
    home: Option<PathBuf>,
    note: NoteSink,
) -> Result<SearchPage> {
    let pattern = SearchPattern::new(&query.pattern, query.kind)?;
    let output = RunOutput {
        name: name.to_string(),
        digest: found.manifest.stage_digest.clone(),
        generation: found.manifest.generation,
        port: found.port.clone(),
    };
    search_outputs(store, vec![output], pattern, query, (home, note)).await
}

async fn search_outputs(
    store: &Store,
    outputs: Vec<RunOutput>,
    pattern: SearchPattern,
    query: SearchQuery,
    (home, note): (Option<PathBuf>, NoteSink),
) -> Result<SearchPage> {
    let places = IndexPlaces { store: store.clone(), home, runtime: Handle::current(), note };
    let work = tokio::task::spawn_blocking(move || {
        let mut page = SearchPage::default();
        let mut opened = Vec::new();
        for output in outputs {
            match open(&places, &output) {
                Ok(searched) => opened.push(searched),
                Err(error) if matches!(error.kind, ErrorKind::Lost | ErrorKind::Data) => {
                    page.skipped.push(SkippedArtifact { artifact: output.name, why: error.message });
                }
                Err(error) => return Err(error),
            }
        }
        if !opened.is_empty() {
            query.filters.check(opened.iter().map(|searched| &searched.index.footer))?;
        }
        for searched in &mut opened {
            searched.search(&places, &pattern, &query, &mut page)?;
        }
        Ok(page)
    });
    work.await.map_err(|e| Error::bug(format!("a search ended early: {e}")))?
}

/// Output of a stage in a run.
struct RunOutput {
    name: String,
    digest: Digest,
    generation: u32,
    port: String,
}

/// Returns the trajectories of a run. Errors: invalid (no such stage, no trajectories).
fn trajectories(run: &RunId, view: &RunView, stage: Option<&str>) -> Result<Vec<RunOutput>> {
    let is_named = |key: &StageKey| stage.is_none_or(|stage| key.0 == stage || key.stage_id() == stage);
    if let Some(stage) = stage.filter(|_| !view.stages.iter().any(|of_run| is_named(of_run.key()))) {
        // The error lists the stages.
        find::stage(view, stage)?;
    }
    let mut outputs = Vec::new();
    for of_run in view.stages.iter().filter(|of_run| is_named(of_run.key())) {
        let Some((digest, generation)) = of_run.digest.clone().zip(of_run.generation) else { continue };
        for (port, summary) in &of_run.outputs {
            if summary.kind == ArtifactKind::Trajectories {
                let name = format!("{run}/{}/{port}", of_run.key());
                outputs.push(RunOutput { name, digest: digest.clone(), generation, port: port.clone() });
            }
        }
    }
    if outputs.is_empty() {
        let place = stage.map_or_else(|| format!("run {run}"), |stage| format!("stage `{stage}` of run {run}"));
        return Err(Error::invalid(format!("{place} has published no trajectories to search"))
            .help(format!("`trainyard artifacts list {run}` shows what it has published")));
    }
    Ok(outputs)
}

/// Artifact with an open index.
struct SearchedArtifact {
    name: String,
    digest: Digest,
    table: TableSource,
    index: MessageIndex,
}

fn open(places: &IndexPlaces, output: &RunOutput) -> Result<SearchedArtifact> {
    let manifest = places.runtime.block_on(places.store.manifest_at(&output.digest, output.generation))?;
    let gone = || Error::lost(format!("its manifest is no longer in the store {}", places.store.url()));
    let manifest = manifest.filter(|manifest| manifest.outputs.contains_key(&output.port)).ok_or_else(gone)?;
    let found = ResolvedOutput { manifest, port: output.port.clone() };
    let table = places.runtime.block_on(table::open(&places.store, &output.name, &found))?;
    let digest = found.output().digest.clone();
    let index = places.open(&output.name, &digest, &table)?;
    Ok(SearchedArtifact { name: output.name.clone(), digest, table, index })
}

impl SearchedArtifact {
    /// Searches the artifact, and builds a damaged index again.
    fn search(
        &mut self,
        places: &IndexPlaces,
        pattern: &SearchPattern,
        query: &SearchQuery,
        page: &mut SearchPage,
    ) -> Result<()> {
        let limit = query.limit.saturating_sub(page.hits.len());
        let found = match self.scan(pattern, query, limit) {
            Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Lost) => {
                self.index = places.rebuild(&self.name, &self.digest, &self.table, Some(&error))?;
                self.scan(pattern, query, limit)?
            }
            found => found?,
        };
        page.artifacts += 1;
        page.messages += self.index.footer.messages;
        page.rows += self.index.footer.rows;
        page.matching_messages += found.messages;
        page.matching_rows += found.rows;
        page.hits.extend(found.first.into_iter().map(|found| self.hit(found)));
        Ok(())
    }
    fn scan(&self, pattern: &SearchPattern, query: &SearchQuery, limit: usize) -> Result<FoundMessages> {
        match query.filters.of_index(&self.index.footer) {
            Some(filters) => scan(&self.index, pattern, &filters, limit),
            None => Ok(FoundMessages::default()),
        }
    }
    fn hit(&self, found: FoundMessage) -> SearchHit {
        SearchHit {
            artifact: self.name.clone(),
            row: found.row,
            id: found.id,
            message: found.message,
            role: self.index.footer.roles.get(found.role as usize).cloned().unwrap_or_default(),
            reward: Some(found.reward).filter(|reward| reward.is_finite()),
            correct: found.correct,
            step: found.update,
            excerpt: found.excerpt,
        }
    }
}
