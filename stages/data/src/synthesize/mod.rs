//! Stage `data/synthesize`: problems from generators, and demonstrations whose tool calls were executed.
//!
//! Every demonstration is played in the environment ([`play`]), so it has the form of a rollout. Splits share no
//! canonical problem, and the environment's verifier accepts the answer of every demonstration.

pub mod annotated;
pub mod coverage;
pub mod method;
mod metrics;
pub mod play;
pub mod procedural;
pub mod registry;
pub mod splits;

pub use method::{Method, Synthesized};

use crate::facts::ENVIRONMENT;
use crate::io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::stage::Ports;
use trainyard_api::{Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Declared, Error, Facts, OptionProblem, Producers, Result, Wired};
use trainyard_envs::tools::ToolHost;
use trainyard_envs::{Environment, environments};

/// Options of `data/synthesize`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `procedural` makes new problems with the environment's generator; `annotated` turns worked solutions into tool
    /// use.
    pub method: String,
    /// The environment that poses the problems; demonstrations are played in it. The method's own if left out.
    #[schemars(schema_with = "trainyard_envs::environments::registry::schema")]
    pub environment: Value,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// For `procedural`: the number of problems by level in each split.
    #[serde(default = "splits::default_splits")]
    pub splits: BTreeMap<String, splits::Split>,
    /// For `procedural`: the share of demonstrations in which the agent first makes a mistake and then recovers.
    #[serde(default = "default_mistakes")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub mistakes: f64,
}

fn default_mistakes() -> f64 {
    0.1
}

/// The stage kind `data/synthesize`.
pub struct Synthesize;

impl Stage for Synthesize {
    type Config = Config;
    const NAME: &'static str = "data/synthesize";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str = "Make problems and demonstrations; every tool call in them is executed.";
    const DOC: &'static str = include_str!("synthesize.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"method": "procedural", "seed": 1, "splits": {"demonstrations": {"levels": {"1": 600, "2": 600}}, "#,
        r#""test": {"total": 300}}}"#,
    );
    const MAIN_METRIC: Option<&'static str> = Some("demonstrations");

    fn metrics() -> Declared {
        metrics::any().into()
    }
    fn declared(config: &Config, _: &Producers) -> Declared {
        metrics::of(config).into()
    }
    fn ports() -> Ports {
        use Cardinality::{Many, One};
        Ports {
            inputs: vec![port(
                "problems",
                ArtifactKind::Problems,
                Many,
                "Of `annotated`: problems with worked solutions.",
            )],
            outputs: vec![
                port(
                    "problems",
                    ArtifactKind::Problems,
                    One,
                    "All splits in one table; the column `split` tells them apart.",
                ),
                port(
                    "demonstrations",
                    ArtifactKind::Trajectories,
                    One,
                    "Conversations as text, with answer and reward; tokens are made by `sft`.",
                ),
                port(
                    "report",
                    ArtifactKind::Report,
                    One,
                    "Counts, and the n-gram coverage of test questions by what is learned from.",
                ),
            ],
        }
    }

    fn schema() -> Value {
        let mut schema = schemars::schema_for!(Config).to_value();
        schema["properties"]["method"]["enum"] = json!(registry::names());
        // Filled in by `expand`.
        schema["required"] = json!(["method"]);
        schema
    }

    fn expand(mut config: Value) -> Result<Value> {
        let method = config.get("method").and_then(Value::as_str).and_then(registry::method);
        if let (Some(method), Some(options)) = (method, config.as_object_mut()) {
            let environment = options.entry("environment").or_insert_with(|| method.environment());
            complete_environment(environment);
        }
        Ok(config)
    }

    fn check(config: &Config) -> Vec<OptionProblem> {
        let mut problems = check_environment(&config.environment);
        match registry::method(&config.method) {
            Some(method) => problems.extend(method.check(config)),
            None => problems.push(
                OptionProblem::new("/method", format!("no method `{}`", config.method))
                    .help(format!("one of: {}", registry::names().join(", "))),
            ),
        }
        problems
    }

    /// New problems are of the environment that makes them; given ones stay what they are.
    fn facts(config: &Config, inputs: &Wired) -> BTreeMap<String, Facts> {
        let kind = match config.method.as_str() {
            "procedural" => config.environment.get("kind"),
            _ => inputs.shared_fact("problems", ENVIRONMENT),
        };
        let facts: Facts = kind.map(|kind| (ENVIRONMENT.to_string(), kind.clone())).into_iter().collect();
        ["problems", "demonstrations"].map(|port| (port.to_string(), facts.clone())).into()
    }

    fn run(config: Config, context: &mut StageContext) -> Result<()> {
        let method =
            registry::method(&config.method).ok_or_else(|| Error::invalid(format!("no method `{}`", config.method)))?;
        let environment = environment(&config.environment, context.cpus)?;
        let given = io::read_many_problems(context.many("problems"))?;
        let progress = |done: usize, total: usize| {
            context.progress(done as u64, total as u64, "demonstrations", None);
            context.stop_if_cancelled()
        };
        let made = method.make(&config, given, environment.as_ref(), &progress)?;
        if made.demonstrations.is_empty() {
            return Err(Error::data("no demonstration was made")
                .help("look at the counts of dropped solutions, or give `splits` a split `demonstrations`"));
        }
        publish(made, context)
    }
}

/// Builds an environment with its own tool host.
pub fn environment(options: &Value, cpus: usize) -> Result<Box<dyn Environment>> {
    environments::build(options, &ToolHost::new(cpus))
}

/// Fills in an environment's defaults; options that are wrong stay as they are, for [`check_environment`].
pub fn complete_environment(options: &mut Value) {
    if let Ok(full) = environments::complete(options) {
        *options = full;
    }
}

/// What is wrong with an environment's options, under `/environment`.
pub fn check_environment(options: &Value) -> Vec<OptionProblem> {
    environments::check(options).into_iter().map(|problem| problem.within("/environment")).collect()
}

fn publish(mut made: Synthesized, context: &mut StageContext) -> Result<()> {
    let sum = |get: fn(&trainyard_tables::Trajectory) -> u32| {
        made.demonstrations.iter().map(|t| f64::from(get(t))).sum::<f64>()
    };
    let counts = [
        ("problems", made.problems.len() as f64),
        ("demonstrations", made.demonstrations.len() as f64),
        ("tool_calls", sum(|t| t.tool_calls)),
        ("tool_errors", sum(|t| t.tool_errors)),
    ];
    for (name, value) in counts {
        made.report.metric(name, value);
    }
    for (name, metric) in &made.report.metrics {
        context.metric(name.clone(), metric.value);
    }
    context.write_report("report", made.report, &metrics::any().into())?;
    io::write_problems(&context.output_parquet("problems")?, &made.problems)?;
    io::write_trajectories(&context.output_parquet("demonstrations")?, &made.demonstrations)
}

#[cfg(test)]
mod tests;
