//! Tries a stage: runs a few of its episodes in this process, with inputs from the store, and stores nothing.
//!
//! Like `plan`, a trial uses the engine's forecast to determine whether the inputs are available. A model from the
//! caller replaces the stage's own model before the forecast, so that a stage can be tried before its model is trained.

use crate::attempt::{NoCheckpoints, StoredRequests, context, materialize};
use crate::catalogue::Catalogue;
use crate::scratch::ScratchFolder;
use crate::session::AppSession;
use crate::{machine, wiring};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use trainyard_api::{CancelToken, InputArtifact, Reporter, Trial, TrialEpisode};
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::Selection;
use trainyard_core::{ArtifactKind, Cardinality, Error, Result, StageKey, SystemClock};
use trainyard_engine::forecast::{Forecast, ForecastDecision};
use trainyard_runtime::{NoopObserver, RunOptions};
use trainyard_spec::files::digest_path;
use trainyard_spec::plan::{Plan, PlanNode, RunCondition};

/// Parameters of a trial.
pub struct TrialOptions<'a> {
    /// Id of the stage, or key of an instance: `rl`, `rl[seed=1]`.
    pub stage: &'a str,
    /// Number of episodes, from 1.
    pub episodes: usize,
    /// Overrides the option `seed`.
    pub seed: Option<u64>,
    /// Replaces all models of the stage.
    pub model: Option<InputArtifact>,
    /// Cancels the trial.
    pub cancel: CancelToken,
    /// Receives the messages of the stage.
    pub reporter: Arc<dyn Reporter>,
}

/// Result of a trial.
pub struct TrialResult {
    pub stage: StageKey,
    pub kind: String,
    pub episodes: Vec<TrialEpisode>,
}

/// Returns the model in `folder` as an input artifact. Errors: invalid (the folder does not exist).
pub fn model_in(folder: &Path) -> Result<InputArtifact> {
    let digest = digest_path(folder)?;
    Ok(InputArtifact {
        kind: ArtifactKind::Model,
        stage_digest: digest.clone(),
        digest,
        folder: folder.to_path_buf(),
        metadata: std::collections::BTreeMap::new(),
    })
}

/// Runs the episodes of the trial and returns them. Errors: invalid (an unknown stage, a stage without episodes, or a
/// missing input, with the command that computes it), and those of the stage.
pub fn run_trial(
    session: &AppSession,
    catalogue: &Arc<Catalogue>,
    mut plan: Plan,
    options: TrialOptions<'_>,
) -> Result<TrialResult> {
    let named = |key: &StageKey| key.0 == options.stage || key.stage_id() == options.stage;
    expect_playable(&plan, catalogue, options.stage, &named)?;
    let mut replaced = Vec::new();
    for node in plan.nodes.iter_mut().filter(|node| named(&node.key)) {
        // A trial is explicit and ignores conditions.
        node.when = RunCondition::Always;
        if options.model.is_some() {
            replaced = without_models(node)?;
        }
    }
    let forecasts = forecast(session, catalogue, &plan, options.stage)?;
    let mut ready = forecasts.iter().filter(|f| named(&f.stage) && f.spec.is_some());
    let (first, second) = (ready.next(), ready.next());
    let (Some(found), None) = (first, second) else {
        return Err(match (first, second) {
            (Some(one), _) => ambiguous_stage(options.stage, one),
            (None, _) => no_ready_stage(&plan, &forecasts, options.stage, &named),
        });
    };
    let mut spec = found.spec.as_deref().cloned().ok_or_else(|| Error::bug("a forecast has no spec"))?;
    settle(&mut spec, catalogue, options.seed)?;
    let scratch = ScratchFolder::new()?;
    let inputs = session.block_on(materialize(&session.store, &spec, &scratch.path().join("inputs")))?;
    let mut context =
        context(&spec, inputs, scratch.path(), options.cancel, options.reporter, Arc::new(NoCheckpoints))?;
    context.requests = Arc::new(StoredRequests::new(session.store.clone(), session.handle()));
    for port in replaced {
        context.inputs.insert(port, options.model.iter().cloned().collect());
    }
    let trial = Trial { episodes: options.episodes };
    let episodes = catalogue.stage(&spec.kind)?.trial(&spec.config, &trial, &mut context)?;
    Ok(TrialResult { stage: spec.stage, kind: spec.kind, episodes })
}

