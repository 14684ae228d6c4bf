//! `engine/trl`: training by Hugging Face TRL.

mod config;

pub use config::Config;

use crate::columns::Wanted;
use crate::results;
use crate::work::{self, Training};
use config::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::{Ports, Prepared, Stage, StageContext, port};
use trainyard_core::error::io_error;
use trainyard_core::{ArtifactKind, Cardinality, Declared, Facts, OptionProblem, Producers, Result, Wired};
use trainyard_data::export::Form;
use trainyard_data::export::trl::Trl as Columns;
use trainyard_lm::shape;
use trainyard_process::Home;

/// The program that TRL is driven by.
const DRIVER: &str = include_str!("trl_engine.py");

/// The stage kind.
pub struct Trl;

impl Prepared for Config {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.every_problem()
    }
    fn problems_with(&self, inputs: &Wired) -> Vec<OptionProblem> {
        let is_wired = |port: &str| inputs.get(port).is_some_and(|count| *count > 0);
        let ports = self.ports();
        let mut problems = Vec::new();
        if !ports.iter().any(|(port, _)| is_wired(port)) {
            let names: Vec<String> = ports.iter().map(|(port, _)| format!("`{port}`")).collect();
            let problem = OptionProblem::new("/method", format!("`{}` has no rows to learn from", self.method.name()));
            problems.push(problem.help(format!("wire {}", names.join(" or "))));
        }
        let others = ["trajectories", "tokenized", "preferences"].into_iter().filter(|port| is_wired(port));
        for port in others.filter(|port| !ports.iter().any(|(own, _)| own == port)) {
            let problem = OptionProblem::new("/method", format!("`{}` does not read `{port}`", self.method.name()));
            problems.push(problem.help("leave the input out, or choose another method"));
        }
        if is_wired("trajectories") && is_wired("tokenized") {
            let problem = OptionProblem::new("/method", "rows as text and rows as tokens cannot be learned together");
            problems.push(problem.help("wire `trajectories` or `tokenized`"));
        }
        problems
    }
    fn facts(&self, inputs: &Wired) -> BTreeMap<String, Facts> {
        shape::whole(inputs)
    }
}

impl Config {
    /// The ports that the method reads.
    fn ports(&self) -> &'static [Wanted] {
        match self.method {
            Method::Sft => &[("trajectories", Some(Form::Sft)), ("tokenized", Some(Form::Tokens))],
            Method::Dpo => &[("preferences", Some(Form::Preference))],
        }
    }
}

impl Stage for Trl {
    type Prepared = Config;
    const NAME: &'static str = "engine/trl";
    const SUMMARY: &'static str = "fine-tuning and preference learning by Hugging Face TRL";
    const DOC: &'static str = include_str!("trl.md");
    const EXAMPLE: &'static str =
        r#"{"method": "sft", "steps": 100, "batch_rows": 16, "config": {"weight_decay": 0.01}}"#;
    const ALL_CPUS: bool = true;
    const TRAINS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("loss");

    fn metrics(&self) -> Declared {
        results::metrics()
    }
    fn declared(&self, _: &Config, _: &Producers) -> Declared {
        results::metrics()
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Table, Trajectories};
        use Cardinality::Many;
        work::ports(vec![
            port("trajectories", Trajectories, Many, "Conversations to learn from (`sft`)."),
            port("tokenized", Table, Many, "Tokens of `data/tokenize` instead (`sft`)."),
            port("preferences", Trajectories, Many, "Pairs of a chosen and a rejected answer (`dpo`)."),
        ])
    }
    fn prepare(&self, options: Value) -> Result<Config> {
        self.parse(options)
    }
    fn run(&self, config: Config, context: &mut StageContext) -> Result<()> {
        trainyard_api::stage::refuse(config.problems_with(&context.wired()))?;
        let driver = context.scratch.join("trl_engine.py");
        std::fs::write(&driver, DRIVER).map_err(|e| io_error(&driver, &e))?;
        let command = [config.python.clone(), driver.display().to_string()];
        let training = Training {
            title: "Training by TRL",
            program: Home::lay_out(&command, &[])?,
            env: &config.env,
            format: &Columns,
            ports: config.ports(),
            seed: config.seed,
            options: json!(config),
            save: &config.save,
        };
        work::train(training, context)
    }
}
