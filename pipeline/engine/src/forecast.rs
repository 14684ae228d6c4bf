//! Forecasts a run: every stage is a hit, runs, or is deferred, with the reason.
//!
//! The forecast uses the engine itself with every miss ending its stage, so `plan` and `run` cannot disagree. Stages
//! that depend on a miss are deferred, since their digests depend on its outputs.

use crate::engine::RunEngine;
use crate::io::{Command, Input, LookupResult, NodeId};
use crate::node::NodeOutcome;
use crate::selection::NodeMode;
use crate::setup::EngineSetup;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::{Digest, Output, Result, StageKey};
use trainyard_spec::plan::Plan;

/// Expected treatment of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForecastDecision {
    /// Take the published outputs.
    Hit,
    /// Compute it.
    Run,
    /// Take the outputs of another stage of the run, which has the same digest and runs.
    Shared,
    /// Known only after an upstream stage ran.
    Deferred,
    /// Leave it out: its condition is false, or an input is skipped.
    Skipped,
    /// A check on the published metrics fails, or a late value is invalid.
    Fails,
    /// A stage that it needs fails.
    Blocked,
    /// Outside the selection.
    NotSelected,
}

impl ForecastDecision {
    /// Returns the lower-case name, for output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Run => "run",
            Self::Shared => "shared",
            Self::Deferred => "deferred",
            Self::Skipped => "skipped",
            Self::Fails => "fails",
            Self::Blocked => "blocked",
            Self::NotSelected => "not selected",
        }
    }
}

/// The forecast for one stage instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Forecast {
    pub stage: StageKey,
    pub kind: String,
    pub decision: ForecastDecision,
    pub why: String,
    /// Digest, known for hits and runs.
    pub digest: Option<Digest>,
    /// Generation of the manifest, for hits.
    pub generation: Option<u32>,
    /// Expected seconds of a run. The engine leaves it `None`; a caller that knows earlier runs fills it in.
    pub seconds: Option<f64>,
    /// Spec of the attempt, for comparison with an earlier manifest.
    #[serde(skip)]
    pub spec: Option<Arc<AttemptSpec>>,
}

/// Query to the store.
#[derive(Debug, Clone)]
pub enum ForecastQuery {
    /// Manifest published under this digest.
    Lookup(Digest),
    /// The rows of a table.
    Rows {
        output: Box<Output>,
        /// Maximum number of rows.
        limit: u64,
    },
}

/// Response to a [`ForecastQuery`].
#[derive(Debug, Clone)]
pub enum ForecastResponse {
    /// Published manifest.
    Lookup(Result<LookupResult>),
    Rows(Result<Vec<Value>>),
}

/// Forecasts every stage, in plan order with instances after their fan-out. `respond` receives queries that may be
/// handled concurrently, and returns one response to each, in the same order.
///
/// Errors: those of [`RunEngine::new`], and those of `respond`.
pub fn forecast(
    plan: &Plan,
    setup: EngineSetup,
    mut respond: impl FnMut(Vec<ForecastQuery>) -> Result<Vec<ForecastResponse>>,
) -> Result<Vec<Forecast>> {
    let mut session = ForecastSession::begin(plan, setup)?;
    loop {
        let queries = session.next_queries();
        if queries.is_empty() {
            return Ok(session.finish());
        }
        session.apply_responses(respond(queries)?);
    }
}

/// Forecast in steps, for callers that respond asynchronously.
pub struct ForecastSession {
    engine: RunEngine,
    pending: Vec<(NodeId, ForecastQuery)>,
    queried: Vec<NodeId>,
}

