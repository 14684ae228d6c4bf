//! Forecasts the stages of a plan from the content of a store. Adds the changes since the last run of the workflow, and
//! how long each stage took in that run.

use crate::context::RunContext;
use crate::lookup;
use crate::options::RunOptions;
use crate::totals;
use futures::StreamExt;
use futures::stream;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{Manifest, Result, RunId};
use trainyard_engine::ResumeState;
use trainyard_engine::fold::RunView;
use trainyard_engine::forecast::{Forecast, ForecastDecision, ForecastQuery, ForecastResponse, ForecastSession};
use trainyard_spec::plan::Plan;
use trainyard_store::manifests::NewestManifest;

/// Maximum number of concurrent store queries.
const CONCURRENT: usize = 48;
/// Number of recent runs that are searched for one of the same workflow.
const RUNS_BACK: usize = 20;

/// Forecasts every stage of the plan without writing. Errors: those of [`crate::run()`] that come before the first
/// attempt.
pub async fn forecast(options: &RunOptions, plan: &Plan, context: &RunContext) -> Result<Vec<Forecast>> {
    let setup = crate::run::setup(options, context, RunId(String::new()), ResumeState::default());
    let mut session = ForecastSession::begin(plan, setup)?;
    loop {
        let queries = session.next_queries();
        if queries.is_empty() {
            break;
        }
        let responses = stream::iter(queries).map(|query| run_query(context, query)).buffered(CONCURRENT);
        session.apply_responses(responses.collect().await);
    }
    let mut forecasts = session.finish();
    if forecasts.iter().any(|f| f.decision == ForecastDecision::Run)
        && let Some(last) = last_run(context, &plan.workflow).await?
    {
        for forecast in &mut forecasts {
            compare(context, &last, forecast).await?;
        }
    }
    Ok(forecasts)
}

async fn run_query(context: &RunContext, query: ForecastQuery) -> ForecastResponse {
    match query {
        ForecastQuery::Lookup(digest) => ForecastResponse::Lookup(lookup::look_up(&context.store, &digest).await),
        ForecastQuery::Rows { output, limit } => ForecastResponse::Rows(context.rows.rows(&output, limit).await),
    }
}

async fn last_run(context: &RunContext, workflow: &str) -> Result<Option<RunView>> {
    for run in context.store.list_runs().await?.iter().rev().take(RUNS_BACK) {
        // Avoids reading the journal of a long run of another workflow.
        if totals::read(&context.store, run).await?.is_some_and(|totals| totals.workflow != workflow) {
            continue;
        }
        // A damaged journal is skipped.
        if let Ok(view) = crate::resume::read_run(&context.store, run).await
            && view.workflow == workflow
        {
            return Ok(Some(view));
        }
    }
    Ok(None)
}

/// Adds the expected seconds, and the changes since the last run of the same stage.
async fn compare(context: &RunContext, last: &RunView, forecast: &mut Forecast) -> Result<()> {
    let Some(before) = last.stage(&forecast.stage) else { return Ok(()) };
    if forecast.decision != ForecastDecision::Hit {
        forecast.seconds = before.seconds();
    }
    let (ForecastDecision::Run, Some(spec), Some(digest)) = (forecast.decision, &forecast.spec, &before.digest) else {
        return Ok(());
    };
    if *digest == spec.stage_digest {
        return Ok(());
    }
    // Without a readable manifest the reason is only shorter.
    if let NewestManifest::Sound(manifest) = context.store.newest(digest).await? {
        let changes = differences(spec, &manifest);
        if !changes.is_empty() {
            forecast.why = format!("{}; since the last run: {}", forecast.why, changes.join(", "));
        }
    }
    Ok(())
}

/// Describes why the digests of a spec and a manifest differ, as short phrases.
fn differences(spec: &AttemptSpec, manifest: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    if (spec.kind.as_str(), spec.kind_version) != (manifest.kind.as_str(), manifest.kind_version) {
        found.push(format!(
            "kind {} v{} was {} v{}",
            spec.kind, spec.kind_version, manifest.kind, manifest.kind_version
        ));
    }
    changed_values("", &spec.config, &manifest.config, &mut found);
    let ports: std::collections::BTreeSet<&String> = spec.inputs.keys().chain(manifest.inputs.keys()).collect();
    for port in ports {
        let now: Vec<_> = spec.inputs.get(port).into_iter().flatten().map(|i| &i.output.digest).collect();
        let before: Vec<_> = manifest.inputs.get(port).into_iter().flatten().map(|i| &i.digest).collect();
        if now != before {
            found.push(format!("the content of input `{port}` changed"));
        }
    }
    if found.is_empty() {
        found.push("a source file, the environment or the salt changed".into());
    }
    found.truncate(5);
    found
}

fn changed_values(path: &str, now: &serde_json::Value, before: &serde_json::Value, found: &mut Vec<String>) {
    use serde_json::Value;
    match (now, before) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let null = Value::Null;
                let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                changed_values(&place, a.get(key).unwrap_or(&null), b.get(key).unwrap_or(&null), found);
            }
        }
        _ if now != before => {
            let short = |v: &Value| v.to_string().chars().take(60).collect::<String>();
            found.push(format!("{path} is {}, was {}", short(now), short(before)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_reported_by_path() {
        let mut found = Vec::new();
        changed_values("", &json!({"a": {"b": 2}, "c": 1}), &json!({"a": {"b": 1}, "c": 1, "d": true}), &mut found);
        assert_eq!(found, ["a.b is 2, was 1", "d is null, was true"]);
    }
}
