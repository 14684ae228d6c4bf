//! Implements the stage `prm`, which trains a process reward model: a scoring head that predicts at the end of each
//! step the probability that the episode succeeds.
//!
//! Labels come from the policy's own Monte-Carlo rollouts, or are given. The metrics of quality use held-out problems;
//! metrics that begin with `training_` show the fit to the training problems.

pub mod config;
pub mod contrast;
pub mod example;
pub mod head;
pub mod labels;
mod report;
#[cfg(test)]
mod tests;

pub use config::PrmConfig;

use crate::contexts::expect_one_context;
use crate::environment_config::EnvironmentConfig;
use crate::model::{self, PolicyModel};
use crate::native;
use crate::optimize::ModelTrainer;
use crate::parts::TrainParts;
use crate::problems;
use crate::stages::evaluate::scorer::sigmoid;
use crate::stages::rl::validate::equal_shares;
use crate::stages::sft::data::hold_out;
use example::Example;
use labels::{LabeledRollouts, Labeler, OmittedRows};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use trainyard_api::checkpoint;
use trainyard_api::{Ports, Stage, StageContext, port};
use trainyard_core::error::{Context as _, io_error};
use trainyard_core::{ArtifactKind, Cardinality, Chance, DeclaredMetrics, Error, Result};
use trainyard_envs::ToolHost;
use trainyard_envs::environments::EnvironmentSlot;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::SamplerOptions;
use trainyard_lm::examples::expect_same_text;
use trainyard_lm::template::TokenizedConversation;
use trainyard_tables::{Trajectory, read_trajectories, write_trajectories};

#[derive(Default)]
pub struct Prm {
    /// Families of parts that the options may name.
    pub parts: TrainParts,
}

const DOC: &str = "\
Trains `score.weight`, one output per token, to predict success at the end of each step (a line that the agent \
writes, or a turn).\n\n\
With `problems`: the policy plays each `rollouts` times; from the end of every step `continuations` more \
episodes are sampled, and the label is the share that succeeds (Math-Shepherd, 2312.08935); the last step's \
label is the outcome. With `trajectories`: their `step_labels` are taken as they are (NaN = unlabeled); rows \
without tokens are encoded with the model's template. With `contrast` (finished episodes, such as those of \
`rl`): right and wrong ones of one problem are contrasted.\n\n\
Loss: binary cross-entropy against the soft label, on the last token of each labeled step, plus `ranking_weight` \
times ln(1 + exp(z_wrong − z_right)) at the last step of right and wrong rollouts of one problem, where the \
problem's difficulty cancels. `train: all` also trains the decoder under the head.\n\n\
Metrics are over the steps of held-out problems (those of `evaluation` if given, else a share of the problems): \
`auc` (labels above ½ against labels below), `ece` (expected calibration error), `brier`, and `brier_constant` \
(always predicting the training mean) for comparison.\n\n\
Rows longer than the model's positions are left out: `rows_too_long` counts them, `rows_left_out` also counts \
given rows without labels.\n\n\
Errors: both of `problems` and `trajectories` or neither, labels outside 0..1, rows of another tokenizer or \
template, a problem that is trained on and measured on, problems made for another environment.";

/// State of a checkpoint, in addition to the labeled rows, weights and moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct PrmState {
    prefixes: usize,
    failures: usize,
    #[serde(default)]
    training: head::HeadState,
}

const ROWS: &str = "labeled.parquet";

impl Stage for Prm {
    type Prepared = EnvironmentConfig<PrmConfig>;
    const NAME: &'static str = "prm";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "a process reward model from Monte-Carlo or given step labels";
    const DOC: &'static str = DOC;
    const EXAMPLE: &'static str = r#"{"rollouts": 4, "continuations": 4, "steps": "lines", "train": "all"}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("loss");

