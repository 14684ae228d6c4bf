//! Finds runs by workflow, status, tag and text of their parameters.

use crate::runs::{self, RunRow};
use futures::StreamExt as _;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Clock, ErrorKind, Result, RunId};
use trainyard_store::{JournalReader, Store};

/// Maximum runs on one page.
const MAX_RUNS: usize = 200;
/// Maximum runs that one page examines.
const MAX_EXAMINED: usize = 1_000;
/// Runs read concurrently.
const AT_ONCE: usize = 16;
/// Parameters of a run that are shown.
const MAX_PARAMS: usize = 3;

/// Selects runs. All conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSearch {
    /// Text in the name of the workflow, in any case.
    pub workflow: Option<String>,
    /// Status of the run.
    pub status: Option<String>,
    /// Tag of the run.
    pub tag: Option<String>,
    /// Text in a parameter as `name=value`, in any case.
    pub text: Option<String>,
    /// Only runs older than this one: `next` of the previous page.
    pub before: Option<String>,
    /// Maximum number of runs, and never more than 200.
    pub limit: usize,
}

/// Page of found runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundRuns {
    /// Runs, newest first.
    pub runs: Vec<FoundRun>,
    /// Number of runs that were examined.
    pub examined: usize,
    /// Value of `before` for the next page; `None` if all runs were examined.
    pub next: Option<String>,
}

/// Found run.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundRun {
    /// Run, in short.
    pub row: RunRow,
    /// First parameters with the text that was searched for, as `name=value`.
    pub params: Vec<String>,
}

impl RunSearch {
    /// Returns whether a condition needs more than the ids of runs and their tags.
    pub fn has_conditions(&self) -> bool {
        [&self.workflow, &self.status, &self.tag, &self.text].into_iter().any(Option::is_some)
    }
    fn selects(&self, row: &RunRow) -> bool {
        let workflow = row.workflow.as_deref().unwrap_or_default().to_lowercase();
        self.workflow.as_ref().is_none_or(|text| workflow.contains(&text.to_lowercase()))
            && self.status.as_ref().is_none_or(|status| *status == row.status)
    }
}

/// Finds runs, newest first. A page ends when it is full, or after 1,000 examined runs. Errors: those of reaching the
/// store.
pub async fn search(store: &Store, clock: &dyn Clock, query: &RunSearch) -> Result<FoundRuns> {
    let (all, mut tags) = runs::selected(store, query.before.as_deref(), query.tag.as_deref()).await?;
    let limit = query.limit.clamp(1, MAX_RUNS);
    let mut found = FoundRuns::default();
    let count = all.len();
    let candidates: Vec<RunId> = all.into_iter().rev().take(MAX_EXAMINED).collect();
    let reads = futures::stream::iter(candidates).map(|run| async move {
        let read = examine(store, clock, query, &run).await;
        (run, read)
    });
    let mut reads = reads.buffered(AT_ONCE);
    let mut last = None;
    while let Some((run, read)) = reads.next().await {
        (found.examined, last) = (found.examined + 1, Some(run));
        if let Some(mut run) = read? {
            run.row.tags = tags.remove(&run.row.run).unwrap_or_default();
            found.runs.push(run);
        }
        if found.runs.len() == limit {
            break;
        }
    }
    found.next = last.filter(|_| found.examined < count).map(|run| run.0);
    Ok(found)
}

async fn examine(store: &Store, clock: &dyn Clock, query: &RunSearch, run: &RunId) -> Result<Option<FoundRun>> {
    let row = runs::row(store, clock, run).await?;
    if !query.selects(&row) {
        return Ok(None);
    }
    let Some(text) = &query.text else { return Ok(Some(FoundRun { row, params: Vec::new() })) };
    let params = match params(store, run).await {
        Ok(params) => params,
        // An unreachable store fails the whole page; a damaged journal has no parameters.
        Err(error) if error.kind == ErrorKind::Retryable => return Err(error),
        Err(_) => BTreeMap::new(),
    };
    let params = matching(&params, &text.to_lowercase());
    Ok((!params.is_empty()).then_some(FoundRun { row, params }))
}

/// Reads the parameters from the beginning of a run's journal.
async fn params(store: &Store, run: &RunId) -> Result<BTreeMap<String, Value>> {
    let (batches, _) = JournalReader::new(store, run).read_some().await?;
    let created = batches.into_iter().flat_map(|batch| batch.events).find(|event| event["type"] == "run_created");
    let params = created.and_then(|event| event.get("params")?.as_object().cloned());
    Ok(params.into_iter().flatten().collect())
}

