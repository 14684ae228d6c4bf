//! The trait of a stage, and its object-safe form that registries hold.

use crate::context::StageContext;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use trainyard_core::{
    ArtifactKind, Cardinality, Declared, Error, Facts, KindInfo, MetricRead, OptionProblem, Placement, PortInfo,
    Producers, Result, Wired,
};

/// Shorthand for a port.
pub const fn port(name: &'static str, kind: ArtifactKind, cardinality: Cardinality, doc: &'static str) -> PortInfo {
    PortInfo { name, kind, cardinality, doc }
}

/// The ports of a kind.
pub struct Ports {
    pub inputs: Vec<PortInfo>,
    pub outputs: Vec<PortInfo>,
}

/// One stage kind. Implement this on a unit struct; the doc comments of `Config` are its documentation.
pub trait Stage: Send + Sync + 'static {
    /// Denies unknown fields, has defaults that work; one field per option under `with` (ports excluded).
    type Config: DeserializeOwned + Serialize + JsonSchema;
    /// As written after `uses:`.
    const NAME: &'static str;
    /// Raised when the meaning of a config changes.
    const VERSION: u32 = 1;
    const SUMMARY: &'static str;
    /// Markdown: what it does, formulas, sources, what it refuses.
    const DOC: &'static str;
    /// A `with:` block that works.
    const EXAMPLE: &'static str = "{}";
    const PLACEMENT: Placement = Placement::Process;
    /// True: the whole pool's cpus unless the stage asks otherwise.
    const ALL_CPUS: bool = false;
    const MAIN_METRIC: Option<&'static str> = None;

    fn ports() -> Ports;
    /// Everything that it may report under any options, with unit and meaning.
    fn metrics() -> Declared {
        Declared::default()
    }
    /// Everything that it reports under these options, behind these producers: a function of both, so that `check`
    /// knows every name.
    fn declared(_config: &Self::Config, _producers: &Producers) -> Declared {
        Self::metrics()
    }
    /// The metrics of its inputs that the options name.
    fn metrics_read(_config: &Self::Config, _producers: &Producers) -> Vec<MetricRead> {
        Vec::new()
    }
    /// Adds what the derived schema cannot know (parts that registries dispatch on `kind`).
    fn schema() -> Value {
        schemars::schema_for!(Self::Config).to_value()
    }
    /// Named compositions expanded before parsing (`algorithm: grpo`); the identity for most.
    fn expand(config: Value) -> Result<Value> {
        Ok(config)
    }
    /// Ranges and contradictions that types cannot express. All of them at once.
    fn check(_config: &Self::Config) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// What the options and the artifacts at the ports contradict in: their number, and what is known about them. Not
    /// asked while a list is not known before the run.
    fn check_inputs(_config: &Self::Config, _inputs: &Wired) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// What is known about the outputs before the run, by output port: `problems` → `environment` → `countdown`. The
    /// stages behind this one get it in `check_inputs`.
    fn facts(_config: &Self::Config, _inputs: &Wired) -> BTreeMap<String, Facts> {
        BTreeMap::new()
    }
    /// Does the work. Must be deterministic in (config, inputs).
    fn run(config: Self::Config, context: &mut StageContext) -> Result<()>;
}

/// A stage without its config type.
pub trait DynStage: Send + Sync {
    fn info(&self) -> &KindInfo;
    fn validate(&self, config: &Value) -> Vec<OptionProblem>;
    fn validate_inputs(&self, config: &Value, inputs: &Wired) -> Vec<OptionProblem>;
    fn facts(&self, config: &Value, inputs: &Wired) -> BTreeMap<String, Facts>;
    fn complete(&self, config: &Value) -> Result<Value>;
    fn declared(&self, config: &Value, producers: &Producers) -> Declared;
    fn metrics_read(&self, config: &Value, producers: &Producers) -> Vec<MetricRead>;
    fn run(&self, config: Value, context: &mut StageContext) -> Result<()>;
}

struct Erased<S: Stage> {
    info: KindInfo,
    stage: PhantomData<S>,
}

/// The registry's form of a stage kind.
pub fn erase<S: Stage>() -> Box<dyn DynStage> {
    let Ports { inputs, outputs } = S::ports();
    let info = KindInfo {
        name: S::NAME,
        version: S::VERSION,
        summary: S::SUMMARY,
        doc: S::DOC,
        inputs,
        outputs,
        options: S::schema(),
        placement: S::PLACEMENT,
        all_cpus: S::ALL_CPUS,
        example: S::EXAMPLE,
        main_metric: S::MAIN_METRIC,
        metrics: S::metrics(),
    };
    Box::new(Erased::<S> { info, stage: PhantomData })
}

impl<S: Stage> Erased<S> {
    fn parse(config: &Value) -> Result<S::Config> {
        serde_json::from_value(S::expand(config.clone())?)
            .map_err(|e| Error::invalid(format!("options of `{}`: {e}", S::NAME)))
    }
}

impl<S: Stage> DynStage for Erased<S> {
    fn info(&self) -> &KindInfo {
        &self.info
    }
    fn validate(&self, config: &Value) -> Vec<OptionProblem> {
        match Self::parse(config) {
            Ok(parsed) => S::check(&parsed),
            Err(e) => vec![OptionProblem { pointer: String::new(), message: e.message, help: e.help }],
        }
    }
    /// Silent about a config that does not parse: `validate` says what is wrong with it.
    fn validate_inputs(&self, config: &Value, inputs: &Wired) -> Vec<OptionProblem> {
        Self::parse(config).map_or_else(|_| Vec::new(), |parsed| S::check_inputs(&parsed, inputs))
    }
    fn facts(&self, config: &Value, inputs: &Wired) -> BTreeMap<String, Facts> {
        Self::parse(config).map_or_else(|_| BTreeMap::new(), |parsed| S::facts(&parsed, inputs))
    }
    fn complete(&self, config: &Value) -> Result<Value> {
        serde_json::to_value(Self::parse(config)?)
            .map_err(|e| Error::bug(format!("config of `{}` has no JSON form: {e}", S::NAME)))
    }
    /// What the kind may report at all, for a config that does not parse.
    fn declared(&self, config: &Value, producers: &Producers) -> Declared {
        Self::parse(config).map_or_else(|_| S::metrics(), |parsed| S::declared(&parsed, producers))
    }
    fn metrics_read(&self, config: &Value, producers: &Producers) -> Vec<MetricRead> {
        Self::parse(config).map_or_else(|_| Vec::new(), |parsed| S::metrics_read(&parsed, producers))
    }
    fn run(&self, config: Value, context: &mut StageContext) -> Result<()> {
        S::run(Self::parse(&config)?, context)
    }
}
