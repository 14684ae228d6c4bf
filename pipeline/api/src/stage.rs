//! Defines stage kinds: documentation, ports, and the options that are checked and run.
//!
//! A kind is a value, because some kinds hold the parts that they compose (`rl` its losses, rewards and environments).

use crate::context::StageContext;
use crate::trial::{Trial, TrialEpisode};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, KindInfo, LazySchema, MetricRead, OptionProblem,
    Placement, PortInfo, Producers, Result, ValidatedOptions, WiredInputs,
};

/// Creates a port.
pub const fn port(name: &'static str, kind: ArtifactKind, cardinality: Cardinality, doc: &'static str) -> PortInfo {
    PortInfo { name, kind, cardinality, doc }
}

/// The ports of a kind.
pub struct Ports {
    /// Input ports.
    pub inputs: Vec<PortInfo>,
    /// Output ports.
    pub outputs: Vec<PortInfo>,
}

/// One stage kind. The doc comments of its config are its documentation.
pub trait Stage: Send + Sync + 'static {
    /// Parsed options: usually the config struct; a struct around it if parts are built from the options.
    type Prepared: PreparedOptions<Config: DeserializeOwned + JsonSchema>;
    /// Name, as written after `uses:`.
    const NAME: &'static str;
    /// Version; raised when the meaning of a config changes.
    const VERSION: u32 = 1;
    /// Summary in one line, for lists of stage kinds.
    const SUMMARY: &'static str;
    /// Documentation in Markdown: purpose, formulas, sources, inputs that are not accepted.
    const DOC: &'static str;
    /// A valid `with:` block.
    const EXAMPLE: &'static str = "{}";
    /// Whether the stage runs in a separate process or inside the engine.
    const PLACEMENT: Placement = Placement::Process;
    /// Whether an attempt gets all CPUs of its machine unless the stage sets `cpus`. Such kinds train or sample.
    const ALL_CPUS: bool = false;
    /// Whether the stage fits weights to data, which a recipe may pay for once.
    const TRAINS: bool = false;
    /// Whether the stage plays episodes, some of which [`Stage::trial`] shows.
    const PLAYS: bool = false;
    /// Metric shown in progress lines and summaries, if any.
    const MAIN_METRIC: Option<&'static str> = None;
    /// Metrics shown instead of [`Stage::MAIN_METRIC`] if an optional input is wired: pairs of an input port and a
    /// metric.
    const MAIN_METRIC_WITH: &'static [(&'static str, &'static str)] = &[];
    /// Folders of the families whose parts the options may name; sorted.
    const FAMILIES: &'static [&'static str] = &[];

    /// Returns the input and output ports of the stage.
    fn ports(&self) -> Ports;
    /// Returns all metrics that the stage may report under any options, with unit and meaning.
    fn metrics(&self) -> DeclaredMetrics {
        DeclaredMetrics::default()
    }
    /// Returns the metrics that the stage reports under these options and with these producers of its inputs: a
    /// function of both, so that `check` knows every name.
    fn declared_metrics(&self, _prepared: &Self::Prepared, _producers: &Producers) -> DeclaredMetrics {
        self.metrics()
    }
    /// Returns the metrics of its inputs that the options name.
    fn metrics_read(&self, _prepared: &Self::Prepared, _producers: &Producers) -> Vec<MetricRead> {
        Vec::new()
    }
    /// Returns the schema of the options, parts included ([`crate::family::fill_schema`]).
    fn schema(&self) -> Value {
        schemars::schema_for!(PreparedConfig<Self>).to_value()
    }
    /// Parses the options once: named compositions are expanded, defaults filled in, parts read. Ranges and
    /// contradictions are not errors here but [`PreparedOptions::problems`]. Errors: invalid.
    fn prepare(&self, options: Value) -> Result<Self::Prepared>;
    /// Parses the config alone, for [`Stage::prepare`]. Errors: invalid, naming the kind and the option.
    fn parse(&self, options: Value) -> Result<PreparedConfig<Self>> {
        serde_json::from_value(options).map_err(|e| Error::invalid(format!("options of `{}`: {e}", Self::NAME)))
    }
    /// Runs the stage. Must be deterministic in (config, inputs).
    fn run(&self, prepared: Self::Prepared, context: &mut StageContext) -> Result<()>;
    /// Returns the first episodes that a run would play, without learning or writing. Only for kinds with
    /// [`Stage::PLAYS`]; output folders and checkpoints do not exist.
    fn trial(
        &self,
        _prepared: Self::Prepared,
        _trial: &Trial,
        _context: &mut StageContext,
    ) -> Result<Vec<TrialEpisode>> {
        Err(Error::invalid(format!("stages of kind `{}` play no episodes that could be tried", Self::NAME)))
    }
}

