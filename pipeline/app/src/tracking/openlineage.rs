//! Implements the tracker `openlineage`, which sends the artifacts that attempts read and wrote as run events of
//! OpenLineage (specification 2-0-2).

use super::tracker::{RunStart, Tracker, TrackerContext, TrackerEvent, identifier, timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use tokio::runtime::Handle;
use trainyard_api::PartOptions;
use trainyard_core::artifact::{ArtifactRef, Manifest, Output};
use trainyard_core::error::io_error;
use trainyard_core::event::{AttemptOutcome, Event, EventRecord, RunOutcome};
use trainyard_core::{AttemptNumber, Digest, OptionProblem, Result, StageKey};
use trainyard_http::{BaseUrl, HttpClient, JsonRequest, RequestLimits};
use trainyard_store::Store;

const LIMITS: RequestLimits =
    RequestLimits { requests: 1, attempts: 3, timeout: Duration::from_secs(10), response_bytes: 1 << 20 };
const PRODUCER: &str = concat!("urn:trainyard:", env!("CARGO_PKG_VERSION"));
const SCHEMA: &str = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent";

/// Options of the tracker `openlineage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenLineageOptions {
    /// Server that accepts events at `/api/v1/lineage`, such as Marquez; events go to `file` if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// File that receives one event per line; a relative path begins at the site file.
    pub file: String,
    /// Namespace of jobs.
    pub namespace: String,
}

impl Default for OpenLineageOptions {
    fn default() -> Self {
        Self { url: None, file: "openlineage.jsonl".to_string(), namespace: "trainyard".to_string() }
    }
}

impl PartOptions for OpenLineageOptions {
    const KIND: &'static str = "openlineage";
    const SUMMARY: &'static str = "lineage events for OpenLineage";
    const DOC: &'static str = "A workflow is a job, and so is each of its stages (`<workflow>.<stage>`). Runs are \
        runs of the workflow's job, and attempts are runs of the stage's job. `START` is sent when an attempt \
        starts, and `COMPLETE` when its result is published, with the artifacts that it read and wrote as datasets: \
        their namespace is the URL of the store, their name `<digest of the stage>/<generation>/<output>`, their \
        version the digest of their content, and tables have their columns. `FAIL` has the error. A cache hit has no \
        attempt, and therefore no event.";
    fn check(&self) -> Vec<OptionProblem> {
        let url = self.url.as_ref().and_then(|url| BaseUrl::read(url).err());
        url.map(|e| OptionProblem::new("/url", e.message)).into_iter().collect()
    }
}

/// Destination of events.
enum OpenLineageTarget {
    Server(Box<HttpClient>),
    File(PathBuf),
}

/// The tracker `openlineage`.
pub struct OpenLineage {
    target: OpenLineageTarget,
    namespace: String,
    store: Store,
    handle: Handle,
    opened: Option<RunStart>,
}

