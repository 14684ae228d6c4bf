//! Implements the stage `preference`, which trains a model on pairs of a chosen and a rejected answer.
//!
//! Both conversations of a pair are computed side by side, and a loss of the family `preference_losses` gets the sums
//! of their log-probabilities. The sums of the reference are computed once, before the first step.

mod answer_pair;
pub mod config;
mod objective;
mod pair_file;
pub mod pairs;
#[cfg(test)]
mod pinned_tests;
mod plan;
mod reference;
mod report;
mod row_file;
mod run;
#[cfg(test)]
mod tests;

pub use config::PreferenceConfig;

use crate::backend_config::BackendConfig;
use crate::model::{self, PolicyModel};
use crate::optimize::{TrainableParams, TrainingMethod};
use crate::parts::TrainParts;
use crate::stages::sft::data::{TokenLimit, held_out_rows};
use config::default_loss;
use objective::Objective;
use pair_file::PairSet;
use pairs::{AnswerPairs, PairCounts};
use plan::PreferencePlan;
use reference::ReferenceLogprobs;
use run::{PreferenceData, PreferenceRun, PreferenceState};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::checkpoint;
use trainyard_api::family::fill_schema;
use trainyard_api::stage::refuse;
use trainyard_api::{AnyFamily, Ports, PreparedOptions, Slot, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, Chance, DeclaredMetrics, Error, Facts, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_learn::PreferenceLoss;
use trainyard_lm::ModelFolder;
use trainyard_lm::backend::LearnerHead;

#[derive(Default)]
pub struct Preference {
    /// Families of parts that the options may name.
    pub parts: TrainParts,
}

impl Stage for Preference {
    type Prepared = PreparedPreference;
    const NAME: &'static str = "preference";
    const SUMMARY: &'static str = "preference learning from pairs of a chosen and a rejected answer (DPO and its kin)";
    const DOC: &'static str = include_str!("preference.md");
    const EXAMPLE: &'static str = r#"{"loss": {"kind": "dpo", "beta": 0.1}, "epochs": 1, "batch_pairs": 32}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("accuracy");

    const FAMILIES: &'static [&'static str] = &["backends", "preference_losses"];

    fn metrics(&self) -> DeclaredMetrics {
        report::metrics().into()
    }
    fn declared_metrics(&self, prepared: &PreparedPreference, producers: &Producers) -> DeclaredMetrics {
        let config = prepared.config();
        let wired = producers.get("validation").is_some_and(|list| !list.is_empty());
        report::declared(config, wired || config.validation_share > 0.0).into()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Model, Report, Trajectories};
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port("model", Model, One, "The model to start from."),
                port("preferences", Trajectories, Many, "Pairs, as `data/pairs` and `data/import` give them."),
                port("validation", Trajectories, Optional, "Held-out pairs to measure on."),
                port("reference", Model, Optional, "The reference, if it is not the model to start from."),
            ],
            outputs: vec![
                port("model", Model, One, "The trained model."),
                port("report", Report, One, "Learning curves and final metrics."),
            ],
        }
    }
    fn schema(&self) -> Value {
        let mut schema = BackendConfig::<PreferenceConfig>::schema(&self.parts);
        let losses = &self.parts.learn.preference_losses;
        fill_schema(&mut schema, losses.folder, &AnyFamily::schema(losses));
        schema
    }
    fn prepare(&self, mut options: Value) -> Result<PreparedPreference> {
        if let Some(map) = options.as_object_mut() {
            map.entry("loss").or_insert_with(default_loss);
        }
        let loss = Slot::read_at(&self.parts.learn.preference_losses, "/loss", &mut options);
        let options = BackendConfig::read(&self.parts, options, |options| self.parse(options))?;
        Ok(PreparedPreference { options, loss })
    }

    fn run(&self, prepared: PreparedPreference, context: &mut StageContext) -> Result<()> {
        refuse(prepared.problems_with(&context.wired()))?;
        let PreparedPreference { options: BackendConfig { config, backend }, loss } = prepared;
        let loss = loss.build(&())?;
        let backend = backend.build(&context.secrets)?;
        let policy = PolicyModel::load(context.input("model")?, "model", backend.clone())?;
        let policy = policy.with_template(&config.template)?;
        let (mut policy, learns) = policy.trained(config.adapter.as_ref(), config.seed)?;
        let (counts, train, held) = split(&config, &policy.folder, context)?;
        let sets = (&train, &held);
        let plan = PreferencePlan::new(&config, train.len() as u32);
        let resumed = checkpoint::latest::<PreferenceState>(context)?;
        let known = match (&resumed, loss.needs().reference) {
            (_, false) => Some(ReferenceLogprobs::zeros(sets.0, sets.1)),
            (Some((_, folder)), true) => Some(ReferenceLogprobs::load(folder, sets.0, sets.1)?),
            (None, true) => ReferenceLogprobs::wired(&config, &policy, sets, &backend, context)?,
        };
        let fresh = resumed.is_none() && loss.needs().reference;
        let optimizer = config.optimizer.settle(TrainingMethod::Preference, &policy.folder, learns, context);
        let learner = TrainableParams { learns, seed: config.seed };
        let trainer = policy.trainer(&optimizer, plan.steps(), LearnerHead::Own, learner)?;
        let reference = match known {
            Some(known) => known,
            None => ReferenceLogprobs::of(&trainer, sets, config.micro_batch_tokens, context)?,
        };
        if fresh {
            checkpoint::save(context, 1, &PreferenceState::default(), |folder| reference.save(folder))?;
        }
        let objective = Objective { loss: &*loss, sft_weight: config.sft_weight };
        let data = PreferenceData { train: sets.0, held: sets.1, reference };
        let run = PreferenceRun { config: &config, objective, data, context };
        let (weights, state) = run.train(trainer, plan, resumed)?;
        let model = policy.folder.with_parameters(&weights)?;
        model::save(context, "model", &model, config.adapter.as_ref(), &config.save)?;
        report::write(context, &config, &state, &counts, (train.len(), held.len()))
    }
}

