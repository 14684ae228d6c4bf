//! Implements the stage `sft`, supervised fine-tuning on trajectories.
//!
//! Fine-tuning teaches the format of turns and tool calls. Only the agent's own tokens are in the loss, never tool
//! results.

pub mod config;
pub mod data;
#[cfg(test)]
mod pinned_tests;
mod plan;
mod prepared;
mod reading;
pub mod run;
pub mod stop;
#[cfg(test)]
mod tests;
pub mod text_ranks;

pub use config::SftConfig;

use crate::backend_config::BackendConfig;
use crate::model::{self, PolicyModel};
use crate::optimize::{TrainableParams, TrainingMethod};
use crate::parts::TrainParts;
use data::{SftExamples, TokenLimit};
use plan::SftPlan;
use prepared::PreparedSft;
use serde_json::Value;
use stop::StopEvaluator;
use trainyard_api::report::StageReport;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, MetricInfo, Producers, Reduce, Result};
use trainyard_lm::backend::LearnerHead;
use trainyard_lm::stages::tokenize::PORT;

/// The stage kind `sft`, with the backends that it may compute on.
#[derive(Default)]
pub struct Sft {
    /// Families of parts that the options may name.
    pub parts: TrainParts,
}

const DOC: &str = "\
Minimizes the mean negative log-probability of the agent's tokens (content, tool calls and the token that ends a \
turn) given all before them. Demonstrations (rows without tokens) are encoded with the model's chat template: \
every turn is learned under the context that the template shows before it, in several sequences where it rewrites \
earlier turns. Rollouts are used as they are. Rows are encoded on all threads; `data/tokenize` keeps their \
tokens for several trainings, and the input `tokenized` instead of `trajectories` ends in the same weights. Tokens \
are kept in a temporary file (33 bits a token) and read back step by step, so tables may be larger than memory.\n\n\
A turn whose tool call failed is context, not an example (`mask_errored_turns`). Sequences of similar length \
share a step of about `batch_tokens`; the optimizer is AdamW with warm-up, decay and clipping. The loss on \
held-out trajectories (the input `validation`, or a share of the problems) is measured before the first step, \
every `validate_every` steps and after the last, and the weights with the lowest loss are kept.\n\n\
`stop_at: {accuracy: 0.2}` ends training as soon as sampled episodes on the input `problems` pass that often: the \
accuracy of the input model, of every `every`-th step and of the last is measured on the same `episodes` draws, and \
the weights of the step that reaches it are the result, whatever their validation loss.\n\n\
Checkpoints hold weights, moments, step and curves, so a killed stage resumes and ends in the same bytes.\n\n\
Errors: trajectories of another tokenizer or template, a loss or gradient that is not finite, an empty training \
set.";

/// Declares all metrics, including those of validation, regardless of held-out rows.
fn metrics() -> Vec<MetricInfo> {
    let validation = MetricInfo::new(
        "validation_loss",
        "nats per token",
        "Loss on held-out trajectories, of the weights that are kept.",
    );
    let initial = MetricInfo::new(
        "validation_loss_initial",
        "nats per token",
        "Loss on held-out trajectories before the first step.",
    );
    vec![
        MetricInfo::new("loss", "nats per token", "Loss on the tokens in the loss.")
            .lower()
            .reduced_by(Reduce::LastTenth),
        MetricInfo::new("grad_norm", "norm", "Norm of the gradient before it is clipped.")
            .reduced_by(Reduce::LastTenth),
        MetricInfo::new("steps", "steps", "Optimizer steps."),
        MetricInfo::new("tokens", "tokens", "Tokens that were read, prompts included."),
        MetricInfo::new("rows", "rows", "Training trajectories."),
        MetricInfo::new("rows_too_long", "rows", "Trajectories that do not fit into the context and were left out.")
            .lower(),
        MetricInfo::new("rows_without_loss", "rows", "Trajectories without a token in the loss.").lower(),
        MetricInfo::new("masked_turns", "turns", "Turns that are in the context but not in the loss."),
        validation.lower().optional(),
        initial.lower().optional(),
        MetricInfo::new("best_step", "step", "Step of the weights that are kept.").optional(),
        MetricInfo::new(stop::METRIC, "share", "Sampled episodes that are right at the end, with `stop_at`.")
            .higher()
            .optional(),
    ]
}

impl Stage for Sft {
    type Prepared = PreparedSft;
    const NAME: &'static str = "sft";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "supervised fine-tuning on the agent's tokens of trajectories";
    const DOC: &'static str = DOC;
    const EXAMPLE: &'static str = r#"{"epochs": 3, "batch_tokens": 8192, "optimizer": {"learning_rate": 2e-3}}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("loss");