    const FAMILIES: &'static [&'static str] = &["backends", "environments", "formats", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        report::metrics().into()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Model, Problems, Report, Trajectories};
        use Cardinality::{One, Optional};
        Ports {
            inputs: vec![
                port("model", Model, One, "The policy whose decoder gets the head."),
                port("problems", Problems, Optional, "Problems to label by Monte-Carlo rollouts."),
                port("trajectories", Trajectories, Optional, "Trajectories with step labels."),
                port(
                    "contrast",
                    Trajectories,
                    Optional,
                    "Episodes with an outcome, as `rl` gives them: right and wrong ones of one problem are contrasted.",
                ),
                port(
                    "evaluation",
                    Trajectories,
                    Optional,
                    "Trajectories with step labels, used only to measure quality, never for training.",
                ),
            ],
            outputs: vec![
                port(
                    "model",
                    Model,
                    One,
                    "The policy's decoder with a scoring head (…ForTokenClassification, score.weight).",
                ),
                port("trajectories", Trajectories, One, "The labeled trajectories with the head's scores."),
                port("report", Report, One, "Quality on held-out problems."),
            ],
        }
    }
    fn schema(&self) -> Value {
        EnvironmentConfig::<PrmConfig>::schema(&self.parts)
    }
    fn prepare(&self, options: Value) -> Result<EnvironmentConfig<PrmConfig>> {
        EnvironmentConfig::read(&self.parts, options, |options| self.parse(options))
    }

    fn run(&self, prepared: EnvironmentConfig<PrmConfig>, context: &mut StageContext) -> Result<()> {
        let EnvironmentConfig { config, environment, backend } = prepared;
        let policy = PolicyModel::load(context.input("model")?, "model", backend.build(&context.secrets)?)?;
        let policy = policy.with_template(&config.template)?;
        let (mut policy, learns) = policy.trained(config.adapter.as_ref(), config.seed)?;
        let resumed = checkpoint::latest::<PrmState>(context)?;
        let labeled = self.labeled(&config, &environment, &mut policy, resumed.as_ref(), context)?;
        let LabeledRollouts { rows, prefixes, failures, mut left_out } = labeled;
        let chance = Chance::new(config.seed).child("prm", &[]);
        let (train, held) = match context.optional("evaluation") {
            Some(evaluation) => {
                let measured = read_trajectories(&evaluation.parquet())?;
                let (held, without) =
                    given(&config, &policy.folder, measured, "evaluation", context).at("input `evaluation`")?;
                left_out += without;
                disjoint(&rows, &held)?;
                (rows, held)
            }
            None => hold_out(rows, |row| &row.problem_id, config.held_out_share, &chance),
        };
        let (contrasted, too_long) = contrasted(&config, &policy.folder, context)?;
        left_out.too_long += too_long;
        let (pairs, held_pairs) = contrast::split(contrasted, &train, &held, |rows| {
            hold_out(rows, |row| &row.problem_id, config.held_out_share, &chance)
        });
        let example = |row: &Trajectory| example::example(row, contrast::outcome(row, &config.outcome));
        let examples = |rows: &[Trajectory], pairs: &[Trajectory]| {
            rows.iter().chain(pairs).map(example).collect::<Result<Vec<Example>>>()
        };
        let (train_examples, held_examples) = (examples(&train, &pairs)?, examples(&held, &held_pairs)?);
        let labels = Some(context.scratch.join(ROWS)).filter(|path| path.exists());
        let save = |state: &head::HeadState, trainer: &ModelTrainer| {
            let state = PrmState { prefixes, failures, training: state.clone() };
            // The first resume point contains only the labels and has number 1.
            checkpoint::save(context, 1 + state.training.step, &state, |folder| {
                if let Some(labels) = &labels {
                    std::fs::copy(labels, folder.join(ROWS)).map_err(|e| io_error(labels, &e))?;
                }
                trainer.save(folder, "")
            })
        };
        let resumed = resumed.map(|(state, folder)| (state.training, folder)).filter(|(state, _)| state.step > 0);
        let (head, curves) = head::train(&config, (&mut policy, learns), &train_examples, resumed, &save, context)?;
        let model = head.trainer.model(&policy.folder)?;
        // Rows of `evaluation` are used for measurement only, and are not written.
        let mut rows = train;
        if context.optional("evaluation").is_none() {
            rows.extend(held);
        }
        score(&policy, &model, &mut rows, context)?;
        model::save(context, "model", &model, config.adapter.as_ref(), &config.save)?;
        context.describe("model", "steps", serde_json::to_value(config.steps).map_err(Error::bug)?);
        write_trajectories(&context.output_parquet("trajectories")?, &rows)?;
        let counts = [
            ("rollouts", rows.len()),
            ("prefixes", prefixes),
            ("infrastructure_failures", failures),
            ("rows_left_out", left_out.unlabeled + left_out.too_long),
            ("rows_too_long", left_out.too_long),
        ];
        report::write(context, &config, &head, &train_examples, &held_examples, &curves, &counts)
    }
}

