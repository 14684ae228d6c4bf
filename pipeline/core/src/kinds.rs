//! Describes stage kinds to `check` and `plan`: ports, option schema, defaults, validation.
//!
//! Both depend only on the traits of this module, so they need neither a GPU nor the code of any stage.

use crate::artifact::ArtifactKind;
use crate::error::{Error, Result};
use crate::lazy_schema::LazySchema;
use crate::metric::{DeclaredMetrics, MetricRead, Producers, matches_pattern};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Bound, RangeBounds};

/// Number of artifacts that a port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cardinality {
    /// Exactly one.
    One,
    /// One or none.
    Optional,
    /// Any number, in order.
    Many,
}

/// An input or output port.
#[derive(Debug, Clone, Serialize)]
pub struct PortInfo {
    /// Name under `with`, or after the stage id in a reference. The name of an output may have a placeholder, as in
    /// `problems_<split>`. The options then give the names ([`ValidatedOptions::output_names`]), and the stage
    /// publishes those that the workflow refers to. With a placeholder in the name of an input, as in `<table>`, the
    /// workflow gives the names: any that no option has. Several such ports of one name take several kinds.
    pub name: &'static str,
    /// Kind of artifact.
    pub kind: ArtifactKind,
    /// Number of artifacts.
    pub cardinality: Cardinality,
    /// One sentence of documentation.
    pub doc: &'static str,
}

impl PortInfo {
    /// Returns whether the options give the names of the outputs, or the workflow those of the inputs.
    pub fn is_family(&self) -> bool {
        self.name.contains('<')
    }
    /// Returns whether the port has this name, or is a family that covers it.
    pub fn covers(&self, name: &str) -> bool {
        self.name == name || (self.is_family() && matches_pattern(self.name, name))
    }
}

/// Placement of a kind's attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Inside the engine's process; only for trivial kinds. Writes no attempt objects.
    InProcess,
    /// A process per attempt.
    Process,
}

/// One stage kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindInfo {
    /// Name, such as `sft` or `data/synthesize`.
    pub name: &'static str,
    /// Version, raised when the meaning of a config changes; part of the stage digest.
    pub version: u32,
    /// Summary in one line.
    pub summary: &'static str,
    /// Documentation page in Markdown: purpose, formulas, source, limits.
    pub doc: &'static str,
    /// Input ports.
    pub inputs: Vec<PortInfo>,
    /// Output ports.
    pub outputs: Vec<PortInfo>,
    /// JSON Schema of the options under `with`, without the ports. A string with `"format": "source"` names a file or
    /// folder whose content digest enters the stage digest; with `"format": "sources"`, it may be a pattern of files;
    /// with `"format": "model"`, a model on the hub.
    /// `check` fills in an option that is not set: with `"x-instances-of": "<port>"` the stage instances that a port
    /// reads, if they are several of a matrix ([`crate::AxisInstance`]), unless the option named by `x-unless` is set;
    /// with `"x-params": true` the params of the workflow.
    pub options: LazySchema,
    /// Placement of its attempts.
    pub placement: Placement,
    /// Whether the kind gets all CPUs of a machine by default (sft, rl, prm, evaluate) rather than one.
    pub all_cpus: bool,
    /// Whether the kind fits weights to data, so that a repetition is expensive.
    pub trains: bool,
    /// Whether the kind plays episodes, some of which `trainyard try` shows before a run.
    pub plays: bool,
    /// Valid `with:` block.
    pub example: &'static str,
    /// The main metric shown in progress, e.g. `loss`.
    pub main_metric: Option<&'static str>,
    /// Main metrics of stages with an optional input, before `main_metric`: pairs of an input port and a metric.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub main_metric_with: Vec<(&'static str, &'static str)>,
    /// Metrics that the kind may report under any options. [`ValidatedOptions::declared`] returns the exact names.
    #[serde(flatten)]
    pub metrics: DeclaredMetrics,
    /// Folders of the families whose parts the options may name.
    pub families: Vec<&'static str>,
}

