//! Implements the tracker `opentelemetry`, which sends a span for the run and for each attempt to a collector that
//! accepts OTLP over HTTP as JSON (OpenTelemetry protocol 1.x).

use super::tracker::{RunStart, Tracker, TrackerEvent, identifier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::event::{AttemptOutcome, Event, EventRecord, RunOutcome};
use trainyard_core::{AttemptNumber, OptionProblem, Result, StageKey};
use trainyard_http::{BaseUrl, HttpClient, JsonRequest, RequestLimits};

const LIMITS: RequestLimits =
    RequestLimits { requests: 1, attempts: 3, timeout: Duration::from_secs(10), response_bytes: 1 << 20 };
/// Code of the span kind `internal`.
const INTERNAL: u8 = 1;
/// Span status codes.
const OK: u8 = 1;
const ERROR: u8 = 2;

/// Options of the tracker `opentelemetry`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenTelemetryOptions {
    /// URL of the collector; spans go to `/v1/traces` below it.
    pub url: String,
    /// Service name in spans.
    pub service: String,
}

impl Default for OpenTelemetryOptions {
    fn default() -> Self {
        Self { url: "http://127.0.0.1:4318".to_string(), service: "trainyard".to_string() }
    }
}

impl PartOptions for OpenTelemetryOptions {
    const KIND: &'static str = "opentelemetry";
    const SUMMARY: &'static str = "spans for an OpenTelemetry collector";
    const DOC: &'static str = "A run is a trace: one span for it, and below that one for each attempt of a stage, sent \
        when it ends, with the attributes `trainyard.run`, `trainyard.stage`, `trainyard.attempt`, `trainyard.pool` \
        and `trainyard.digest`. A failed attempt's span has the status error with its message. Ids are \
        determined by run, stage and attempt, so a resumed run stays one trace; the span of the run then starts when \
        it was resumed.";
    fn check(&self) -> Vec<OptionProblem> {
        BaseUrl::read(&self.url).err().map(|e| OptionProblem::new("/url", e.message)).into_iter().collect()
    }
}

/// An attempt that has not ended.
struct ActiveSpan {
    start: i64,
    pool: String,
    digest: String,
}

/// The tracker `opentelemetry`.
pub struct OpenTelemetry {
    client: HttpClient,
    service: String,
    opened: Option<RunStart>,
    attempts: BTreeMap<(StageKey, AttemptNumber), ActiveSpan>,
}

impl OpenTelemetry {
    /// Creates the tracker without sending a request. Errors: invalid (the address).
    pub fn new(options: OpenTelemetryOptions) -> Result<Self> {
        let client = HttpClient::open(BaseUrl::read(&options.url)?, None, LIMITS)?;
        Ok(Self { client, service: options.service, opened: None, attempts: BTreeMap::new() })
    }
    /// Returns the span that an event ends, or `None` if it ends none.
    fn span(&mut self, record: &EventRecord) -> Option<Value> {
        let opened = self.opened.as_ref()?;
        let (run, at) = (&opened.run.0, record.at);
        match &record.event {
            Event::AttemptStarted { stage, attempt, digest, pool, .. } => {
                let open = ActiveSpan { start: at, pool: pool.clone(), digest: digest.to_string() };
                self.attempts.insert((stage.clone(), *attempt), open);
                None
            }
            Event::AttemptEnded { stage, attempt, outcome, error } => {
                let ActiveSpan { start, pool, digest } = self.attempts.remove(&(stage.clone(), *attempt))?;
                let message = error.as_ref().map(|error| error.message.clone());
                let status = match outcome {
                    AttemptOutcome::Succeeded => json!({"code": OK}),
                    other => json!({"code": ERROR, "message": message.unwrap_or_else(|| format!("{other:?}"))}),
                };
                let name = stage.to_string();
                Some(json!({
                    "traceId": &identifier(&[run])[..32],
                    "spanId": &identifier(&[run, &name, &attempt.to_string()])[..16],
                    "parentSpanId": &identifier(&[run, "run"])[..16],
                    "name": name,
                    "kind": INTERNAL,
                    "startTimeUnixNano": nanos(start),
                    "endTimeUnixNano": nanos(at),
                    "attributes": [
                        text("trainyard.run", run),
                        text("trainyard.stage", &name),
                        json!({"key": "trainyard.attempt", "value": {"intValue": attempt.to_string()}}),
                        text("trainyard.pool", &pool),
                        text("trainyard.digest", &digest),
                    ],
                    "status": status,
                }))
            }
            Event::RunFinished { outcome } => {
                let status = match outcome {
                    RunOutcome::Succeeded => json!({"code": OK}),
                    RunOutcome::Failed => json!({"code": ERROR, "message": "the run failed"}),
                    RunOutcome::Cancelled => json!({"code": ERROR, "message": "the run was cancelled"}),
                };
                Some(json!({
                    "traceId": &identifier(&[run])[..32],
                    "spanId": &identifier(&[run, "run"])[..16],
                    "name": opened.workflow,
                    "kind": INTERNAL,
                    "startTimeUnixNano": nanos(opened.at),
                    "endTimeUnixNano": nanos(at),
                    "attributes": [text("trainyard.run", run), text("trainyard.workflow", &opened.workflow)],
                    "status": status,
                }))
            }
            _ => None,
        }
    }
}