impl Prm {
    /// Returns labeled rows with tokens and steps: from a checkpoint, by rollouts, or from the inputs.
    fn labeled(
        &self,
        config: &PrmConfig,
        environment: &EnvironmentSlot,
        policy: &mut PolicyModel,
        resumed: Option<&(PrmState, PathBuf)>,
        context: &mut StageContext,
    ) -> Result<LabeledRollouts> {
        let labels = context.scratch.join(ROWS);
        match (context.optional("problems"), context.optional("trajectories")) {
            (Some(problems), None) => {
                let host = ToolHost::of_stage(context)?;
                // A resumed attempt needs the tools in the encoder, too: rows without tokens are encoded with them.
                let native = native::environment(
                    &self.parts.envs,
                    &config.environment,
                    &config.template,
                    &mut policy.folder,
                    &host,
                )?;
                if let Some((state, folder)) = resumed {
                    std::fs::copy(folder.join(ROWS), &labels).map_err(|e| io_error(&labels, &e))?;
                    let rows = read_trajectories(&labels)?;
                    let PrmState { prefixes, failures, .. } = *state;
                    return Ok(LabeledRollouts { rows, prefixes, failures, left_out: OmittedRows::default() });
                }
                let problems = problems::read(problems, "problems")?;
                problems::expect_environment(&config.environment, &problems, "problems")?;
                let problems = equal_shares(problems, config.problems_limit.unwrap_or(usize::MAX));
                let environment = native.map_or_else(|| environment.build(&host), Ok)?;
                native::expect_tools(&policy.folder, &*environment)?;
                let chance = Chance::new(config.seed).child("prm", &[]);
                let labeled =
                    Labeler { config, policy, environment: &*environment, problems: &problems, chance }.run(context)?;
                host.report(context);
                write_trajectories(&labels, &labeled.rows)?;
                let state = PrmState { prefixes: labeled.prefixes, failures: labeled.failures, ..PrmState::default() };
                checkpoint::save(context, 1, &state, |folder| {
                    std::fs::copy(&labels, folder.join(ROWS)).map(|_| ()).map_err(|e| io_error(&labels, &e))
                })?;
                Ok(labeled)
            }
            (None, Some(rows)) => {
                let rows = read_trajectories(&rows.parquet())?;
                let (rows, left_out) = given(config, &policy.folder, rows, "trajectories", context)?;
                Ok(LabeledRollouts { rows, prefixes: 0, failures: 0, left_out })
            }
            (both, _) => {
                let conflict = if both.is_some() { "both are given" } else { "none is given" };
                Err(Error::invalid(format!("`prm` takes either `problems` or `trajectories`, but {conflict}"))
                    .help("give exactly one of the two inputs"))
            }
        }
    }
}

/// Reads the rows of `contrast`, selects those to contrast, and adds their steps. Returns the rows and the number of
/// rows that are too long.
fn contrasted(config: &PrmConfig, model: &ModelFolder, context: &StageContext) -> Result<(Vec<Trajectory>, usize)> {
    let Some(rollouts) = context.optional("contrast") else { return Ok((Vec::new(), 0)) };
    let mut rows = read_trajectories(&rollouts.parquet())?;
    expect_same_text(model, &rows, "`contrast`")?;
    expect_one_context(&rows, "`contrast`")?;
    let too_long = drop_too_long(&mut rows, model, "contrast", context);
    let mut rows = contrast::select(rows, &config.outcome)?;
    for row in &mut rows {
        row.step_ends = config.steps.ends(model.chat.tokenizer(), &row.token_ids, &row.loss_mask, &row.turn)?;
        row.step_labels = None;
    }
    Ok((rows, too_long))
}