impl KindInfo {
    /// Returns the main metric of a stage whose inputs are wired to these ports.
    pub fn main_metric_of(&self, is_wired: impl Fn(&str) -> bool) -> Option<&'static str> {
        let with = self.main_metric_with.iter().find(|(port, _)| is_wired(port));
        with.map(|(_, metric)| *metric).or(self.main_metric)
    }
    /// Returns the input port of this name.
    pub fn input(&self, name: &str) -> Option<&PortInfo> {
        self.inputs.iter().find(|p| p.name == name)
    }
    /// Returns the families of input ports that cover a name, which is neither that of an input nor of an option.
    pub fn input_families(&self, name: &str) -> Vec<&PortInfo> {
        let is_option = self.options.get("properties").is_some_and(|options| options.get(name).is_some());
        let is_free = !is_option && self.input(name).is_none();
        self.inputs.iter().filter(|port| is_free && port.is_family() && port.covers(name)).collect()
    }
    /// Returns the output port of this name, or else the family of ports that covers it.
    pub fn output(&self, name: &str) -> Option<&PortInfo> {
        let exact = self.outputs.iter().find(|p| p.name == name);
        exact.or_else(|| self.outputs.iter().find(|p| p.covers(name)))
    }
}

/// Problem with a value under `with`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptionProblem {
    /// RFC 6901 pointer into the config, such as `/loss/terms/0/clip_low`.
    pub pointer: String,
    /// Description of the problem, lower-case.
    pub message: String,
    /// Suggested remedy.
    pub help: Option<String>,
}

impl OptionProblem {
    /// Creates a problem without help.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), help: None }
    }
    /// Sets the suggested remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Reports a value outside its range; `None` if it is inside. NaN is outside every range.
    pub fn out_of_range<T: PartialOrd + Display>(
        pointer: impl Into<String>,
        value: T,
        range: impl RangeBounds<T>,
    ) -> Option<Self> {
        let problem = || Self::new(pointer, format!("{value} is out of range")).help(describe_range(&range));
        if range.contains(&value) { None } else { Some(problem()) }
    }
    /// Reports a number that is NaN or infinite; `None` for any other.
    pub fn not_finite(pointer: impl Into<String>, value: f64) -> Option<Self> {
        if value.is_finite() {
            None
        } else {
            Some(Self::new(pointer, format!("{value} is not a finite number")).help("use a finite number"))
        }
    }
    /// Reports a lower bound above its upper bound, each given with its pointer; `None` if they are in order.
    pub fn reversed_bounds<T: PartialOrd + Display>(low: (&str, T), high: (&str, T)) -> Option<Self> {
        let name = high.0.rsplit('/').next().unwrap_or(high.0);
        let problem = || Self::new(low.0, format!("{} is more than `{name}`, which is {}", low.1, high.1));
        if low.1 > high.1 { Some(problem().help(format!("use at most the value of `{name}`"))) } else { None }
    }
    /// Prefixes the pointer with `place`, the position of these options in a larger config.
    #[must_use]
    pub fn with_prefix(mut self, place: &str) -> Self {
        self.pointer.insert_str(0, place);
        self
    }
}

/// Converts an error about the options as a whole.
impl From<Error> for OptionProblem {
    fn from(error: Error) -> Self {
        Self { pointer: String::new(), message: error.message, help: error.help }
    }
}

/// Returns the range of all values above `low`, for which Rust has no syntax.
pub fn above<T>(low: T) -> (Bound<T>, Bound<T>) {
    (Bound::Excluded(low), Bound::Unbounded)
}

fn describe_range<T: Display>(range: &impl RangeBounds<T>) -> String {
    match (range.start_bound(), range.end_bound()) {
        (Bound::Included(low), Bound::Included(high)) => format!("use a value from {low} to {high}"),
        (Bound::Included(low), Bound::Excluded(high)) => format!("use at least {low}, and less than {high}"),
        (Bound::Included(low), Bound::Unbounded) => format!("use at least {low}"),
        (Bound::Excluded(low), Bound::Included(high)) => format!("use a value above {low}, and at most {high}"),
        (Bound::Excluded(low), Bound::Excluded(high)) => format!("use a value above {low}, and less than {high}"),
        (Bound::Excluded(low), Bound::Unbounded) => format!("use a value above {low}"),
        (Bound::Unbounded, Bound::Included(high)) => format!("use at most {high}"),
        (Bound::Unbounded, Bound::Excluded(high)) => format!("use less than {high}"),
        (Bound::Unbounded, Bound::Unbounded) => "use another value".to_string(),
    }
}

