//! Implements the stage `data/synthesize`, which makes problems with generators, and demonstrations whose tool calls
//! were executed.
//!
//! Every demonstration is played in the environment ([`play`]), so it has the form of a rollout. Splits share no
//! canonical problem, and the environment's verifier accepts the answer of every demonstration.

pub mod annotated;
pub mod config;
pub mod coverage;
pub mod custom;
mod custom_draw;
pub mod custom_options;
mod custom_problem;
mod distinct;
pub mod method;
mod metrics;
pub mod play;
pub mod procedural;
pub mod registry;
pub mod splits;
pub mod teacher;
pub mod teacher_options;
mod trial;

pub use config::SynthesisConfig;
pub use method::{SynthesisContext, SynthesisMethod, SynthesisOutput};

use crate::facts::ENVIRONMENT;
use crate::io;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::family::fill_schema;
use trainyard_api::{Family, ParsedPart, Ports, PreparedOptions, Stage, StageContext, Trial, TrialEpisode, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_envs::Environment;
use trainyard_envs::environments::{self, EnvironmentSlot, Environments, word_problems};
use trainyard_envs::programs::log;
use trainyard_envs::tools::{ToolHost, tools_json};
use trainyard_tables::Problem;

/// Prefix of the outputs that have one split each.
const SPLIT_OUTPUT: &str = "problems_";
/// The method that queries a model.
const TEACHER: &str = "teacher";

pub struct SynthesizeStage {
    /// Supported methods.
    pub methods: Arc<Family<&'static dyn SynthesisMethod>>,
    /// Supported environments, in which the methods play.
    pub envs: Arc<trainyard_envs::EnvironmentParts>,
}

impl Stage for SynthesizeStage {
    type Prepared = PreparedSynthesis;
    const NAME: &'static str = "data/synthesize";
    const VERSION: u32 = 5;
    const SUMMARY: &'static str = "Make problems and demonstrations; every tool call in them is executed.";
    const DOC: &'static str = include_str!("synthesize.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"method": "procedural", "seed": 1, "splits": {"demonstrations": {"levels": {"1": 600, "2": 600}}, "#,
        r#""test": {"total": 300}}}"#,
    );
    const PLAYS: bool = true;
    const MAIN_METRIC: Option<&'static str> = Some("demonstrations");

    const FAMILIES: &'static [&'static str] = &["environments", "formats", "synthesize", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        let methods = registry::methods(&self.methods);
        metrics::common()
            .into_iter()
            .chain(methods.iter().flat_map(|method| method.metrics()))
            .collect::<Vec<_>>()
            .into()
    }
    fn declared_metrics(&self, prepared: &PreparedSynthesis, _: &Producers) -> DeclaredMetrics {
        prepared.method.as_ref().map_or_else(|_| self.metrics(), |method| reported(*method, &prepared.config))
    }
    fn ports(&self) -> Ports {
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port(
                    "problems",
                    ArtifactKind::Problems,
                    Many,
                    "For `annotated`: problems with worked solutions. For `teacher`: problems to solve.",
                ),
                port("requests", ArtifactKind::Table, Many, "Stored responses that the teacher reuses."),
            ],
            outputs: vec![
                port(
                    "problems",
                    ArtifactKind::Problems,
                    One,
                    "All splits in one table; the column `split` has the split.",
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
                    "Counts, and the n-gram coverage of test questions by the training texts.",
                ),
                port(
                    "problems_<split>",
                    ArtifactKind::Problems,
                    One,
                    "The problems of one split, as `problems_test`. Published if the workflow refers to it.",
                ),
                port("requests", ArtifactKind::Table, Optional, "Requests to the teacher, with their responses."),
            ],
        }
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(SynthesisConfig).to_value();
        schema["properties"]["method"]["enum"] = json!(self.methods.names());
        fill_schema(&mut schema, "environments", &self.envs.environments.schema());
        // `prepare` fills in the environment.
        schema["required"] = json!(["method"]);
        schema
    }

    fn prepare(&self, mut options: Value) -> Result<PreparedSynthesis> {
        let name = options.get("method").and_then(Value::as_str).map(str::to_string);
        let method = self.methods.read(&json!(name)).map_err(|problem| problem.with_prefix("/method"));
        let method = method.and_then(|chosen: ParsedPart<&'static dyn SynthesisMethod>| {
            chosen.build(&()).map(|method| *method).map_err(|e| OptionProblem::new("/method", e.message))
        });
        let default =
            || method.as_ref().map_or_else(|_| word_problems::default_options(), |method| method.environment());
        let environment = environments::read(&self.envs.environments, &mut options, default);
        Ok(PreparedSynthesis { config: self.parse(options)?, method, environment, known: self.envs.clone() })
    }

    fn run(&self, prepared: PreparedSynthesis, context: &mut StageContext) -> Result<()> {
        let PreparedSynthesis { config, method, environment, .. } = prepared;
        let method = method_of(method)?;
        let host = ToolHost::of_stage(context)?;
        let environment = environment.build(&host)?;
        let prompt_environment = prompt_environment(&self.envs.environments, &config, &host)?;
        let models = host.models();
        let given = io::read_many_problems(context.many("problems"))?;
        let progress = |done: usize, total: usize| {
            context.progress(done as u64, total as u64, "demonstrations", None);
            context.stop_if_cancelled()
        };
        let log = log(context);
        let world = SynthesisContext {
            environment: environment.as_ref(),
            prompt_environment: prompt_environment.as_deref(),
            models,
            log: &log,
            progress: &progress,
        };
        let mut output = method.make(&config, given, &world)?;
        if output.demonstrations.is_empty() {
            return Err(Error::data("no demonstration was made")
                .help("check the counts of dropped solutions, or add the split `demonstrations` to `splits`"));
        }
        let offered = left_to_templates(&config.environment, &*environment);
        output.demonstrations.iter_mut().for_each(|row| row.environment_tools.clone_from(&offered));
        host.report(context);
        models.values().into_iter().for_each(|(name, value)| context.metric(name, value));
        models.finish(context)?;
        publish(output, &reported(method, &config), context)
    }
    fn trial(
        &self,
        prepared: PreparedSynthesis,
        trial: &Trial,
        context: &mut StageContext,
    ) -> Result<Vec<TrialEpisode>> {
        let PreparedSynthesis { config, method, environment, .. } = prepared;
        let host = ToolHost::of_stage(context)?;
        let environment = environment.build(&host)?;
        let prompt_environment = prompt_environment(&self.envs.environments, &config, &host)?;
        let world = (&*environment, prompt_environment.as_deref(), host.models());
        trial::trial(config, method_of(method)?, world, trial, context)
    }
}

