//! Implements the stage `evaluate`, which measures greedy accuracy, avg@k, pass@k, maj@k and best-of-k by a process
//! reward model, for several models on the same problems.
//!
//! All models get the same problems with the same draws, so differences between models are paired.

mod answers;
pub mod choices;
pub mod config;
mod declared;
pub mod result_collector;
pub mod run;
pub mod scorer;
mod served;
pub mod served_model;
pub mod summary;
#[cfg(test)]
mod tests;
mod trial;
pub mod twins;

pub use config::EvaluateConfig;

use crate::environment_config::{EnvironmentConfig, PlayOptions};
use crate::model::PolicyModel;
use crate::native;
use crate::parts::TrainParts;
use crate::problems;
use crate::results::write_results;
use crate::rollouts::StepKind;
use crate::stages::rl::validate::equal_shares;
use result_collector::ResultCollector;
use run::Evaluation;
use scorer::Scorer;
use serde_json::Value;
use std::sync::Arc;
use summary::Summary;
use trainyard_api::stage::refuse;
use trainyard_api::{Ports, Stage, StageContext, Trial, TrialEpisode, port};
use trainyard_core::error::Context as _;
use trainyard_core::{ArtifactKind, Cardinality, Chance, DeclaredMetrics, Error, Producers, Result};
use trainyard_envs::{Environment, ToolHost};
use trainyard_lm::backend::Backend;
use trainyard_lm::backend::cpu::Cpu;
use trainyard_tables::{Problem, read_problems};
use twins::Twins;

#[derive(Default)]
pub struct Evaluate {
    /// Families of parts that the options may name.
    pub parts: TrainParts,
}

/// Default number of episodes between resume points.
const CHECKPOINT_EVERY: u64 = 1_000;

const DOC: &str = "\
Every model plays every problem once greedily and `samples` times at the sampling temperature, with the tool in \
the loop.\n\n\
accuracy: greedy. avg@k: mean of all samples. pass@k: 1 − C(n−c,k)/C(n,k) per problem (2107.03374). maj@k: the \
most frequent answer, ties by expectation. weighted maj@k: the answer whose samples have the largest sum of the \
process reward model's scores (2206.02336). best-of-k: the sample that the process reward model scores highest, \
by the least, the product or the last of its step scores. All are means over problems with 95% intervals \
clustered by problem; every later model is compared with every earlier one, paired (2411.00640). \
`problems_limit` keeps the same number of problems of every level.\n\n\
Choosing a sample (best-of-k, the likeliest of k) is also compared with taking a random one, paired by problem: \
`best_of_<k>_<how>_over_avg_<name>`.\n\n\
With `training` (the problems that the models were trained on) the report counts the test \
problems have a training twin: a question that is equal once numbers, names and the generator's exchangeable \
words are masked. `training_twins` is their share, `accuracy_without_twins_<name>` and \
`difference_without_twins_<later>_<earlier>` leave them out, and `training_repeats` is the share of test \
problems that are training problems themselves.\n\n\
Metrics: `accuracy_<name>`, `avg_at_<k>_<name>`, `pass_at_<k>_<name>`, `maj_at_<k>_<name>`, \
`weighted_maj_at_<k>_min_<name>`, `best_of_<k>_<min|product|last>_<name>`, `difference_<later>_<earlier>` with \
`_low` and `_high`; `accuracy` is that of the last model. All but the differences also by level: \
`<metric>_<name>_level_<l>` and, with equal weights of the levels, `<metric>_<name>_mean_of_levels`.\n\n\
Models of a matrix are called as their stage instances, `sft[lr=0.003,seed=1]`; the report shows them in one table \
with the axes as columns, mean and standard deviation over the axis `seed`, and accuracy over a numeric axis.\n\n\
`endpoints` names served models (`docs/endpoints.md`). They come after the models of the \
input; their rollouts have messages and no tokens, and `requests_<name>`, `prompt_tokens_<name>`, \
`completion_tokens_<name>` and `cost_<name>` count their usage.\n\n\
`unreadable_answers` is the share of the last model's episodes without a readable answer (there is none, or the \
verifier finds none or several in it; option `extract` of the environment), `unreadable_answers_<name>` that of \
every model. The columns `expected`, `answer`, `verifier` and `unreadable` of `results`, and the report's sample \
episodes, say what was compared.\n\n\
Every rollout is kept unless `keep_rollouts` limits them, and the column `rollout` of `results` names the \
rollout of each row. A problem's draws depend on its id, not on its place, so a part of the problems is sampled \
as it was among all of them.\n\n\
Errors: a process reward model with another tokenizer or template, two problems with one id, problems made for \
another environment. Infrastructure failures are counted separately, not scored 0.";

