//! Defines the trait of synthesis methods.

use super::config::SynthesisConfig;
use serde_json::Value;
use std::sync::Arc;
use trainyard_api::StageReport;
use trainyard_chat::Models;
use trainyard_core::{MetricInfo, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::Environments;
use trainyard_process::ProgramLog;
use trainyard_tables::{Problem, Trajectory};

/// A way to make problems and demonstrations.
pub trait SynthesisMethod: Send + Sync {
    /// Returns the registered name.
    fn name(&self) -> &'static str;
    /// Returns one line for lists.
    fn summary(&self) -> &'static str;
    /// Returns Markdown: the outputs of the method, and the options that it reads. By default it refers to the page of
    /// the stage, which describes the methods of this crate.
    fn doc(&self) -> &'static str {
        "A method of `data/synthesize`. `trainyard stages data/synthesize` describes its outputs and options."
    }
    /// Returns the metrics that the method may report under any options. The stage adds the counts that all methods
    /// have.
    fn metrics(&self) -> Vec<MetricInfo> {
        Vec::new()
    }
    /// Returns the metrics that the method reports under these options.
    fn declared(&self, _config: &SynthesisConfig) -> Vec<MetricInfo> {
        self.metrics()
    }
    /// Returns whether the method uses the problems of the stage's input, which keep their environment. Otherwise the
    /// method makes new problems of the environment in the options.
    fn keeps_given_problems(&self) -> bool {
        false
    }
    /// Returns the highest level of the method's problems; the lowest is 1.
    fn levels(&self, _config: &SynthesisConfig, environment: &dyn Environment) -> u32 {
        environment.generator().map_or(1, |generator| generator.max_level())
    }
    /// Returns the options of the environment that apply if the config names no environment.
    fn environment(&self) -> Value;
    /// Returns problems with the options. `environment` is absent if it cannot be built; `known` are the environments
    /// of this build.
    fn check(
        &self,
        config: &SynthesisConfig,
        environment: Option<&dyn Environment>,
        known: &Environments,
    ) -> Vec<OptionProblem>;
    /// Makes problems and demonstrations from the config, the given problems and the context.
    fn make(
        &self,
        config: &SynthesisConfig,
        given: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput>;
}

/// Context of a method in addition to its options.
pub struct SynthesisContext<'a> {
    /// The environment.
    pub environment: &'a dyn Environment,
    /// The environment with the prompts for a teacher, where they differ.
    pub prompt_environment: Option<&'a dyn Environment>,
    /// Models at endpoints.
    pub models: &'a Arc<Models>,
    /// Log of user-defined programs.
    pub log: &'a ProgramLog,
    /// Receives (done, total) and may stop the method.
    pub progress: &'a dyn Fn(usize, usize) -> Result<()>,
}

/// The result of a method.
#[derive(Debug, Clone)]
pub struct SynthesisOutput {
    /// Problems of all splits.
    pub problems: Vec<Problem>,
    /// Demonstrations, as text.
    pub demonstrations: Vec<Trajectory>,
    /// Report with the method's own metrics and tables.
    pub report: StageReport,
}
