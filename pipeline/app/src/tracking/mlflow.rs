//! Implements the tracker `mlflow`, which writes runs to an MLflow server over its REST interface (version 2.0).

use super::tracker::{RunStart, Tracker, TrackerEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use trainyard_api::PartOptions;
use trainyard_core::event::{Event, RunOutcome};
use trainyard_core::{Error, OptionProblem, Result, Secret};
use trainyard_http::{BaseUrl, HttpClient, JsonRequest, RequestLimits};

/// Maximum metrics of one request, a limit of the server.
const METRICS: usize = 1_000;
/// Maximum parameters of one request.
const PARAMS: usize = 100;
/// Maximum characters of a parameter's value.
const VALUE: usize = 500;
const LIMITS: RequestLimits =
    RequestLimits { requests: 1, attempts: 3, timeout: Duration::from_secs(10), response_bytes: 1 << 20 };
/// Tag with the id of the run, by which a resumed run is found.
const RUN: &str = "trainyard.run";

/// Options of the tracker `mlflow`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MlflowOptions {
    /// URL of the server: `http://127.0.0.1:5000`.
    pub url: String,
    /// Experiment; the name of the workflow if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<String>,
    /// Source of a bearer token, as in `env:MLFLOW_TRACKING_TOKEN`; no token if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl Default for MlflowOptions {
    fn default() -> Self {
        Self { url: "http://127.0.0.1:5000".to_string(), experiment: None, token: None }
    }
}

impl PartOptions for MlflowOptions {
    const KIND: &'static str = "mlflow";
    const SUMMARY: &'static str = "runs of an MLflow server";
    const DOC: &'static str = "Each run is a run of MLflow with the workflow's parameters. Its metrics are \
        `<stage>/<metric>`, with the steps of the stage; final metrics of a stage are `<stage>/final/<metric>`. A \
        resumed run is found by its tag `trainyard.run`. Characters that MLflow does not accept in names become `.`, \
        and numbers that are not finite are left out.";
    fn check(&self) -> Vec<OptionProblem> {
        let url = BaseUrl::read(&self.url).err().map(|e| OptionProblem::new("/url", e.message));
        let token = self.token.as_ref().filter(|token| !token.starts_with("env:")).map(|_| {
            OptionProblem::new("/token", "the token is not the name of a variable").help("write `env:VARIABLE`")
        });
        url.into_iter().chain(token).collect()
    }
}

/// The tracker `mlflow`.
pub struct Mlflow {
    client: HttpClient,
    experiment: Option<String>,
    opened: Option<RunStart>,
    /// Id of the run on the server, once assigned.
    run: Option<String>,
}