impl OpenLineage {
    /// Creates the tracker without sending a request. Errors: invalid (the address).
    pub fn new(options: OpenLineageOptions, context: &TrackerContext) -> Result<Self> {
        let target = match &options.url {
            Some(url) => OpenLineageTarget::Server(Box::new(HttpClient::open(BaseUrl::read(url)?, None, LIMITS)?)),
            None => OpenLineageTarget::File(context.folder.join(&options.file)),
        };
        let (store, handle) = (context.store.clone(), context.handle.clone());
        Ok(Self { target, namespace: options.namespace, store, handle, opened: None })
    }
    fn events(&mut self, event: &TrackerEvent) -> Result<Option<Value>> {
        match event {
            TrackerEvent::Opened(opened) => {
                self.opened = Some(opened.clone());
                Ok((!opened.resumed).then(|| self.run_event("START", opened.at, opened)))
            }
            TrackerEvent::Event(record) => self.event_json(record),
            TrackerEvent::Point(_) => Ok(None),
        }
    }
    fn event_json(&self, record: &EventRecord) -> Result<Option<Value>> {
        let Some(opened) = &self.opened else { return Ok(None) };
        let of = |state: &str, stage: &StageKey, attempt: AttemptNumber| {
            self.attempt_event(state, record.at, opened, (stage, attempt))
        };
        Ok(match &record.event {
            Event::AttemptStarted { stage, attempt, .. } => Some(of("START", stage, *attempt)),
            Event::Published { stage, attempt, digest, generation, .. } => {
                let mut event = of("COMPLETE", stage, *attempt);
                if let Some(manifest) = self.manifest(digest, *generation)? {
                    event["inputs"] = manifest.inputs.values().flatten().map(|input| self.input(input)).collect();
                    event["outputs"] =
                        manifest.outputs.iter().map(|(port, out)| self.output(&manifest, port, out)).collect();
                }
                Some(event)
            }
            Event::AttemptEnded { stage, attempt, outcome, error } if *outcome != AttemptOutcome::Succeeded => {
                let state = if *outcome == AttemptOutcome::Cancelled { "ABORT" } else { "FAIL" };
                let mut event = of(state, stage, *attempt);
                let message = error.as_ref().map_or_else(|| format!("{outcome:?}"), |error| error.message.clone());
                let facet = json!({"message": message, "programmingLanguage": "Rust"});
                event["run"]["facets"]["errorMessage"] = facets("1-0-1/ErrorMessageRunFacet", facet);
                Some(event)
            }
            Event::RunFinished { outcome } => {
                let state = match outcome {
                    RunOutcome::Succeeded => "COMPLETE",
                    RunOutcome::Failed => "FAIL",
                    RunOutcome::Cancelled => "ABORT",
                };
                Some(self.run_event(state, record.at, opened))
            }
            _ => None,
        })
    }
    fn manifest(&self, digest: &Digest, generation: u32) -> Result<Option<Manifest>> {
        self.handle.block_on(self.store.manifest_at(digest, generation))
    }
    fn run_event(&self, state: &str, at: i64, opened: &RunStart) -> Value {
        let run = json!({"runId": uuid(&[&opened.run.0]), "facets": {}});
        self.event(state, at, run, (&opened.workflow, "WORKFLOW"))
    }
    fn attempt_event(
        &self,
        state: &str,
        at: i64,
        opened: &RunStart,
        (stage, attempt): (&StageKey, AttemptNumber),
    ) -> Value {
        let name = stage.to_string();
        let parent = json!({
            "run": {"runId": uuid(&[&opened.run.0])},
            "job": {"namespace": self.namespace, "name": opened.workflow},
        });
        let run = json!({
            "runId": uuid(&[&opened.run.0, &name, &attempt.to_string()]),
            "facets": {"parent": facets("1-0-1/ParentRunFacet", parent)},
        });
        self.event(state, at, run, (&format!("{}.{name}", opened.workflow), "STAGE"))
    }
    fn event(&self, state: &str, at: i64, run: Value, (job, sort): (&str, &str)) -> Value {
        let kind = json!({"processingType": "BATCH", "integration": "TRAINYARD", "jobType": sort});
        json!({
            "eventType": state,
            "eventTime": timestamp(at),
            "producer": PRODUCER,
            "schemaURL": SCHEMA,
            "run": run,
            "job": {
                "namespace": self.namespace,
                "name": job,
                "facets": {"jobType": facets("2-0-3/JobTypeJobFacet", kind)},
            },
            "inputs": [],
            "outputs": [],
        })
    }
    fn input(&self, input: &ArtifactRef) -> Value {
        self.dataset((&input.stage_digest, input.generation, &input.output), &input.digest, None)
    }
    fn output(&self, manifest: &Manifest, port: &str, output: &Output) -> Value {
        self.dataset((&manifest.stage_digest, manifest.generation, port), &output.digest, Some(output))
    }
    fn dataset(
        &self,
        (stage, generation, port): (&Digest, u32, &str),
        content: &Digest,
        output: Option<&Output>,
    ) -> Value {
        let version = facets("1-0-1/DatasetVersionDatasetFacet", json!({"datasetVersion": content}));
        let mut all = Map::from_iter([("version".to_string(), version)]);
        if let Some(table) = output.and_then(|output| output.table.as_ref()) {
            let column = |c: &trainyard_core::artifact::ColumnStats| json!({"name": c.name, "type": c.r#type});
            let fields: Vec<Value> = table.columns.iter().map(column).collect();
            all.insert("schema".to_string(), facets("1-1-1/SchemaDatasetFacet", json!({"fields": fields})));
        }
        json!({"namespace": self.store.url(), "name": format!("{stage}/{generation}/{port}"), "facets": all})
    }
    fn send(&self, events: &[Value]) -> Result<()> {
        match &self.target {
            OpenLineageTarget::Server(client) => events.iter().try_for_each(|event| {
                Ok(client.request(JsonRequest::post("/api/v1/lineage", event.clone())).map(drop)?)
            }),
            OpenLineageTarget::File(path) => {
                let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
                let file = OpenOptions::new().create(true).append(true).open(path);
                file.and_then(|mut file| file.write_all(lines.as_bytes())).map_err(|e| io_error(path, &e))
            }
        }
    }
}

impl Tracker for OpenLineage {
    fn take(&mut self, batch: &[&TrackerEvent]) -> Result<()> {
        let mut events = Vec::new();
        for event in batch {
            events.extend(self.events(event)?);
        }
        if events.is_empty() { Ok(()) } else { self.send(&events) }
    }
}

/// Adds the two keys that every facet must have.
fn facets(schema: &str, mut facet: Value) -> Value {
    let name = schema.rsplit('/').next().unwrap_or(schema);
    facet["_producer"] = PRODUCER.into();
    facet["_schemaURL"] = format!("https://openlineage.io/spec/facets/{schema}.json#/$defs/{name}").into();
    facet
}

/// Returns a UUID derived from names, of version 8, whose bits are implementation-defined (RFC 9562).
fn uuid(names: &[&str]) -> String {
    let hex = identifier(names);
    let variant = ["8", "9", "a", "b"][usize::from(hex.as_bytes()[16] % 4)];
    format!("{}-{}-8{}-{variant}{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::testing::whole_run;
    use trainyard_store::StoreOptions;

    #[test]
    fn attempts_start_and_end_below_their_run() {
        let home = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let store = runtime.block_on(Store::open("memory://", StoreOptions::default())).unwrap();
        let context = TrackerContext { store, handle: runtime.handle().clone(), folder: home.path().into() };
        let mut tracker = OpenLineage::new(OpenLineageOptions::default(), &context).unwrap();
        let run = whole_run();
        tracker.take(&run.iter().collect::<Vec<_>>()).unwrap();
        let text = std::fs::read_to_string(home.path().join("openlineage.jsonl")).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let seen: Vec<String> = events
            .iter()
            .map(|e| format!("{} {}", e["eventType"].as_str().unwrap(), e["job"]["name"].as_str().unwrap()))
            .collect();
        let expected = [
            "START agent",
            "START agent.sft",
            "COMPLETE agent.sft",
            "START agent.rl[seed=1]",
            "FAIL agent.rl[seed=1]",
            "START agent.rl[seed=1]",
            "FAIL agent.rl[seed=1]",
            "FAIL agent",
        ];
        assert_eq!(seen, expected);
        assert_eq!(events[1]["run"]["runId"], events[2]["run"]["runId"]);
        assert_ne!(events[3]["run"]["runId"], events[5]["run"]["runId"], "attempts are separate runs");
        assert_eq!(events[1]["run"]["facets"]["parent"]["run"]["runId"], events[0]["run"]["runId"]);
        assert_eq!(events[6]["run"]["facets"]["errorMessage"]["message"], "row 3 is empty");
        assert_eq!(events[1]["eventTime"], "1970-01-01T00:00:01.001Z");
    }

    #[test]
    fn ids_are_uuids_determined_by_the_names() {
        let id = uuid(&["a", "b"]);
        assert_eq!(id, uuid(&["a", "b"]));
        assert_ne!(id, uuid(&["a", "c"]));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(id.as_bytes()[14] == b'8' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
    }
}
