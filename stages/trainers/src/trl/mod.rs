//! `engine/trl`: training by Hugging Face TRL.

mod config;
mod prepared;

use crate::practice;
use crate::results;
use crate::work::{self, Lessons, Training};
use config::Config;
use prepared::PreparedTrl;
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_api::family::fill_schema;
use trainyard_api::stage::refuse;
use trainyard_api::{AnyFamily, Ports, Prepared as _, Stage, StageContext, port};
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, Declared, Producers, Result};
use trainyard_data::export::trl::Trl as Columns;
use trainyard_envs::rewards::weighted;
use trainyard_envs::{Parts, ToolHost};
use trainyard_process::Home;

/// The program that runs TRL, and the modules that it imports, by their names.
const DRIVER: [(&str, &str); 2] =
    [("trl_engine.py", include_str!("trl_engine.py")), ("trl_practice.py", include_str!("trl_practice.py"))];

/// The stage kind, with the environments and rewards for practice.
pub struct Trl {
    /// Families that the options may name.
    pub parts: Arc<Parts>,
}

impl Stage for Trl {
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

    fn metrics(&self) -> Declared {
        let mut declared = results::metrics();
        declared.metrics.extend(practice::metrics());
        declared
    }
    fn declared(&self, prepared: &PreparedTrl, _: &Producers) -> Declared {
        if prepared.parts.is_some() { self.metrics() } else { results::metrics() }
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Problems, Table, Trajectories};
        use Cardinality::Many;
        work::ports(vec![
            port("trajectories", Trajectories, Many, "Conversations to learn from (`sft`)."),
            port("tokenized", Table, Many, "Tokens of `data/tokenize` instead (`sft`)."),
            port("preferences", Trajectories, Many, "Pairs of a chosen and a rejected answer (`dpo`)."),
            port("problems", Problems, Many, "What to practice on (`grpo`)."),
            port("requests", Table, Many, "Answers that models behind endpoints need not be asked for again."),
        ])
    }
    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(Config).to_value();
        fill_schema(&mut schema, "environments", &AnyFamily::schema(&self.parts.environments));
        fill_schema(&mut schema, "rewards", &weighted::schema(&self.parts.rewards));
        schema
    }
    fn prepare(&self, options: Value) -> Result<PreparedTrl> {
        PreparedTrl::read(&self.parts, options, |options| self.parse(options))
    }
    fn run(&self, prepared: PreparedTrl, context: &mut StageContext) -> Result<()> {
        refuse(prepared.problems_with(&context.wired()))?;
        let declared = self.declared(&prepared, &context.producers());
        let PreparedTrl { config, parts } = prepared;
        let mut files = Vec::new();
        for (name, text) in DRIVER {
            let file = context.scratch.join(name);
            std::fs::write(&file, text).map_err(|e| io_error(&file, &e))?;
            files.push(file.display().to_string());
        }
        let host = ToolHost::of_stage(context)?;
        let lessons = match (parts, &config.rollout) {
            (Some(parts), Some(rollout)) => {
                Lessons::Practice(Box::new(parts.practice(&self.parts, &config, rollout, &host, context)?))
            }
            _ => Lessons::Rows(&Columns, config.ports()),
        };
        let training = Training {
            title: "Training by TRL",
            program: Home::lay_out(&[config.python.clone(), files.remove(0)], &files)?,
            env: &config.env,
            lessons,
            seed: config.seed,
            options: json!(config),
            save: &config.save,
            declared,
        };
        work::train(training, context)?;
        host.report(context);
        host.models().finish(context)
    }
}