/// Returns the environment with the prompts for a teacher, if they differ.
fn prompt_environment(
    known: &Environments,
    config: &SynthesisConfig,
    host: &Arc<ToolHost>,
) -> Result<Option<Box<dyn Environment>>> {
    let Some(teacher) = &config.teacher else { return Ok(None) };
    teacher.calls.prompt_environment(known, &config.environment, host)
}

fn method_of(read: Result<&'static dyn SynthesisMethod, OptionProblem>) -> Result<&'static dyn SynthesisMethod> {
    read.map_err(|problem| Error::invalid(problem.message))
}

/// Options of `data/synthesize` with the method and the environment that they name.
pub struct PreparedSynthesis {
    config: SynthesisConfig,
    method: Result<&'static dyn SynthesisMethod, OptionProblem>,
    environment: EnvironmentSlot,
    /// All environments of this build.
    known: Arc<trainyard_envs::EnvironmentParts>,
}

impl PreparedOptions for PreparedSynthesis {
    type Config = SynthesisConfig;
    fn config(&self) -> &SynthesisConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.environment.problems();
        match &self.method {
            Ok(method) => {
                let environment = self.environment.build(&ToolHost::idle()).ok();
                problems.extend(method.check(&self.config, environment.as_deref(), &self.known.environments));
            }
            Err(problem) => problems.push(problem.clone()),
        }
        // The options of a method are under the method's name.
        let SynthesisConfig { teacher, process, http, .. } = &self.config;
        let given = [(TEACHER, teacher.is_some()), ("process", process.is_some()), ("http", http.is_some())];
        for (name, _) in given.iter().filter(|(_, is_given)| *is_given) {
            if let Ok(method) = &self.method
                && method.name() != *name
            {
                let message = format!("the method `{}` has no `{name}`", method.name());
                let problem = OptionProblem::new(format!("/{name}"), message);
                problems.push(problem.help(format!("use `method: {name}`, or leave `{name}` out")));
            }
        }
        problems
    }

    /// Returns the environment of the output problems: that of the options for new problems, and that of the input for
    /// given ones.
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        let kind = match &self.method {
            Ok(method) if !method.keeps_given_problems() => self.config.environment.get("kind"),
            _ => inputs.shared_fact("problems", ENVIRONMENT),
        };
        let facts: Facts = kind.map(|kind| (ENVIRONMENT.to_string(), kind.clone())).into_iter().collect();
        let ports = ["problems", "demonstrations"].map(str::to_string);
        ports.into_iter().chain(self.output_names().into_iter().flatten()).map(|port| (port, facts.clone())).collect()
    }

    fn output_names(&self) -> Option<Vec<String>> {
        let makes_splits = self.method.as_ref().is_ok_and(|method| !method.keeps_given_problems());
        makes_splits.then(|| self.config.splits.keys().map(|split| format!("{SPLIT_OUTPUT}{split}")).collect())
    }
}