/// The config struct of a stage kind.
pub type PreparedConfig<S> = <<S as Stage>::Prepared as PreparedOptions>::Config;

/// Options of a stage, parsed once: the checked options are those that run.
pub trait PreparedOptions: Send + 'static {
    /// Config struct: denies unknown fields and has working defaults; one field per option under `with` (ports
    /// excluded).
    type Config: Serialize;
    /// Returns the complete config: every default filled in, parts included. Its JSON enters the stage digest.
    fn config(&self) -> &Self::Config;
    /// Returns all problems that types cannot express: ranges and contradictions.
    fn problems(&self) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns contradictions between the options and the artifacts at the ports: their number, and known facts about
    /// them. Not called while a list is not known before the run.
    fn problems_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns probable mistakes, given the known facts about the artifacts at the ports. The stage still runs.
    fn warnings_with(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns contradictions between the options and the number of GPUs that the stage requests.
    fn problems_with_gpus(&self, _gpus: u32) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns contradictions between the options and the content of the sources that they name. `locations` has the
    /// absolute paths or URLs, by the pointers of the options. Reads little: `check` calls it.
    fn problems_with_sources(&self, _locations: &BTreeMap<String, String>) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns the requirements of the parts, by name.
    fn needs(&self) -> Vec<&'static str> {
        Vec::new()
    }
    /// Returns the names of the outputs whose ports have a placeholder, such as `problems_test`; `None` if only the
    /// data determine them.
    fn output_names(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }
    /// Returns facts about the outputs that are known before the run, by output port: `problems` → `environment` →
    /// `countdown`. Downstream stages receive them in `problems_with`.
    fn facts(&self, _inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        BTreeMap::new()
    }
}

/// A stage kind with its types erased.
pub trait DynStage: Send + Sync {
    /// Returns documentation, ports and option schema of the kind.
    fn info(&self) -> &KindInfo;
    /// As in [`Stage::prepare`].
    fn prepare(&self, options: &Value) -> Result<Box<dyn DynPreparedOptions + '_>>;

    /// Returns prepared options without problems, or all problems.
    fn settle(&self, options: &Value) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>> {
        let prepared = self.prepare(options).map_err(|e| vec![e.into()])?;
        let problems = prepared.problems();
        if !problems.is_empty() {
            return Err(problems);
        }
        let config = prepared.config().map_err(|e| vec![e.into()])?;
        Ok(Box::new(ValidOptions { prepared, config }))
    }
    /// Returns all problems of the options.
    fn validate(&self, options: &Value) -> Vec<OptionProblem> {
        self.settle(options).err().unwrap_or_default()
    }
    /// Returns the complete config.
    fn complete(&self, options: &Value) -> Result<Value> {
        self.prepare(options)?.config()
    }
    /// Prepares the options and runs the stage.
    fn run(&self, options: &Value, context: &mut StageContext) -> Result<()> {
        self.prepare(options)?.run(context)
    }
    /// Prepares the options and plays a few episodes.
    fn trial(&self, options: &Value, trial: &Trial, context: &mut StageContext) -> Result<Vec<TrialEpisode>> {
        self.prepare(options)?.trial(trial, context)
    }
}

/// Prepared options with their types erased. The methods are those of [`PreparedOptions`] and, with prepared options as
/// an argument, of [`Stage`].
pub trait DynPreparedOptions: Send {
    /// Returns the complete config. Errors: bug, if it has no JSON form.
    fn config(&self) -> Result<Value>;
    /// See [`PreparedOptions::problems`].
    fn problems(&self) -> Vec<OptionProblem>;
    /// See [`PreparedOptions::problems_with`].
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem>;
    /// See [`PreparedOptions::warnings_with`].
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem>;
    /// See [`PreparedOptions::problems_with_gpus`].
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem>;
    /// See [`PreparedOptions::problems_with_sources`].
    fn problems_with_sources(&self, locations: &BTreeMap<String, String>) -> Vec<OptionProblem>;
    /// See [`PreparedOptions::facts`].
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts>;
    /// See [`PreparedOptions::output_names`].
    fn output_names(&self) -> Option<Vec<String>>;
    /// See [`PreparedOptions::needs`].
    fn needs(&self) -> Vec<&'static str>;
    /// See [`Stage::declared_metrics`].
    fn declared_metrics(&self, producers: &Producers) -> DeclaredMetrics;
    /// See [`Stage::metrics_read`].
    fn metrics_read(&self, producers: &Producers) -> Vec<MetricRead>;
    /// See [`Stage::run`].
    fn run(self: Box<Self>, context: &mut StageContext) -> Result<()>;
    /// See [`Stage::trial`].
    fn trial(self: Box<Self>, trial: &Trial, context: &mut StageContext) -> Result<Vec<TrialEpisode>>;
}