impl Stage for Evaluate {
    type Prepared = EnvironmentConfig<EvaluateConfig>;
    const NAME: &'static str = "evaluate";
    const VERSION: u32 = 4;
    const SUMMARY: &'static str = "accuracy, pass@k, maj@k and best-of-k of several models on the same problems";
    const DOC: &'static str = DOC;
    const EXAMPLE: &'static str = r#"{"names": ["sft", "rl"], "samples": 8, "problems_limit": 300}"#;
    const ALL_CPUS: bool = true;
    const PLAYS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("accuracy");

    const FAMILIES: &'static [&'static str] = &["backends", "environments", "formats", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        declared::any()
    }
    fn declared_metrics(&self, prepared: &EnvironmentConfig<EvaluateConfig>, producers: &Producers) -> DeclaredMetrics {
        declared::of(&prepared.config, producers)
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Model, Problems, Report, Table, Trajectories};
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port("models", Model, Many, "The models, in the order of `names`; the last is the pipeline's result."),
                port("problems", Problems, One, "Problems to evaluate the models on."),
                port("prm", Model, Optional, "A model with a scoring head, for best-of-k."),
                port(
                    "training",
                    Problems,
                    Many,
                    "Problems that the models were trained on; the report counts the test problems that \
                        resemble it.",
                ),
                port("requests", Table, Many, "Stored responses of served models to reuse."),
            ],
            outputs: vec![
                port("report", Report, One, "Metrics, intervals, paired differences."),
                port("results", Table, One, "One row per model, problem and sample, with the id of its rollout."),
                port("trajectories", Trajectories, One, "The rollouts of every model."),
                port("requests", Table, Optional, "Requests to served models, with their responses."),
            ],
        }
    }
    fn schema(&self) -> Value {
        EnvironmentConfig::<EvaluateConfig>::schema(&self.parts)
    }
    fn prepare(&self, options: Value) -> Result<EnvironmentConfig<EvaluateConfig>> {
        EnvironmentConfig::read(&self.parts, options, |options| self.parse(options))
    }

    fn run(&self, prepared: EnvironmentConfig<EvaluateConfig>, context: &mut StageContext) -> Result<()> {
        let EnvironmentConfig { config, environment, backend } = prepared;
        // Lists that are known only at run time are checked here for the first time.
        refuse(config.problems_with(&context.wired()))?;
        let models = context.many("models");
        let names = config.model_names(models.len());
        let problems = tested(&config, context)?;
        let host = ToolHost::of_stage(context)?;
        let environment = environment.build(&host)?;
        let twins = twins(&problems, &*environment, context)?;
        let backend = backend.build(&context.secrets)?;
        let mut scorer = scorer(&config, &backend, context)?;
        let chance = chance(&config);
        let per_model = |name: &String| {
            problems.len() as u64 * (1 + if config.is_sampled(name) { u64::from(config.samples) } else { 0 })
        };
        let mut ledger = ResultCollector::create(
            context,
            config.keep_rollouts,
            names.iter().map(per_model).sum(),
            config.checkpoint_every.unwrap_or(CHECKPOINT_EVERY),
        )?;
        for (name, artifact) in names.iter().zip(models) {
            let policy = PolicyModel::load(artifact, "models", backend.clone()).at(name)?;
            let mut policy = policy.with_template(&config.template)?;
            let native =
                native::environment(&self.parts.envs, &config.environment, &config.template, &mut policy.folder, &host);
            let native = native.at(name)?;
            let environment = native.as_deref().unwrap_or(&*environment);
            let evaluation = Evaluation { config: &config, environment, problems: &problems, chance };
            if let Some(scorer) = &scorer {
                scorer.expect_same_text(&policy.folder).at(name)?;
            }
            evaluation.run(name, &policy, scorer.as_mut(), &mut ledger)?;
        }
        let mut request_metrics = Vec::new();
        for (name, served) in &config.endpoints {
            let prompt_environment =
                served.calls.prompt_environment(&self.parts.envs.environments, &config.environment, &host)?;
            let evaluation = Evaluation { config: &config, environment: &*environment, problems: &problems, chance };
            request_metrics.extend(
                served::run(&evaluation, (name, served), prompt_environment.as_deref(), host.models(), &mut ledger)
                    .at(name)?,
            );
        }
        let (rows, programs): (Vec<_>, Vec<_>) =
            ledger.finish()?.into_iter().map(|played| (played.rows, played.programs)).unzip();
        request_metrics.into_iter().for_each(|(name, value)| context.metric(name, value));
        host.models().finish(context)?;
        host.report(context);
        write_results(&context.output_parquet("results")?, &rows.concat())?;
        Summary::new(&config, &names, &rows, scorer.is_some(), twins.as_ref()).programs(&programs).write(context)
    }
    fn trial(
        &self,
        prepared: EnvironmentConfig<EvaluateConfig>,
        trial: &Trial,
        context: &mut StageContext,
    ) -> Result<Vec<TrialEpisode>> {
        let drawn = (tested(&prepared.config, context)?, chance(&prepared.config));
        trial::trial(&self.parts, prepared, drawn, trial, context)
    }
}