/// Known facts about an artifact before it exists, such as `environment` → `math-problems`.
pub type Facts = BTreeMap<String, Value>;

/// Artifacts wired to the input ports of a stage: their number per port, and the known facts about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WiredInputs {
    counts: BTreeMap<String, usize>,
    facts: BTreeMap<String, Vec<Facts>>,
    kinds: BTreeMap<String, ArtifactKind>,
    memory: Option<u64>,
}

impl WiredInputs {
    /// Creates an empty wiring.
    pub fn new() -> Self {
        Self::default()
    }
    /// Wires artifacts, in order, to a port.
    pub fn wire(&mut self, port: impl Into<String>, artifacts: Vec<Facts>) {
        let port = port.into();
        self.counts.insert(port.clone(), artifacts.len());
        self.facts.insert(port, artifacts);
    }
    /// Sets the kind of the artifacts at a port.
    pub fn set_kind(&mut self, port: impl Into<String>, kind: ArtifactKind) {
        self.kinds.insert(port.into(), kind);
    }
    /// Returns the kind of the artifacts at a port; `None` if it is not known.
    pub fn kind(&self, port: &str) -> Option<ArtifactKind> {
        self.kinds.get(port).copied()
    }
    /// Returns the names of the wired ports, sorted.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.counts.keys().map(String::as_str)
    }
    /// Sets how many bytes of memory the stage may use.
    #[must_use]
    pub fn with_memory(self, memory: Option<u64>) -> Self {
        Self { memory, ..self }
    }
    /// Returns the bytes of memory that the stage may use: its request, or the memory of the largest machine that can
    /// take it. `None`: unknown.
    pub fn memory(&self) -> Option<u64> {
        self.memory
    }
    /// Returns the number of artifacts at a port; `None` if the port is not wired.
    pub fn get(&self, port: &str) -> Option<&usize> {
        self.counts.get(port)
    }
    /// Returns the values of one fact at a port, for those artifacts that have it.
    pub fn fact<'a>(&'a self, port: &str, key: &'a str) -> impl Iterator<Item = &'a Value> {
        self.facts.get(port).into_iter().flatten().filter_map(move |facts| facts.get(key))
    }
    /// Returns the value of a fact if all artifacts of a port have the same one; `None` otherwise.
    pub fn shared_fact(&self, port: &str, key: &str) -> Option<&Value> {
        let artifacts = self.facts.get(port)?;
        let first = artifacts.first()?.get(key)?;
        artifacts.iter().all(|facts| facts.get(key) == Some(first)).then_some(first)
    }
}

impl FromIterator<(String, usize)> for WiredInputs {
    /// Creates a wiring from counts alone, without facts about the artifacts.
    fn from_iter<I: IntoIterator<Item = (String, usize)>>(ports: I) -> Self {
        let mut wired = Self::default();
        for (port, count) in ports {
            wired.wire(port, vec![Facts::new(); count]);
        }
        wired
    }
}

impl<const N: usize> From<[(String, usize); N]> for WiredInputs {
    fn from(ports: [(String, usize); N]) -> Self {
        ports.into_iter().collect()
    }
}

/// Stage kinds of a build.
pub trait StageKinds: Send + Sync {
    /// Returns the names, sorted.
    fn names(&self) -> Vec<&str>;
    /// Returns the kind of this name.
    fn kind(&self, name: &str) -> Option<&KindInfo>;
    /// Reads options whose expressions are all replaced, once for all queries. Errors: all their problems (types,
    /// ranges, contradictions between parts).
    fn validate_options(
        &self,
        kind: &str,
        options: &Value,
    ) -> Result<Box<dyn ValidatedOptions + '_>, Vec<OptionProblem>>;
}