/// Prepared options with their stage kind.
struct ErasedOptions<'s, S: Stage> {
    stage: &'s S,
    prepared: S::Prepared,
}

impl<S: Stage> DynPreparedOptions for ErasedOptions<'_, S> {
    fn config(&self) -> Result<Value> {
        let config = self.prepared.config();
        serde_json::to_value(config).map_err(|e| Error::bug(format!("a config has no JSON form: {e}")))
    }
    fn problems(&self) -> Vec<OptionProblem> {
        self.prepared.problems()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.prepared.problems_with(inputs)
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.prepared.warnings_with(inputs)
    }
    fn problems_with_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.prepared.problems_with_gpus(gpus)
    }
    fn problems_with_sources(&self, locations: &BTreeMap<String, String>) -> Vec<OptionProblem> {
        self.prepared.problems_with_sources(locations)
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.prepared.facts(inputs)
    }
    fn output_names(&self) -> Option<Vec<String>> {
        self.prepared.output_names()
    }
    fn needs(&self) -> Vec<&'static str> {
        self.prepared.needs()
    }
    fn declared_metrics(&self, producers: &Producers) -> DeclaredMetrics {
        self.stage.declared_metrics(&self.prepared, producers)
    }
    fn metrics_read(&self, producers: &Producers) -> Vec<MetricRead> {
        self.stage.metrics_read(&self.prepared, producers)
    }
    fn run(self: Box<Self>, context: &mut StageContext) -> Result<()> {
        self.stage.run(self.prepared, context)
    }
    fn trial(self: Box<Self>, trial: &Trial, context: &mut StageContext) -> Result<Vec<TrialEpisode>> {
        self.stage.trial(self.prepared, trial, context)
    }
}

/// Prepared options without problems, with their complete config.
struct ValidOptions<'s> {
    prepared: Box<dyn DynPreparedOptions + 's>,
    config: Value,
}

impl ValidatedOptions for ValidOptions<'_> {
    fn config(&self) -> &Value {
        &self.config
    }
    fn validate_inputs(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.prepared.problems_with(inputs)
    }
    fn warnings(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.prepared.warnings_with(inputs)
    }
    fn validate_gpus(&self, gpus: u32) -> Vec<OptionProblem> {
        self.prepared.problems_with_gpus(gpus)
    }
    fn validate_sources(&self, locations: &BTreeMap<String, String>) -> Vec<OptionProblem> {
        self.prepared.problems_with_sources(locations)
    }
    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        self.prepared.facts(inputs)
    }
    fn output_names(&self) -> Option<Vec<String>> {
        self.prepared.output_names()
    }
    fn declared(&self, producers: &Producers) -> DeclaredMetrics {
        self.prepared.declared_metrics(producers)
    }
    fn metrics_read(&self, producers: &Producers) -> Vec<MetricRead> {
        self.prepared.metrics_read(producers)
    }
}

/// Returns the first problem as the error of a running stage: problems that depend on a list of inputs not known before
/// the run first appear there.
pub fn refuse(problems: Vec<OptionProblem>) -> Result<()> {
    match problems.into_iter().next() {
        None => Ok(()),
        Some(problem) => Err(problem.help.into_iter().fold(Error::invalid(problem.message), Error::help)),
    }
}

struct ErasedStage<S: Stage> {
    info: KindInfo,
    stage: Arc<S>,
}

/// Returns the catalogue's form of a stage kind.
pub fn erase<S: Stage>(stage: S) -> Box<dyn DynStage> {
    let Ports { inputs, outputs } = stage.ports();
    let stage = Arc::new(stage);
    let of_schema = stage.clone();
    let info = KindInfo {
        name: S::NAME,
        version: S::VERSION,
        summary: S::SUMMARY,
        doc: S::DOC,
        inputs,
        outputs,
        options: LazySchema::new(move || of_schema.schema()),
        placement: S::PLACEMENT,
        all_cpus: S::ALL_CPUS,
        trains: S::TRAINS,
        plays: S::PLAYS,
        example: S::EXAMPLE,
        main_metric: S::MAIN_METRIC,
        main_metric_with: S::MAIN_METRIC_WITH.to_vec(),
        metrics: stage.metrics(),
        families: S::FAMILIES.to_vec(),
    };
    Box::new(ErasedStage { info, stage })
}

impl<S: Stage> DynStage for ErasedStage<S> {
    fn info(&self) -> &KindInfo {
        &self.info
    }
    fn prepare(&self, options: &Value) -> Result<Box<dyn DynPreparedOptions + '_>> {
        let prepared = self.stage.prepare(options.clone())?;
        Ok(Box::new(ErasedOptions { stage: self.stage.as_ref(), prepared }))
    }
}