/// Reads the problems that every model is evaluated on. Errors: data and invalid, naming the input.
fn tested(config: &EvaluateConfig, context: &StageContext) -> Result<Vec<Problem>> {
    let problems = problems::read(context.input("problems")?, "problems")?;
    problems::expect_environment(&config.environment, &problems, "problems")?;
    let problems = equal_shares(problems, config.problems_limit.unwrap_or(usize::MAX));
    if problems.is_empty() {
        return Err(Error::data("input `problems` has no rows").help("wire at least one problem"));
    }
    Ok(problems)
}

/// Returns the source of all random draws.
fn chance(config: &EvaluateConfig) -> Chance {
    Chance::new(config.seed).child("evaluate", &[])
}

/// Finds the test problems that resemble training problems. Returns `None` without training problems.
fn twins(tested: &[Problem], environment: &dyn Environment, context: &StageContext) -> Result<Option<Twins>> {
    let mut training = Vec::new();
    for artifact in context.many("training") {
        training.extend(read_problems(&artifact.parquet())?);
    }
    let decoration = environment.generator().map_or(&[] as &[&str], |generator| generator.decoration());
    Ok((!training.is_empty()).then(|| Twins::find(tested, &training, decoration)))
}

/// Loads the process reward model, whose artifact defines the ends of steps. Returns `None` if no such model is wired.
fn scorer(config: &EvaluateConfig, backend: &Arc<dyn Backend>, context: &StageContext) -> Result<Option<Scorer>> {
    let Some(artifact) = context.optional("prm") else { return Ok(None) };
    let steps = match artifact.metadata.get("steps") {
        Some(value) => serde_json::from_value::<StepKind>(value.clone())
            .map_err(|e| Error::data(format!("input `prm`: `steps` is {value}: {e}")))?,
        None => config.steps,
    };
    // If the evaluated models are served, the scoring head is computed here.
    let backend = if backend.features().scores { backend.clone() } else { Arc::new(Cpu) };
    Scorer::new(PolicyModel::load(artifact, "prm", backend)?, steps, context.cpus).map(Some)
}