/// Returns the first parameters with a lower-case text.
fn matching(params: &BTreeMap<String, Value>, text: &str) -> Vec<String> {
    let shown = |(name, value): (&String, &Value)| match value {
        Value::String(value) => format!("{name}={value}"),
        value => format!("{name}={value}"),
    };
    params.iter().map(shown).filter(|param| param.to_lowercase().contains(text)).take(MAX_PARAMS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::Digest;
    use trainyard_core::clock::ManualClock;
    use trainyard_store::{JournalWriter, StoreOptions};

    async fn write(store: &Store, run: &str, workflow: &str, params: Value, outcome: Option<&str>) {
        let opened = |epoch| json!({"at": 1, "type": "writer_opened", "epoch": epoch, "writer": "test"});
        let (mut writer, _) = JournalWriter::open(store, &RunId(run.into()), "test", opened).await.unwrap();
        let created = json!({
            "at": 1, "type": "run_created", "format": 1, "workflow": workflow, "source": "w.yaml",
            "plan_digest": Digest::of(b"plan"), "params": params, "stages": [],
        });
        let finished = outcome.map(|outcome| json!({"at": 2, "type": "run_finished", "outcome": outcome}));
        writer.append(&[created].into_iter().chain(finished).collect::<Vec<_>>()).await.unwrap();
    }

    async fn filled() -> Store {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        write(&store, "20261121-000001-a", "gsm8k", json!({"lr": 0.003, "model": "small"}), Some("succeeded")).await;
        write(&store, "20261121-000002-b", "gsm8k", json!({"lr": 0.1, "model": "Large"}), Some("failed")).await;
        write(&store, "20261121-000003-c", "quickstart", json!({"lr": 0.003}), Some("succeeded")).await;
        store.set_tag(&RunId("20261121-000002-b".into()), "best", true, None).await.unwrap();
        store
    }

    async fn found(store: &Store, query: RunSearch) -> (Vec<String>, FoundRuns) {
        let clock = ManualClock::at_millis(1_000_000);
        let page = search(store, &clock, &RunSearch { limit: 10, ..query }).await.unwrap();
        (page.runs.iter().map(|run| run.row.run.0.chars().last().unwrap().to_string()).collect(), page)
    }

    #[tokio::test]
    async fn every_condition_must_hold() {
        let store = filled().await;
        let some = |text: &str| Some(text.to_string());
        assert_eq!(found(&store, RunSearch::default()).await.0, ["c", "b", "a"]);
        assert_eq!(found(&store, RunSearch { workflow: some("GSM"), ..RunSearch::default() }).await.0, ["b", "a"]);
        let succeeded = RunSearch { workflow: some("gsm"), status: some("succeeded"), ..RunSearch::default() };
        assert_eq!(found(&store, succeeded).await.0, ["a"]);
        let (tagged, page) = found(&store, RunSearch { tag: some("best"), ..RunSearch::default() }).await;
        assert_eq!((tagged, page.runs[0].row.tags.clone()), (vec!["b".to_string()], vec!["best".to_string()]));
        let (by_param, page) = found(&store, RunSearch { text: some("LR=0.003"), ..RunSearch::default() }).await;
        assert_eq!(
            (by_param, page.runs[0].params.clone()),
            (vec!["c".into(), "a".into()], vec!["lr=0.003".to_string()])
        );
        assert_eq!(found(&store, RunSearch { text: some("large"), ..RunSearch::default() }).await.0, ["b"]);
        assert!(found(&store, RunSearch { text: some("none"), ..RunSearch::default() }).await.0.is_empty());
    }

    #[tokio::test]
    async fn pages_continue_before_the_last_examined_run() {
        let store = filled().await;
        let clock = ManualClock::at_millis(1_000_000);
        let query = RunSearch { workflow: Some("gsm8k".into()), limit: 1, ..RunSearch::default() };
        let first = search(&store, &clock, &query).await.unwrap();
        assert_eq!((first.examined, first.next.as_deref()), (2, Some("20261121-000002-b")));
        let second = search(&store, &clock, &RunSearch { before: first.next, ..query }).await.unwrap();
        assert_eq!((second.runs[0].row.run.0.as_str(), second.next), ("20261121-000001-a", None));
    }
}
