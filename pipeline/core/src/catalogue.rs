//! What `spec` asks about stage kinds, and what the stage registry answers: ports, option schema, defaults, validation.
//!
//! Why so: `check` and `plan` need neither GPU nor candle nor the stage code; they see this trait only, and the registry that
//! implements it is wired in by the command line. Parts are dispatched on `kind` by registries, never by tagged enums.

use crate::artifact::ArtifactKind;
use crate::error::Result;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How many artifacts a port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cardinality {
    One,
    Optional,
    Many,
}

/// An input or output port.
#[derive(Debug, Clone, Serialize)]
pub struct PortInfo {
    pub name: &'static str,
    pub kind: ArtifactKind,
    pub cardinality: Cardinality,
    /// One sentence.
    pub doc: &'static str,
}

/// Where an attempt of a kind runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Inside the engine's process; for trivial kinds only. Writes no attempt objects.
    InProcess,
    /// A process per attempt.
    Process,
}

/// One stage kind.
#[derive(Debug, Clone, Serialize)]
pub struct KindInfo {
    /// `sft`, `data/synthesize`.
    pub name: &'static str,
    /// Raised when the meaning of a config changes; part of the stage digest.
    pub version: u32,
    /// One line.
    pub summary: &'static str,
    /// Markdown: what it does, formulas, source, what it refuses.
    pub doc: &'static str,
    pub inputs: Vec<PortInfo>,
    pub outputs: Vec<PortInfo>,
    /// JSON Schema of the options under `with`, without the ports. A string with `"format": "source"` names a file or folder
    /// whose content digest enters the stage digest.
    pub options: Value,
    pub placement: Placement,
    /// True: the whole pool's cpus by default (sft, rl, prm, evaluate); false: one.
    pub all_cpus: bool,
    /// A `with:` block that works.
    pub example: &'static str,
    /// The main metric shown in progress, e.g. `loss`.
    pub main_metric: Option<&'static str>,
    /// Names of the metrics in its manifests that checks may use (a trailing `*` matches a family).
    pub metrics: Vec<&'static str>,
}

impl KindInfo {
    pub fn input(&self, name: &str) -> Option<&PortInfo> {
        self.inputs.iter().find(|p| p.name == name)
    }
    pub fn output(&self, name: &str) -> Option<&PortInfo> {
        self.outputs.iter().find(|p| p.name == name)
    }
}

/// Something wrong with a value under `with`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptionProblem {
    /// RFC 6901 pointer into the config, e.g. `/loss/terms/0/clip_low`.
    pub pointer: String,
    pub message: String,
    pub help: Option<String>,
}

impl OptionProblem {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into(), help: None }
    }
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// How many artifacts every input port gets.
pub type Wired = BTreeMap<String, usize>;

/// All stage kinds of this build.
pub trait Catalogue: Send + Sync {
    /// Sorted names.
    fn names(&self) -> Vec<&str>;
    fn kind(&self, name: &str) -> Option<&KindInfo>;
    /// Everything wrong with a config whose expressions are all known: typed parsing, ranges, contradictions between parts.
    fn validate(&self, kind: &str, config: &Value) -> Vec<OptionProblem>;
    /// Everything wrong between a complete config and what is wired to the ports. A pointer may also name a port.
    fn validate_inputs(&self, _kind: &str, _config: &Value, _inputs: &Wired) -> Vec<OptionProblem> {
        Vec::new()
    }
    /// The complete config: defaults filled, named compositions expanded, values in their declared types.
    fn complete(&self, kind: &str, config: &Value) -> Result<Value>;
}