impl Mlflow {
    /// Creates the tracker without sending a request. Errors: invalid (the address, or a variable that is not set).
    pub fn new(options: MlflowOptions) -> Result<Self> {
        let token = options.token.as_deref().and_then(|token| token.strip_prefix("env:")).map(secret).transpose()?;
        let client = HttpClient::open(BaseUrl::read(&options.url)?, token, LIMITS)?;
        Ok(Self { client, experiment: options.experiment, opened: None, run: None })
    }
    fn post(&self, path: &'static str, body: Value) -> Result<Value> {
        Ok(self.client.request(JsonRequest::post(path, body))?)
    }
    /// Returns the id of the run on the server. Finds a resumed run, and creates the run otherwise.
    fn run(&mut self) -> Result<String> {
        if let Some(run) = &self.run {
            return Ok(run.clone());
        }
        let opened = self.opened.clone().ok_or_else(|| Error::bug("events arrived before their run was opened"))?;
        let experiment = self.experiment(self.experiment.as_deref().unwrap_or(&opened.workflow))?;
        let found = if opened.resumed { self.find_run(&experiment, &opened)? } else { None };
        let run = match found {
            Some(run) => run,
            None => self.create(&experiment, &opened)?,
        };
        Ok(self.run.insert(run).clone())
    }
    fn experiment(&self, name: &str) -> Result<String> {
        let filter = format!("name = '{}'", name.replace('\'', ""));
        let search = json!({"filter": filter, "max_results": 1});
        let found = self.post("/api/2.0/mlflow/experiments/search", search)?;
        if let Some(id) = found.pointer("/experiments/0/experiment_id").and_then(Value::as_str) {
            return Ok(id.to_string());
        }
        let created = self.post("/api/2.0/mlflow/experiments/create", json!({"name": name.replace('\'', "")}))?;
        text(&created, "/experiment_id")
    }
    fn find_run(&self, experiment: &str, opened: &RunStart) -> Result<Option<String>> {
        let filter = format!("tags.`{RUN}` = '{}'", opened.run);
        let search = json!({"experiment_ids": [experiment], "filter": filter, "max_results": 1});
        let found = self.post("/api/2.0/mlflow/runs/search", search)?;
        Ok(found.pointer("/runs/0/info/run_id").and_then(Value::as_str).map(str::to_string))
    }
    fn create(&self, experiment: &str, opened: &RunStart) -> Result<String> {
        let tag = |key: &str, value: &str| json!({"key": key, "value": value});
        let created = self.post(
            "/api/2.0/mlflow/runs/create",
            json!({
                "experiment_id": experiment,
                "run_name": opened.run,
                "start_time": opened.at,
                "tags": [tag(RUN, &opened.run.0), tag("trainyard.workflow", &opened.workflow)],
            }),
        )?;
        let run = text(&created, "/run/info/run_id")?;
        let params: Vec<Value> = opened.params.iter().map(|(name, value)| parameter(name, value)).collect();
        for params in params.chunks(PARAMS) {
            self.post("/api/2.0/mlflow/runs/log-batch", json!({"run_id": run, "params": params}))?;
        }
        Ok(run)
    }
}

impl Tracker for Mlflow {
    fn take(&mut self, events: &[&TrackerEvent]) -> Result<()> {
        let (mut metrics, mut end) = (Vec::new(), None);
        for event in events {
            match event {
                TrackerEvent::Opened(opened) => self.opened = Some(opened.clone()),
                TrackerEvent::Point(p) => {
                    metrics.extend(metric(&format!("{}/{}", p.stage, p.name), p.value, p.at, p.step))
                }
                TrackerEvent::Event(record) => match &record.event {
                    Event::Published { stage, metrics: last, .. } => {
                        let last = last
                            .iter()
                            .filter_map(|(name, value)| metric(&format!("{stage}/final/{name}"), *value, record.at, 0));
                        metrics.extend(last);
                    }
                    Event::RunFinished { outcome } => end = Some((status(*outcome), record.at)),
                    _ => {}
                },
            }
        }
        let run = self.run()?;
        for metrics in metrics.chunks(METRICS) {
            self.post("/api/2.0/mlflow/runs/log-batch", json!({"run_id": run, "metrics": metrics}))?;
        }
        if let Some((status, at)) = end {
            self.post("/api/2.0/mlflow/runs/update", json!({"run_id": run, "status": status, "end_time": at}))?;
        }
        Ok(())
    }
}

fn secret(variable: &str) -> Result<Secret> {
    let value = std::env::var(variable).map_err(|_| {
        Error::invalid(format!("the variable {variable} is not set")).help("set it to the token of the MLflow server")
    })?;
    Ok(Secret::new(value))
}

fn text(response: &Value, at: &str) -> Result<String> {
    response.pointer(at).and_then(Value::as_str).map(str::to_string).ok_or_else(|| {
        Error::data(format!("the response of the MLflow server has no `{at}`"))
            .help("check that `url` is an MLflow server")
    })
}

/// Returns the metric, or `None` for a number that is not finite: the server would reject the whole request.
fn metric(key: &str, value: f64, at: i64, step: u64) -> Option<Value> {
    value.is_finite().then(|| json!({"key": name(key), "value": value, "timestamp": at, "step": step}))
}

fn parameter(key: &str, value: &Value) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
    json!({"key": name(key), "value": text.chars().take(VALUE).collect::<String>()})
}