/// Returns the tools of an environment whose options leave their description to the model's template, or `None` if
/// messages describe them or it has no tools.
fn left_to_templates(options: &Value, environment: &dyn Environment) -> Option<String> {
    let tools = environment.tools();
    let leaves_description = options["describe_tools"] == false && options.get("format").is_some();
    (leaves_description && !tools.is_empty()).then(|| tools_json(&tools))
}

/// Returns the metrics of a run of a method with these options.
fn reported(method: &dyn SynthesisMethod, config: &SynthesisConfig) -> DeclaredMetrics {
    metrics::common().into_iter().chain(method.declared(config)).collect::<Vec<_>>().into()
}

fn publish(mut output: SynthesisOutput, declared: &DeclaredMetrics, context: &mut StageContext) -> Result<()> {
    let sum = |get: fn(&trainyard_tables::Trajectory) -> u32| {
        output.demonstrations.iter().map(|t| f64::from(get(t))).sum::<f64>()
    };
    let counts = [
        ("problems", output.problems.len() as f64),
        ("demonstrations", output.demonstrations.len() as f64),
        ("tool_calls", sum(|t| t.tool_calls)),
        ("tool_errors", sum(|t| t.tool_errors)),
    ];
    for (name, value) in counts {
        output.report.metric(name, value);
    }
    for (name, metric) in &output.report.metrics {
        context.metric(name.clone(), metric.value);
    }
    context.write_report("report", output.report, declared)?;
    io::write_problems(&context.output_parquet("problems")?, &output.problems)?;
    write_splits(&output.problems, context)?;
    io::write_trajectories(&context.output_parquet("demonstrations")?, &output.demonstrations)
}

/// Writes the outputs that have one split each. Errors: data (no problem is in the split).
fn write_splits(problems: &[Problem], context: &StageContext) -> Result<()> {
    for port in context.output_ports() {
        let Some(split) = port.strip_prefix(SPLIT_OUTPUT) else { continue };
        let rows: Vec<_> = problems.iter().filter(|problem| problem.split == split).cloned().collect();
        if rows.is_empty() {
            return Err(Error::data(format!("no problem is in the split `{split}`, so the output `{port}` is empty"))
                .help("refer to a split that the column `split` of the problems has"));
        }
        io::write_problems(&context.output_parquet(port)?, &rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod custom_tests;
#[cfg(test)]
mod tests;