impl ForecastSession {
    /// Begins a forecast. Errors: those of [`RunEngine::new`].
    pub fn begin(plan: &Plan, setup: EngineSetup) -> Result<Self> {
        let mut engine = RunEngine::new(plan, setup)?;
        engine.forecasting = true;
        let mut session = Self { engine, pending: Vec::new(), queried: Vec::new() };
        session.feed(Input::Begin);
        Ok(session)
    }
    /// Returns the next queries; empty when the forecast is done.
    pub fn next_queries(&mut self) -> Vec<ForecastQuery> {
        let (nodes, queries) = std::mem::take(&mut self.pending).into_iter().unzip();
        self.queried = nodes;
        queries
    }
    /// Applies the responses to the last queries, in their order.
    pub fn apply_responses(&mut self, responses: Vec<ForecastResponse>) {
        for (node, response) in std::mem::take(&mut self.queried).into_iter().zip(responses) {
            self.feed(match response {
                ForecastResponse::Lookup(answer) => Input::LookedUp { node, answer },
                ForecastResponse::Rows(rows) => Input::Rows { node, rows },
            });
        }
    }
    /// Returns the forecast of every stage, in plan order.
    pub fn finish(self) -> Vec<Forecast> {
        let mut forecasts = Vec::with_capacity(self.engine.states.len());
        for at in 0..self.engine.states.len() {
            if self.engine.states[at].item.is_none() {
                forecasts.push(self.engine.forecast_of(NodeId(at as u32)));
                forecasts.extend(self.engine.states[at].instances.iter().map(|i| self.engine.forecast_of(*i)));
            }
        }
        forecasts
    }
    fn feed(&mut self, input: Input) {
        for command in self.engine.step(0, input).commands {
            match command {
                Command::Lookup { node, digest } => self.pending.push((node, ForecastQuery::Lookup(digest))),
                Command::ReadRows { node, output, limit } => {
                    self.pending.push((node, ForecastQuery::Rows { output, limit }))
                }
                _ => {}
            }
        }
    }
}

impl RunEngine {
    fn forecast_of(&self, node: NodeId) -> Forecast {
        let state = self.state(node);
        let (decision, why) = match state.ending() {
            Some(NodeOutcome::Hit) => (ForecastDecision::Hit, "its digest is published".to_string()),
            Some(NodeOutcome::Done) => (ForecastDecision::Hit, "all its instances are hits".to_string()),
            Some(NodeOutcome::WouldRun) if state.leader.is_some() => (ForecastDecision::Shared, String::new()),
            Some(NodeOutcome::WouldRun) => (ForecastDecision::Run, String::new()),
            Some(NodeOutcome::Skipped) => (ForecastDecision::Skipped, String::new()),
            Some(NodeOutcome::Failed) => {
                (ForecastDecision::Fails, state.error.as_ref().map_or_else(String::new, ToString::to_string))
            }
            Some(NodeOutcome::Blocked) => (ForecastDecision::Blocked, String::new()),
            Some(NodeOutcome::Excluded) => (ForecastDecision::NotSelected, "not part of the selection".to_string()),
            Some(NodeOutcome::Cancelled | NodeOutcome::Deferred) | None => {
                (ForecastDecision::Deferred, self.deferred_by(node))
            }
        };
        let known = matches!(
            decision,
            ForecastDecision::Hit | ForecastDecision::Run | ForecastDecision::Shared | ForecastDecision::Fails
        );
        Forecast {
            stage: state.key.clone(),
            kind: state.plan.kind.clone(),
            decision,
            why: if why.is_empty() { state.why.clone().unwrap_or_default() } else { why },
            digest: state.digest.clone().filter(|_| known),
            generation: state.manifest.as_ref().map(|m| m.generation),
            seconds: None,
            spec: if state.mode == NodeMode::Run { state.spec.clone() } else { None },
        }
    }

    fn deferred_by(&self, node: NodeId) -> String {
        let state = self.state(node);
        if !state.instances.is_empty() {
            return "some of its instances are not published".into();
        }
        let open = state
            .after
            .iter()
            .map(|d| self.state(*d))
            .filter(|s| matches!(s.ending(), Some(NodeOutcome::WouldRun | NodeOutcome::Deferred)));
        let names: Vec<&str> = open.map(|s| s.key.0.as_str()).take(3).collect();
        format!("waits for {}", names.join(", "))
    }
}