/// Returns counts of all omitted rows, the training pairs, and the held-out pairs. Errors: data, if no training pair is
/// left.
fn split(
    config: &PreferenceConfig,
    model: &ModelFolder,
    context: &StageContext,
) -> Result<(PairCounts, PairSet, PairSet)> {
    let limit = TokenLimit { option: config.max_tokens, context: model.config.positions() };
    let read = |port: &str| pairs::read(context.many(port), model, limit.tokens(), &format!("`{port}`"), context);
    let AnswerPairs { pairs, problems, counts } = read("preferences")?;
    let pairs = Arc::new(pairs);
    let (train, held) = match context.many("validation") {
        [] => {
            let chance = Chance::new(config.seed).child("preference", &[]);
            PairSet::split(pairs, &held_out_rows(problems.finish()?, config.validation_share, &chance))
        }
        _ => (PairSet::all(pairs), PairSet::all(Arc::new(read("validation")?.pairs))),
    };
    if train.is_empty() {
        let (empty, half) = (counts.without_loss, counts.incomplete);
        let (pairs, long) = (counts.too_long + empty + half, limit.report(counts.too_long, counts.longest));
        let message = format!(
            "no pairs to train on: of {pairs} pairs, {long}, {empty} have an answer without tokens in the loss, \
             {half} lack a row"
        );
        let help = if counts.too_long > 0 { limit.help() } else { "check the input `preferences`".to_string() };
        return Err(Error::data(message).help(help));
    }
    Ok((counts, train, held))
}

/// Options of `preference` with their parts.
pub struct PreparedPreference {
    options: BackendConfig<PreferenceConfig>,
    loss: Slot<dyn PreferenceLoss>,
}

impl PreparedOptions for PreparedPreference {
    type Config = PreferenceConfig;
    fn config(&self) -> &PreferenceConfig {
        &self.options.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.options.problems().into_iter().chain(self.loss.problems()).collect()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let wired = inputs.get("reference").is_some_and(|n| *n > 0);
        let unread = (wired && self.loss.is_read() && !self.loss.needs().contains(&"reference")).then(|| {
            let message = format!("the loss `{}` reads no reference with these options", self.loss.kind());
            OptionProblem::new("/reference", message).help("leave `reference` out, or use a loss that needs one")
        });
        self.options.problems_with(inputs).into_iter().chain(unread).collect()
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.options.warnings_with(inputs)
    }
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.options.problems_with_gpus(gpus)
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.options.facts(inputs)
    }
}