/// Fails if the plan lacks the stage, or if the stage plays no episodes.
fn expect_playable(plan: &Plan, catalogue: &Catalogue, stage: &str, named: &impl Fn(&StageKey) -> bool) -> Result<()> {
    let plays = |node: &&PlanNode| catalogue.stage(&node.kind).is_ok_and(|kind| kind.info().plays);
    let ids: BTreeSet<&str> = plan.nodes.iter().filter(plays).map(|node| node.key.stage_id()).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let help = if ids.is_empty() {
        "no stage of this workflow plays episodes".to_string()
    } else {
        format!("stages that play episodes: {}", ids.join(", "))
    };
    match plan.nodes.iter().find(|node| named(&node.key)) {
        None => Err(Error::invalid(format!("`{stage}` is not a stage of this workflow")).help(help)),
        Some(node) if !plays(&node) => {
            let message = format!("stage `{stage}` is of kind `{}`, which plays no episodes", node.kind);
            Err(Error::invalid(message).help(help))
        }
        Some(_) => Ok(()),
    }
}

/// Removes the models from the inputs of a stage, and returns the names of their ports. Errors: invalid, if the stage
/// takes no model.
fn without_models(node: &mut PlanNode) -> Result<Vec<String>> {
    let is_model =
        |kind: ArtifactKind, cardinality| kind == ArtifactKind::Model && cardinality != Cardinality::Optional;
    let mut ports = Vec::new();
    let mut removed = BTreeSet::new();
    for input in node.inputs.iter_mut().filter(|input| is_model(input.kind, input.cardinality)) {
        ports.push(input.port.clone());
        removed.extend(input.from.drain(..).map(|of| of.stage));
    }
    if ports.is_empty() {
        return Err(Error::invalid(format!("stage `{}` takes no model", node.key)).help("leave `--model` out"));
    }
    let remaining: BTreeSet<&StageKey> = node.inputs.iter().flat_map(|input| &input.from).map(|of| &of.stage).collect();
    node.after.retain(|stage| remaining.contains(stage) || !removed.contains(stage));
    Ok(ports)
}

fn forecast(session: &AppSession, catalogue: &Arc<Catalogue>, plan: &Plan, stage: &str) -> Result<Vec<Forecast>> {
    let context = wiring::run_context(session, catalogue, Arc::new(SystemClock::new()), Arc::new(NoopObserver))?;
    let selection = Selection { until: vec![stage.to_string()], ..Selection::default() };
    let options = RunOptions { selection, ..RunOptions::default() };
    session.block_on(trainyard_runtime::forecast::forecast(&options, plan, &context))
}

fn ambiguous_stage(stage: &str, one: &Forecast) -> Error {
    Error::invalid(format!("stage `{stage}` has several instances")).help(format!("name one, such as `{}`", one.stage))
}

/// Returns the error of a stage whose inputs are missing, with the stages that compute them.
fn no_ready_stage(plan: &Plan, forecasts: &[Forecast], stage: &str, named: &impl Fn(&StageKey) -> bool) -> Error {
    let instances: Vec<&Forecast> = forecasts.iter().filter(|f| named(&f.stage)).collect();
    if let Some(failed) =
        instances.iter().find(|f| matches!(f.decision, ForecastDecision::Fails | ForecastDecision::Blocked))
    {
        return Error::invalid(format!("stage `{stage}` cannot be tried: {}", failed.why));
    }
    let nodes = plan.nodes.iter().filter(|node| named(&node.key));
    let before: BTreeSet<&StageKey> = nodes.flat_map(|node| &node.after).collect();
    let open = forecasts.iter().filter(|f| before.contains(&f.stage) && f.decision != ForecastDecision::Hit);
    let open: Vec<&str> = open.map(|f| f.stage.stage_id()).collect::<BTreeSet<_>>().into_iter().collect();
    if open.is_empty() {
        let why = instances.first().map(|f| f.why.as_str()).filter(|why| !why.is_empty());
        return Error::invalid(format!("stage `{stage}` cannot be tried: {}", why.unwrap_or("it has no inputs")));
    }
    let until: Vec<String> = open.iter().map(|id| format!("--until {id}")).collect();
    let file = plan.source.display();
    Error::invalid(format!("stage `{stage}` reads from `{}`, which is not in the store", open.join("`, `"))).help(
        format!("compute it with `trainyard run {file} {}` and the same parameters, then try again", until.join(" ")),
    )
}

/// Adapts the spec to a trial: sets the seed, grants all CPUs of this machine, and removes the outputs.
fn settle(spec: &mut AttemptSpec, catalogue: &Catalogue, seed: Option<u64>) -> Result<()> {
    spec.resources.cpus = machine::cpus();
    spec.outputs.clear();
    let Some(seed) = seed else { return Ok(()) };
    let options = &catalogue.stage(&spec.kind)?.info().options;
    if options["properties"].get("seed").is_none() {
        return Err(
            Error::invalid(format!("stages of kind `{}` have no option `seed`", spec.kind)).help("leave `--seed` out")
        );
    }
    let seed: Value = json!(seed);
    spec.config["seed"] = seed;
    Ok(())
}
