//! Declares the metrics of stages and parts, and defines the comparisons ([`Comparison`]) that manifests contain.
//!
//! A declaration is next to the code that reports the metric. `check` compares the metric names in a workflow file with
//! the declarations, so a misspelled name fails before any training.

mod comparison;

pub use comparison::{Comparison, ComparisonField, look_up, qualified_name};

use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Desired direction of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricDirection {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither direction is better.
    #[default]
    Neutral,
}

/// Reduction of the values of all steps to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduce {
    /// Mean over the last tenth of the steps.
    LastTenth,
    /// Mean over all steps.
    Whole,
    /// Largest value of any step.
    Max,
    /// Value of the first step.
    First,
    /// Sum over all steps.
    Sum,
}

impl Reduce {
    /// Reduces the values of all steps, in order, to one number; `None` without values. `tail` is a tenth of the steps.
    pub fn apply(self, values: &[f64], tail: usize) -> Option<f64> {
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        match self {
            _ if values.is_empty() => None,
            Self::LastTenth => Some(mean(&values[values.len() - tail.clamp(1, values.len())..])),
            Self::Whole => Some(mean(values)),
            Self::Max => values.iter().copied().reduce(f64::max),
            Self::First => values.first().copied(),
            Self::Sum => Some(values.iter().sum()),
        }
    }
    /// Returns a description, for the reference pages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::LastTenth => "mean of the last tenth of the steps",
            Self::Whole => "mean of all steps",
            Self::Max => "largest of any step",
            Self::First => "first step",
            Self::Sum => "sum over all steps",
        }
    }
}

/// Metric that a stage or part reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MetricInfo {
    /// Name in manifests and checks. `<int>` is a placeholder for a whole number that only the data determine
    /// (`pass_rate_level_<int>`); another word in angle brackets is a placeholder for a name that the options give
    /// (`accuracy_<model>`).
    pub name: String,
    /// Unit: `share`, `tokens`, `nats`, …
    pub unit: Cow<'static, str>,
    /// Meaning, in one sentence.
    pub doc: Cow<'static, str>,
    /// Desired direction.
    pub direction: MetricDirection,
    /// Reduction of the steps; `None` for a number that is measured once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce: Option<Reduce>,
    /// Whether some runs do not report the metric.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Name of the reduced series, where it differs from that of the metric (`pass_rate` of `pass_rate_initial`).
    #[serde(skip)]
    pub series: Option<String>,
    /// Former name; errors about it name the new one.
    #[serde(skip)]
    pub former: Option<String>,
}

impl MetricInfo {
    /// Creates a metric that is measured once.
    pub fn new(name: impl Into<String>, unit: impl Into<Cow<'static, str>>, doc: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            doc: doc.into(),
            direction: MetricDirection::Neutral,
            reduce: None,
            optional: false,
            series: None,
            former: None,
        }
    }
    /// Declares that more is better.
    #[must_use]
    pub fn higher(mut self) -> Self {
        self.direction = MetricDirection::Higher;
        self
    }
    /// Declares that less is better.
    #[must_use]
    pub fn lower(mut self) -> Self {
        self.direction = MetricDirection::Lower;
        self
    }
    /// Declares that the metric is measured at every step.
    #[must_use]
    pub fn reduced_by(mut self, reduce: Reduce) -> Self {
        self.reduce = Some(reduce);
        self
    }
    /// Declares that some runs do not report the metric.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
    /// Sets the name that the metric had before metrics had the names of their parts.
    #[must_use]
    pub fn former_name(mut self, name: &str) -> Self {
        self.former = Some(name.to_string());
        self
    }
    /// Returns the metric `<name>_initial` of the same steps: the value of the first step, measured with the weights of
    /// the input.
    #[must_use]
    pub fn initial(&self) -> Self {
        Self {
            name: format!("{}_initial", self.name),
            doc: format!("{} At the first step.", self.doc).into(),
            reduce: Some(Reduce::First),
            series: Some(self.series().to_string()),
            former: self.former.as_ref().map(|name| format!("{name}_initial")),
            ..self.clone()
        }
    }
    /// Returns the metric of one part among several: `<prefix>.<name>`.
    #[must_use]
    pub fn prefixed(mut self, prefix: &str) -> Self {
        self.series = self.series.map(|series| format!("{prefix}.{series}"));
        self.name = format!("{prefix}.{}", self.name);
        self
    }
    /// Returns the name under which the steps are measured.
    pub fn series(&self) -> &str {
        self.series.as_deref().unwrap_or(&self.name)
    }
    /// Returns whether this declaration covers a name.
    pub fn covers(&self, name: &str) -> bool {
        matches_pattern(&self.name, name)
    }
    /// Returns the covered names as a regular expression.
    pub fn pattern(&self) -> String {
        let mut text = String::from("^");
        let mut rest = self.name.as_str();
        while let Some((before, after)) = rest.split_once('<') {
            let (word, after) = after.split_once('>').unwrap_or((after, ""));
            text += &before.replace('.', "\\.");
            text += if word == "int" { "[0-9]+" } else { "[a-z0-9_-]+(\\[[^\\[\\]]+\\])?" };
            rest = after;
        }
        text + &rest.replace('.', "\\.") + "$"
    }
    /// Returns whether the name depends on data or options.
    pub fn is_family(&self) -> bool {
        self.name.contains('<')
    }
}

