//! Implements `engine/trl`, training by Hugging Face TRL.

mod config;
mod prepared;
mod vllm;

use crate::results;
use crate::rollouts;
use crate::run::{self, TrainerRun, TrainingData};
use config::TrlConfig;
use prepared::PreparedTrl;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::family::fill_schema;
use trainyard_api::stage::refuse;
use trainyard_api::{AnyFamily, Ports, PreparedOptions as _, Stage, StageContext, port};
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Producers, Result};
use trainyard_data::export::trl::TrlExport;
use trainyard_envs::rewards::weighted;
use trainyard_envs::{EnvironmentParts, ToolHost};
use trainyard_process::OneShotFolder;

/// Names and sources of the program that runs TRL and of its modules.
const DRIVER: [(&str, &str); 3] = [
    ("trl_engine.py", include_str!("trl_engine.py")),
    ("trl_practice.py", include_str!("trl_practice.py")),
    ("trl_vllm.py", include_str!("trl_vllm.py")),
];

/// The stage kind, with the environments and rewards for rollouts.
pub struct TrlTrainer {
    /// Families that the options may name.
    pub parts: Arc<EnvironmentParts>,
}

impl Stage for TrlTrainer {
    type Prepared = PreparedTrl;
    const NAME: &'static str = "engine/trl";
    const SUMMARY: &'static str = "fine-tuning, preference learning and GRPO by Hugging Face TRL";
    const DOC: &'static str = include_str!("trl.md");
    const EXAMPLE: &'static str =
        r#"{"method": "sft", "steps": 100, "batch_rows": 16, "config": {"weight_decay": 0.01}}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("loss");
    const FAMILIES: &'static [&'static str] = &["environments", "formats", "rewards", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        let mut declared = results::metrics();
        declared.metrics.extend(rollouts::metrics());
        declared
    }
    fn declared_metrics(&self, prepared: &PreparedTrl, _: &Producers) -> DeclaredMetrics {
        if prepared.parts.is_some() { self.metrics() } else { results::metrics() }
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Problems, Table, Trajectories};
        use Cardinality::Many;
        run::ports(vec![
            port("trajectories", Trajectories, Many, "Conversations to learn from (`sft`)."),
            port("tokenized", Table, Many, "Tokens of `data/tokenize`, in place of `trajectories` (`sft`)."),
            port("preferences", Trajectories, Many, "Pairs of a chosen and a rejected answer (`dpo`)."),
            port("problems", Problems, Many, "Problems to train on (`grpo`)."),
            port("requests", Table, Many, "Stored responses of models at endpoints, which are not requested again."),
        ])
    }
    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(TrlConfig).to_value();
        fill_schema(&mut schema, "environments", &AnyFamily::schema(&self.parts.environments));
        fill_schema(&mut schema, "rewards", &weighted::schema(&self.parts.rewards));
        schema
    }
    fn prepare(&self, options: Value) -> Result<PreparedTrl> {
        PreparedTrl::read(&self.parts, options, |options| self.parse(options))
    }
    fn run(&self, prepared: PreparedTrl, context: &mut StageContext) -> Result<()> {
        refuse(prepared.problems_with(&context.wired()))?;
        let declared = self.declared_metrics(&prepared, &context.producers());
        let PreparedTrl { config, parts } = prepared;
        let mut files = Vec::new();
        for (name, text) in DRIVER {
            let file = context.scratch.join(name);
            std::fs::write(&file, text).map_err(|e| io_error(&file, &e))?;
            files.push(file.display().to_string());
        }
        let host = ToolHost::of_stage(context)?;
        let data = match (parts, &config.rollout) {
            (Some(parts), Some(rollout)) => {
                TrainingData::Rollouts(Box::new(parts.open(&self.parts, &config, rollout, &host, context)?))
            }
            _ => TrainingData::Rows(&TrlExport, config.ports()),
        };
        let training = TrainerRun {
            title: "Training by TRL",
            program: OneShotFolder::create(&[config.python.clone(), files.remove(0)], &files)?,
            env: &config.env,
            data,
            seed: config.seed,
            options: json!(config),
            save: &config.save,
            declared,
        };
        run::train(training, context)?;
        host.report(context);
        host.models().finish(context)
    }
}