    const FAMILIES: &'static [&'static str] = &["backends", "environments", "formats", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        metrics().into()
    }
    fn declared_metrics(&self, prepared: &PreparedSft, producers: &Producers) -> DeclaredMetrics {
        let config = &prepared.trained.config;
        let mut list = metrics();
        list.retain(|m| config.stop_at.is_some() || m.name != stop::METRIC);
        let wired = producers.get("validation").is_some_and(|list| !list.is_empty());
        if !wired && config.validation_share == 0.0 {
            list.retain(|m| !m.name.starts_with("validation") && m.name != "best_step");
        }
        list.into()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Model, Problems, Report, Table, Trajectories};
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port("model", Model, One, "The model to start from."),
                port("trajectories", Trajectories, Many, "Training data."),
                port(PORT, Table, Many, "Training data from `data/tokenize`, instead of `trajectories`."),
                port("validation", Trajectories, Optional, "Held-out trajectories that choose the weights to keep."),
                port(stop::PORT, Problems, Optional, "Problems that `stop_at` plays; not those of the test."),
            ],
            outputs: vec![
                port("model", Model, One, "The fine-tuned model."),
                port("report", Report, One, "Learning curves and final metrics."),
            ],
        }
    }
    fn schema(&self) -> Value {
        let mut schema = BackendConfig::<SftConfig>::schema(&self.parts);
        self.parts.fill_environment(&mut schema);
        schema
    }
    fn prepare(&self, mut options: Value) -> Result<PreparedSft> {
        let environment = prepared::environment(&self.parts, &mut options);
        let trained = BackendConfig::read(&self.parts, options, |options| self.parse(options))?;
        Ok(PreparedSft { trained, environment })
    }

    fn run(&self, prepared: PreparedSft, context: &mut StageContext) -> Result<()> {
        let PreparedSft { trained: BackendConfig { config, backend }, environment } = prepared;
        let policy = PolicyModel::load(context.input("model")?, "model", backend.build(&context.secrets)?)?;
        let policy = policy.with_template(&config.template)?;
        let (mut policy, learns) = policy.trained(config.adapter.as_ref(), config.seed)?;
        let limit = TokenLimit { option: config.max_tokens, context: policy.folder.config.positions() };
        let (prepared, held) = reading::read_rows(&config, &policy.folder, limit.tokens(), context)?;
        prepared.expect_any(limit)?;
        prepared.length_warning(limit).into_iter().for_each(|warning| context.warn(warning));
        let plan = SftPlan::new(&config, prepared.examples.lengths())?;
        let learned = TrainableParams { learns, seed: config.seed };
        let optimizer = config.optimizer.settle(TrainingMethod::Sft, &policy.folder, learns, context);
        let open = |options| {
            let parts = (&environment, &self.parts);
            StopEvaluator::open(options, parts, (&config.template, config.seed), &policy, context)
        };
        let mut stop = config.stop_at.as_ref().map(open).transpose()?;
        let trainer = policy.trainer(&optimizer, plan.steps(), LearnerHead::Own, learned)?;
        let measured = run::SftEvaluation { held: &held.examples, stop: stop.as_mut() };
        let outcome = run::run(&config, trainer, (&prepared.examples, plan), measured, context)?;
        if let Some(stop) = stop {
            stop.finish(outcome.state.accuracy, outcome.state.step, context)?;
        }
        let model = policy.folder.with_parameters(&outcome.weights)?;
        model::save(context, "model", &model, config.adapter.as_ref(), &config.save)?;
        write_report(context, &outcome.state, &prepared, held.rows)
    }
}

fn write_report(context: &mut StageContext, state: &run::SftState, prepared: &SftExamples, held: usize) -> Result<()> {
    let mut report = StageReport::new("Supervised fine-tuning");
    report.summary =
        format!("{} trajectories, {} optimizer steps, {} tokens read.", prepared.rows, state.step, state.tokens);
    let tail = (state.step as usize).div_ceil(10).max(1);
    let counts = [
        ("steps", state.step as f64),
        ("tokens", state.tokens as f64),
        ("rows", prepared.rows as f64),
        ("rows_too_long", prepared.too_long as f64),
        ("rows_without_loss", prepared.empty as f64),
        ("masked_turns", prepared.masked_turns as f64),
    ];
    let mut metrics: Vec<(&str, f64)> = counts.to_vec();
    metrics.extend(["loss", "grad_norm"].iter().filter_map(|n| Some((*n, state.curves.recent(n, tail)?))));
    if let Some((step, loss)) = state.best {
        metrics.extend([("validation_loss", loss), ("best_step", step as f64)]);
        metrics.extend(state.curves.series("validation_loss").first().map(|p| ("validation_loss_initial", p.1)));
    }
    for (name, value) in metrics {
        context.metric(name, value);
        report.metric(name, value);
    }
    state.curves.add_chart(
        &mut report,
        "Loss",
        "nats per token",
        &[("training", "loss"), ("validation", "validation_loss")],
    );
    state.curves.add_chart(&mut report, "Gradient norm", "", &[("norm", "grad_norm")]);
    state.curves.add_chart(&mut report, "Learning rate", "", &[("rate", "learning_rate")]);
    state.curves.add_chart(&mut report, "Accuracy of sampled episodes", "share", &[("sampled", stop::METRIC)]);
    if let Some(accuracy) = state.accuracy {
        report.metric(stop::METRIC, accuracy);
    }
    if held > 0 {
        report.note(format!(
            "The validation loss is over {held} held-out trajectories; the weights with the lowest are kept."
        ));
    }
    context.write_report("report", report, &self::metrics().into())
}