/// Reads rows from the inputs, adds missing tokens and steps, and counts the omitted rows.
fn given(
    config: &PrmConfig,
    model: &ModelFolder,
    rows: Vec<Trajectory>,
    port: &str,
    context: &StageContext,
) -> Result<(Vec<Trajectory>, OmittedRows)> {
    expect_same_text(model, &rows, "`trajectories`")?;
    let all = rows.len();
    let mut ready = Vec::with_capacity(all);
    for mut row in rows.into_iter().filter(|r| r.step_labels.is_some()) {
        if row.token_ids.is_empty() {
            let encoded =
                TokenizedConversation::encode_row(&model.chat, &row).at(format!("trajectory `{}`", row.id))?;
            row.prompt_tokens = encoded.prompt_tokens as u32;
            row.restarts = encoded.restarts.iter().map(|at| *at as u32).collect();
            (row.token_ids, row.loss_mask, row.turn) = (encoded.token_ids, encoded.loss_mask, encoded.turn);
            row.tokenizer_digest = model.chat.tokenizer().digest().to_string();
            row.template_digest = model.chat.template().digest().to_string();
            row.step_ends.clear();
        }
        if row.step_ends.is_empty() {
            row.step_ends = config.steps.ends(model.chat.tokenizer(), &row.token_ids, &row.loss_mask, &row.turn)?;
        }
        ready.push(row);
    }
    expect_one_context(&ready, "`trajectories`")?;
    let unlabeled = all - ready.len();
    let too_long = drop_too_long(&mut ready, model, port, context);
    Ok((ready, OmittedRows { unlabeled, too_long }))
}

/// Drops rows longer than the model's positions and logs a warning. Returns their number.
fn drop_too_long(rows: &mut Vec<Trajectory>, model: &ModelFolder, port: &str, context: &StageContext) -> usize {
    let positions = model.config.positions();
    let all = rows.len();
    let first = rows.iter().find(|r| r.token_ids.len() > positions).map(|r| r.id.clone());
    rows.retain(|r| r.token_ids.len() <= positions);
    let dropped = all - rows.len();
    if let Some(first) = first {
        context.warn(format!(
            "{dropped} of {all} rows of `{port}` are longer than the model's {positions} positions and are left out; \
                the first is `{first}`"
        ));
    }
    dropped
}

/// Rejects held-out problems that are also trained on. Errors: data, naming the problem.
fn disjoint(train: &[Trajectory], held: &[Trajectory]) -> Result<()> {
    let seen: BTreeSet<&str> = train.iter().map(|r| r.problem_id.as_str()).collect();
    match held.iter().find(|r| seen.contains(r.problem_id.as_str())) {
        Some(row) => {
            Err(Error::data(format!("problem `{}` is in the training rows and in `evaluation`", row.problem_id))
                .help("split by problem, as with `half: a` and `half: b` of `data/step_labels`"))
        }
        None => Ok(()),
    }
}

/// Computes the head's scores at every step of every row, labeled or not, by the kernels that evaluation uses.
fn score(policy: &PolicyModel, model: &ModelFolder, rows: &mut [Trajectory], context: &StageContext) -> Result<()> {
    let mut sampler = policy.backend.sampler(model, &SamplerOptions { threads: context.cpus })?;
    let positions: Vec<Vec<u32>> = rows.iter().map(|r| r.step_ends.iter().map(|e| e - 1).collect()).collect();
    let sequences: Vec<&[u32]> = rows.iter().map(|r| r.token_ids.as_slice()).collect();
    let places: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
    let logits = sampler.score(&sequences, &places)?;
    for (row, logits) in rows.iter_mut().zip(logits) {
        row.step_scores = Some(logits.into_iter().map(sigmoid).collect());
    }
    Ok(())
}