/// Replaces the characters that MLflow does not permit in names by dots. It permits letters, digits, `_`, `-`, `.`, `/`
/// and blanks.
fn name(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() || "_-./ ".contains(c) { c } else { '.' }).collect()
}

fn status(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => "FINISHED",
        RunOutcome::Failed => "FAILED",
        RunOutcome::Cancelled => "KILLED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::testing::{RecordingServer, opened, point, whole_run};
    use std::collections::BTreeMap;

    fn server() -> RecordingServer {
        RecordingServer::start(|path, _| {
            let response = match path.rsplit("mlflow/").next().unwrap() {
                "experiments/search" => json!({}),
                "experiments/create" => json!({"experiment_id": "7"}),
                "runs/search" => json!({"runs": [{"info": {"run_id": "old"}}]}),
                "runs/create" => json!({"run": {"info": {"run_id": "new"}}}),
                _ => json!({}),
            };
            response.to_string()
        })
    }

    fn tracker(server: &RecordingServer) -> Mlflow {
        Mlflow::new(MlflowOptions { url: server.url.clone(), ..MlflowOptions::default() }).unwrap()
    }

    /// Returns metrics by key.
    fn logged_metrics(requests: &[(String, String)]) -> BTreeMap<String, Vec<(u64, f64)>> {
        let mut found: BTreeMap<String, Vec<(u64, f64)>> = BTreeMap::new();
        for (_, body) in requests.iter().filter(|(path, _)| path.ends_with("log-batch")) {
            let body: Value = serde_json::from_str(body).unwrap();
            for metric in body["metrics"].as_array().into_iter().flatten() {
                let at = (metric["step"].as_u64().unwrap(), metric["value"].as_f64().unwrap());
                found.entry(metric["key"].as_str().unwrap().to_string()).or_default().push(at);
            }
        }
        found
    }

    #[test]
    fn run_is_logged_with_parameters_metrics_and_end() {
        let server = server();
        let run = whole_run();
        tracker(&server).take(&run.iter().collect::<Vec<_>>()).unwrap();
        let requests = server.requests();
        let paths: Vec<&str> = requests.iter().map(|(path, _)| path.rsplit("mlflow/").next().unwrap()).collect();
        let expected = ["experiments/search", "experiments/create", "runs/create", "runs/log-batch", "runs/log-batch"];
        assert_eq!(paths[..5], expected);
        assert_eq!(paths[5..], ["runs/update"]);
        assert!(requests[3].1.contains(r#"{"key":"steps","value":"3"}"#), "{}", requests[3].1);
        let metrics = logged_metrics(&requests);
        assert_eq!(metrics["sft/loss"], [(1, 2.5)], "NaN is left out");
        assert_eq!(metrics["sft/final/accuracy"], [(0, 0.75)]);
        assert_eq!(metrics["rl.seed.1./reward_mean"], [(1, 0.5)]);
        assert!(requests[5].1.contains("FAILED"));
    }

    #[test]
    fn resumed_run_is_found_by_its_tag() {
        let server = server();
        let mut tracker = tracker(&server);
        let opened = TrackerEvent::Opened(RunStart { resumed: true, ..opened("r") });
        tracker.take(&[&opened, &TrackerEvent::Point(point("rl", "loss", 4, 1.0))]).unwrap();
        let requests = server.requests();
        assert!(!requests.iter().any(|(path, _)| path.ends_with("runs/create")));
        assert!(requests.last().unwrap().1.contains(r#""run_id":"old""#));
    }

    #[test]
    fn options_are_checked() {
        let bad = MlflowOptions { url: "here".into(), token: Some("abc".into()), ..MlflowOptions::default() };
        let places: Vec<String> = bad.check().into_iter().map(|p| p.pointer).collect();
        assert_eq!(places, ["/url", "/token"]);
        let unset = MlflowOptions { token: Some("env:TRAINYARD_NO_SUCH_VARIABLE".into()), ..MlflowOptions::default() };
        assert!(Mlflow::new(unset).err().unwrap().message.contains("TRAINYARD_NO_SUCH_VARIABLE"));
    }
}
