//! Queries of the pages: each runs in a process like those of `artifacts query`, few at a time.

use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use trainyard_app::ScratchFolder;
use trainyard_app::query_process::{AnswerFormat, QueryRequest, SELF, host, tables_of, usual_memory};
use trainyard_core::{Error, Result};
use trainyard_pages::{ConditionQuery, MatchingRows, PageQueries, SelectQuery, SelectResult};
use trainyard_store::Store;
use trainyard_views::find::{self, ResolvedOutput};

/// Queries that run at the same time; others wait.
const AT_ONCE: usize = 2;
/// Share of the usual memory limit of a query of the pages.
const MEMORY_SHARE: u64 = AT_ONCE as u64;
/// File of a table in its artifact.
const DATA: &str = "data.parquet";

/// Returns the queries of the pages of a store.
pub fn of(store: &Store) -> PageQueries {
    let running = Arc::new(Semaphore::new(AT_ONCE));
    let (of_rows, of_statements) = (store.clone(), (store.clone(), running.clone()));
    PageQueries {
        matching: Some(Box::new(move |query| Box::pin(matching(of_rows.clone(), running.clone(), query)))),
        select: Some(Box::new(move |query| {
            let (store, running) = of_statements.clone();
            Box::pin(select(store, running, query))
        })),
    }
}

async fn matching(store: Store, running: Arc<Semaphore>, query: ConditionQuery) -> Result<MatchingRows> {
    let table = table(&store, &query.artifact).await?;
    let format = AnswerFormat::Matching { from: query.from };
    let tables = vec![(SELF.to_string(), table.path.clone())];
    run(&running, request(tables, query.condition, query.rows, format), query.timeout).await
}

async fn select(store: Store, running: Arc<Semaphore>, query: SelectQuery) -> Result<SelectResult> {
    let mut tables = Vec::new();
    for (name, artifact) in tables_of(&query.artifact, &query.statement)? {
        tables.push((name, table(&store, &artifact).await?));
    }
    let paths = tables.iter().map(|(name, table)| (name.clone(), table.path.clone())).collect();
    run(&running, request(paths, query.statement, query.rows, AnswerFormat::Json), query.timeout).await
}

fn request(tables: Vec<(String, PathBuf)>, statement: String, rows: usize, format: AnswerFormat) -> QueryRequest {
    let memory = usual_memory() / MEMORY_SHARE;
    QueryRequest { owner: std::process::id(), tables, statement, rows, format, memory }
}

async fn run<T: DeserializeOwned>(running: &Semaphore, request: QueryRequest, timeout: Duration) -> Result<T> {
    let _permit = running.acquire().await.map_err(|e| Error::bug(format!("queries of pages have ended: {e}")))?;
    let response = host::run_query(&request, timeout).await?;
    serde_json::from_str(&response).map_err(|e| Error::bug(format!("the response of a query cannot be read: {e}")))
}

/// Table on a disk.
struct LocalTable {
    path: PathBuf,
    /// Folder that is removed after the query, if the store is elsewhere.
    _folder: Option<ScratchFolder>,
}

/// Returns the file of a table: that of the store, or a copy. Errors: invalid (not a table), those of the store.
async fn table(store: &Store, artifact: &str) -> Result<LocalTable> {
    let found = find::artifact(store, artifact).await?;
    let file = found.output().files.iter().find(|file| file.path == DATA).filter(|_| found.output().table.is_some());
    let file = file.ok_or_else(|| no_table(artifact, &found))?;
    store.require_objects(std::slice::from_ref(file)).await?;
    if let Some(path) = store.object_path(&file.digest) {
        let path = std::path::absolute(&path).unwrap_or(path);
        return Ok(LocalTable { path, _folder: None });
    }
    let folder = ScratchFolder::new()?;
    store.fetch_output(found.output(), folder.path()).await?;
    Ok(LocalTable { path: folder.path().join(DATA), _folder: Some(folder) })
}

fn no_table(artifact: &str, found: &ResolvedOutput) -> Error {
    Error::invalid(format!("{artifact} is a {}, not a table", found.output().kind))
        .help("name an artifact with rows; `trainyard artifacts list` shows them")
}