/// Options of a stage, parsed and valid in themselves.
pub trait ValidatedOptions {
    /// Returns the complete config: defaults filled in, named compositions expanded, values in their declared types.
    fn config(&self) -> &Value;
    /// Returns all contradictions with the inputs that are wired to the ports. A pointer may also name a port.
    fn validate_inputs(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns probable mistakes, given the known facts about the inputs.
    fn warnings(&self, _inputs: &WiredInputs) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns all contradictions with the requested number of GPUs.
    fn validate_gpus(&self, _gpus: u32) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns all contradictions with the content of the sources, whose locations are given by the pointers of their
    /// options.
    fn validate_sources(&self, _locations: &BTreeMap<String, String>) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// Returns the known facts about the outputs before the stage runs, by output port.
    fn facts(&self, _inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        BTreeMap::new()
    }
    /// Returns the names of the outputs whose ports have a placeholder; `None` if only the data determine them.
    fn output_names(&self) -> Option<Vec<String>> {
        Some(Vec::new())
    }
    /// Returns the metrics and comparisons that the stage reports after these producers.
    fn declared(&self, _producers: &Producers) -> DeclaredMetrics {
        DeclaredMetrics::default()
    }
    /// Returns the metrics of the stage's inputs that the options name.
    fn metrics_read(&self, _producers: &Producers) -> Vec<MetricRead> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_problem_text_names_the_bounds() {
        let problem = OptionProblem::out_of_range("/share", 1.5, 0.0..=1.0).unwrap();
        assert_eq!(problem, OptionProblem::new("/share", "1.5 is out of range").help("use a value from 0 to 1"));
        assert_eq!(OptionProblem::out_of_range("/share", 1.0, 0.0..=1.0), None);
        let help = |problem: Option<OptionProblem>| problem.unwrap().help.unwrap();
        assert_eq!(help(OptionProblem::out_of_range("/steps", 0_u64, 1..)), "use at least 1");
        assert_eq!(help(OptionProblem::out_of_range("/calls", 9_u32, ..=8)), "use at most 8");
        assert_eq!(help(OptionProblem::out_of_range("/cap", 0.0, above(0.0))), "use a value above 0");
        assert_eq!(OptionProblem::out_of_range("/cap", 0.1, above(0.0)), None);
    }

    #[test]
    fn nan_is_in_no_range() {
        assert!(
            OptionProblem::out_of_range("/x", f64::NAN, 0.0..).is_some()
                && OptionProblem::out_of_range("/x", f64::NAN, ..=0.0).is_some()
        );
        assert!(
            OptionProblem::not_finite("/x", f64::INFINITY).is_some()
                && OptionProblem::not_finite("/x", f64::NAN).is_some()
        );
        assert_eq!(OptionProblem::not_finite("/x", -1e300), None);
    }

    #[test]
    fn a_fact_is_shared_only_if_every_artifact_has_it() {
        let of = |kind: &str| Facts::from([("environment".to_string(), Value::from(kind))]);
        let mut wired = WiredInputs::from([("models".to_string(), 2)]);
        wired.wire("problems", vec![of("countdown"), of("countdown")]);
        wired.wire("validation", vec![of("countdown"), Facts::new()]);
        assert_eq!((wired.get("models"), wired.get("problems"), wired.get("prm")), (Some(&2), Some(&2), None));
        assert_eq!(wired.shared_fact("problems", "environment"), Some(&Value::from("countdown")));
        assert_eq!(wired.shared_fact("validation", "environment"), None);
        assert_eq!(wired.fact("validation", "environment").count(), 1);
        assert_eq!(wired.shared_fact("models", "environment"), None);
    }

    #[test]
    fn reversed_bounds_are_reported_at_the_lower_one() {
        let problem = OptionProblem::reversed_bounds(("/band/low", 3), ("/band/high", 2)).unwrap();
        assert_eq!(
            (problem.pointer.as_str(), problem.message.as_str()),
            ("/band/low", "3 is more than `high`, which is 2")
        );
        assert_eq!(OptionProblem::reversed_bounds(("/low", 2), ("/high", 2)), None);
    }

    #[test]
    fn with_prefix_extends_the_pointer() {
        assert_eq!(OptionProblem::new("/clip_low", "x").with_prefix("/terms/0").pointer, "/terms/0/clip_low");
        assert_eq!(OptionProblem::new("", "x").with_prefix("/terms/0").pointer, "/terms/0");
    }
}