/// Matches a name against a pattern whose `<int>` is a whole number and whose other `<words>` are names of letters,
/// digits, `_` and `-`, which may end with the axes of a stage instance in brackets.
pub(crate) fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('<') else { return pattern == name };
    let Some((word, after)) = rest.split_once('>') else { return pattern == name };
    let Some(tail) = name.strip_prefix(before) else { return false };
    let allowed = |c: char| match word {
        "int" => c.is_ascii_digit(),
        _ => c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'),
    };
    let max = tail.find(|c: char| !allowed(c)).unwrap_or(tail.len());
    let axes = || tail[max..].starts_with('[').then(|| tail[max..].find(']')).flatten().map(|end| max + end + 1);
    let with_axes = if word == "int" || max == 0 { None } else { axes() };
    (1..=max).chain(with_axes).any(|length| matches_pattern(after, &tail[length..]))
}

/// Metrics and comparisons that a stage reports.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeclaredMetrics {
    /// Metrics that are one number each.
    pub metrics: Vec<MetricInfo>,
    /// Rows of a comparison; a check on one names the number that it means.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<MetricInfo>,
    /// Whether an upstream stage (a command) reports undeclared names, which pass through.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

impl DeclaredMetrics {
    /// Returns the declaration that covers a metric of this name.
    pub fn metric(&self, name: &str) -> Option<&MetricInfo> {
        self.metrics.iter().find(|m| m.covers(name))
    }
    /// Returns the declaration that covers a comparison of this name.
    pub fn comparison(&self, name: &str) -> Option<&MetricInfo> {
        self.comparisons.iter().find(|m| m.covers(name))
    }
}

impl From<Vec<MetricInfo>> for DeclaredMetrics {
    fn from(metrics: Vec<MetricInfo>) -> Self {
        Self { metrics, ..Self::default() }
    }
}

/// Stage that produces an artifact at an input port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Producer {
    /// Metrics under its options; `None` if they are undeclared (a command), or if the number of its instances is not
    /// known.
    pub declared: Option<DeclaredMetrics>,
    /// Metrics that its kind may report under any options.
    pub kind: DeclaredMetrics,
}

/// Port → the stages that produce its artifacts, in order.
pub type Producers = BTreeMap<String, Vec<Producer>>;

/// Metric of an input that options name: `metrics: [kl]` of `compare`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricRead {
    /// RFC 6901 pointer into the config.
    pub pointer: String,
    /// The input port.
    pub port: String,
    /// The metric's name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_family_matches_its_parameters() {
        let metric = |name: &str| MetricInfo::new(name, "share", "A share.");
        assert!(metric("kl").covers("kl") && !metric("kl").covers("kll"));
        let level = metric("pass_rate_level_<int>");
        assert!(level.covers("pass_rate_level_12"));
        assert!(
            !level.covers("pass_rate_level_")
                && !level.covers("pass_rate_level_x")
                && !level.covers("pass_rate_level_1x")
        );
        let model = metric("accuracy_<model>_level_<int>");
        assert!(model.covers("accuracy_rl_2_level_3") && !model.covers("accuracy__level_"));
        assert!(model.covers("accuracy_sft[lr=0.003,seed=1]_level_3") && !model.covers("accuracy_sft[lr=1_level_3"));
        assert!(metric("<int>.kl").covers("3.kl") && !metric("<int>.kl").covers(".kl"));
    }

    #[test]
    fn steps_are_reduced_as_declared() {
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let of = |reduce: Reduce| reduce.apply(&values, 2).unwrap();
        assert_eq!((of(Reduce::LastTenth), of(Reduce::Whole), of(Reduce::Max)), (19.5, 10.5, 20.0));
        assert_eq!((of(Reduce::First), of(Reduce::Sum)), (1.0, 210.0));
        assert_eq!(Reduce::Whole.apply(&[], 1), None);
    }

    #[test]
    fn a_second_reduction_reads_the_same_series() {
        let initial =
            MetricInfo::new("share", "share", "A share.").reduced_by(Reduce::Whole).initial().prefixed("clip");
        assert_eq!(
            (initial.name.as_str(), initial.series(), initial.reduce),
            ("clip.share_initial", "clip.share", Some(Reduce::First))
        );
        assert_eq!(MetricInfo::new("share", "share", "A share.").prefixed("clip_2").series(), "clip_2.share");
    }
}