impl Tracker for OpenTelemetry {
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()> {
        let mut spans = Vec::new();
        for event in events {
            match event {
                TrackerEvent::Opened(opened) => self.opened = Some(opened.clone()),
                TrackerEvent::Event(record) => spans.extend(self.span(record)),
                TrackerEvent::Point(_) => {}
            }
        }
        if spans.is_empty() {
            return Ok(());
        }
        let body = json!({"resourceSpans": [{
            "resource": {"attributes": [text("service.name", &self.service)]},
            "scopeSpans": [{
                "scope": {"name": "trainyard", "version": env!("CARGO_PKG_VERSION")},
                "spans": spans,
            }],
        }]});
        self.client.request(JsonRequest::post("/v1/traces", body))?;
        Ok(())
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// Formats a time in nanoseconds as text, since many readers parse JSON numbers exactly only up to 2⁵³.
fn nanos(unix_millis: i64) -> String {
    (i128::from(unix_millis) * 1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::testing::{RecordingServer, whole_run};

    #[test]
    fn attempts_are_spans_below_the_span_of_their_run() {
        let server = RecordingServer::start(|_, _| "{}".to_string());
        let options = OpenTelemetryOptions { url: server.url.clone(), ..OpenTelemetryOptions::default() };
        let mut tracker = OpenTelemetry::new(options).unwrap();
        // Events arrive in batches.
        for piece in whole_run().chunks(3) {
            tracker.take(&piece.iter().collect::<Vec<_>>()).unwrap();
        }
        let requests = server.requests();
        assert!(requests.iter().all(|(path, _)| path == "/v1/traces"));
        let bodies: Vec<Value> = requests.iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
        let all = |body: &Value| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
        let spans: Vec<Value> = bodies.iter().flat_map(all).collect();
        let names: Vec<&str> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        assert_eq!(names, ["sft", "rl[seed=1]", "rl[seed=1]", "agent"]);
        let codes: Vec<u64> = spans.iter().filter_map(|span| span["status"]["code"].as_u64()).collect();
        assert_eq!(codes, [1, 2, 2, 2]);
        assert_eq!(spans[2]["status"]["message"], "row 3 is empty");
        assert!(spans[..3].iter().all(|span| span["parentSpanId"] == spans[3]["spanId"]));
        assert!(spans.iter().all(|span| span["traceId"] == spans[3]["traceId"]));
        assert_ne!(spans[1]["spanId"], spans[2]["spanId"]);
        assert_eq!(
            (&spans[0]["startTimeUnixNano"], &spans[0]["endTimeUnixNano"]),
            (&json!("1001000000"), &json!("3000000000"))
        );
    }
}
