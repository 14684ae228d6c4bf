//! Defines the options of `compare`, and checks them against each other and against the wired inputs.

use super::arm_metric::{ArmMetric, MetricSource};
use super::known_models;
use super::metrics::ProblemMetric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PreparedOptions;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};

/// Options of `compare`: `a` and `b` name models of `results`, `metrics` what is compared between arms; both at once
/// are fine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareConfig {
    /// Metric to compare between two models: `accuracy`, `avg`, `pass_at_<k>`, `pass_hat_<k>`, `maj_at_<k>`,
    /// `weighted_maj_at_<k>_<min|product|last>`, `best_of_<k>_<min|product|last>`, `likeliest_of_<k>`, `reward`,
    /// `tool_calls`, `tool_errors`, `turns` or `tokens`.
    #[serde(default = "accuracy")]
    pub metric: String,
    /// The model whose value comes first, or a list of models that are each compared with `b`. Write `2/rl` for the
    /// model `rl` of the second table if several tables use the name. `sft[lr=0.003]`, without the axis `seed` of a
    /// matrix, is an arm: its seeds are pooled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<ModelNames>,
    /// The model or arm that is subtracted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
    /// Metrics to compare between two arms: those of their `trajectories` (`reward`, `correct`, `tool_calls`,
    /// `tool_errors`, `turns`, `tokens`, `void`, `rewards.<component>`, `tokens_per_distinct_answer`,
    /// `tool_calls_per_correct`), or any other metric of their `reports`; `report.<name>` is always the report's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Names of the arms in the report.
    #[serde(default, skip_serializing_if = "ArmNames::is_default")]
    pub names: ArmNames,
    /// Reward component that marks right answers: an answer is right if the component is at least 1.
    #[serde(default = "answer", skip_serializing_if = "is_answer")]
    pub correct: String,
    /// The arms that are compared, `[treatment, baseline]` or more, out of those that are wired; the last is subtracted
    /// from each other one. Needed where `reports` or `trajectories` take more than two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<String>,
    /// Names of the wired arms, in the order of the matrix; `arms` chooses among them.
    #[serde(default = "order", skip_serializing_if = "is_order")]
    pub order: Vec<String>,
    /// Whether every table of `results` is one training seed: the difference is the mean over seeds, its interval
    /// Student's t over seeds. Without it, `a` and `b` are each found in one table.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pool: bool,
}

/// One model, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelNames {
    /// One model.
    One(String),
    /// Several models, each compared with the same one.
    Several(Vec<String>),
}

impl ModelNames {
    /// Returns the names.
    pub fn as_slice(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

/// Two arms of a port: their names, and their places among the wired artifacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArmChoice<'c> {
    /// Name of the arm whose value comes first.
    pub a: &'c str,
    /// Name of the arm that is subtracted.
    pub b: &'c str,
}

/// Names of the arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArmNames {
    /// The second artifact of a port; its value comes first.
    pub a: String,
    /// The first artifact of a port; it is subtracted.
    pub b: String,
}

impl Default for ArmNames {
    fn default() -> Self {
        Self { a: "treatment".into(), b: "baseline".into() }
    }
}

impl ArmNames {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn accuracy() -> String {
    "accuracy".into()
}
fn order() -> Vec<String> {
    ["baseline", "treatment", "placebo"].map(String::from).to_vec()
}
fn is_order(names: &[String]) -> bool {
    names == order()
}
fn answer() -> String {
    "answer".into()
}
fn is_answer(name: &str) -> bool {
    name == "answer"
}

impl CompareConfig {
    /// Returns the pairs of models of `results`, `a` first; none unless both are set.
    pub fn models(&self) -> Vec<(&str, &str)> {
        let pairs = self.a.as_ref().zip(self.b.as_deref());
        pairs.into_iter().flat_map(|(a, b)| a.as_slice().iter().map(move |a| (a.as_str(), b))).collect()
    }

    /// Returns the names of models, each with its pointer.
    fn named_models(&self) -> Vec<(String, &str)> {
        let pointer = |place: usize| match self.a {
            Some(ModelNames::Several(_)) => format!("/a/{place}"),
            _ => "/a".to_string(),
        };
        let a = self.a.iter().flat_map(|a| a.as_slice().iter().enumerate());
        let a = a.map(|(place, name)| (pointer(place), name.as_str()));
        a.chain(self.b.iter().map(|b| ("/b".to_string(), b.as_str()))).collect()
    }

    /// Returns the pairs of arms.
    pub fn arm_pairs(&self) -> Vec<ArmChoice<'_>> {
        match self.arms.split_last() {
            Some((b, others)) => others.iter().map(|a| ArmChoice { a, b }).collect(),
            None => vec![ArmChoice { a: &self.names.a, b: &self.names.b }],
        }
    }

    /// Returns the name of a row: that of the metric, with `a` after it if one of `pairs` others has the metric too.
    pub fn row_name(metric: &str, a: &str, pairs: usize) -> String {
        if pairs > 1 { format!("{metric}_{a}") } else { metric.to_string() }
    }

    /// Returns the indexes of both arms among `wired` artifacts, `a` first. Errors: invalid, if the arms are not wired.
    pub fn arm_places(&self, wired: usize, pair: ArmChoice<'_>) -> Result<(usize, usize)> {
        let place = |name: &str| self.order.iter().position(|n| n == name).filter(|place| *place < wired);
        match (self.arms.is_empty(), wired) {
            (true, 2) => Ok((1, 0)),
            (true, _) => Err(Error::invalid(format!("two arms are compared, but {wired} are wired")).help(
                "wire the baseline's first, then the treatment's, or name them with `arms: [treatment, baseline]`",
            )),
            (false, _) => place(pair.a).zip(place(pair.b)).ok_or_else(|| {
                let names = self.order[..wired.min(self.order.len())].join(", ");
                Error::invalid(format!(
                    "`{}` and `{}` are not both among the {wired} wired arms: {names}",
                    pair.a, pair.b
                ))
                .help("`order` names them in the order of the matrix")
            }),
        }
    }
}

impl PreparedOptions for CompareConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> = Vec::new();
        if let Err(e) = ProblemMetric::parse(&self.metric) {
            problems.push(OptionProblem { pointer: "/metric".into(), message: e.message, help: e.help });
        }
        match (&self.a, &self.b) {
            (Some(a), None) => {
                let names = a.as_slice().join("`, `");
                let problem = OptionProblem::new("/a", format!("`a` names model `{names}`, but `b` is not set"));
                problems.push(problem.help("name the other model with `b`"));
            }
            (None, Some(b)) => {
                let problem = OptionProblem::new("/b", format!("`b` names model `{b}`, but `a` is not set"));
                problems.push(problem.help("name the other model with `a`"));
            }
            (None, None) if self.metrics.is_empty() => {
                let problem = OptionProblem::new("", "nothing is compared");
                problems.push(problem.help("name two models of `results` with `a` and `b`, or `metrics` of two arms"));
            }
            _ => {}
        }
        if self.arms.len() == 1 || has_twice(&self.arms) {
            let problem = OptionProblem::new("/arms", "`arms` takes two or more different names");
            problems.push(problem.help("write `arms: [treatment, baseline]`"));
        }
        if let Some(ModelNames::Several(names)) = &self.a
            && (names.is_empty() || has_twice(names) || self.b.as_ref().is_some_and(|b| names.contains(b)))
        {
            let problem = OptionProblem::new("/a", "`a` takes one or more different names, without that of `b`");
            problems.push(problem.help("`b` is subtracted from each of them"));
        }
        for (i, arm) in self.arms.iter().enumerate().filter(|(_, arm)| !self.order.contains(arm)) {
            let problem = OptionProblem::new(format!("/arms/{i}"), format!("no arm is called `{arm}`"));
            problems.push(problem.help(format!("`order` names them: {}", self.order.join(", "))));
        }
        if self.pool && self.models().is_empty() {
            let problem = OptionProblem::new("/pool", "`pool` is set, but no two models are named");
            problems.push(problem.help("name them with `a` and `b`"));
        }
        if self.names.a == self.names.b {
            problems.push(
                OptionProblem::new("/names", format!("both arms are called `{}`", self.names.a))
                    .help("give the arms different names"),
            );
        }
        for (i, name) in self.metrics.iter().enumerate() {
            let at = format!("/metrics/{i}");
            if let Err(e) = ArmMetric::parse(name) {
                problems.push(OptionProblem { pointer: at, message: e.message, help: e.help });
                continue;
            }
            if self.metrics[..i].contains(name) {
                problems
                    .push(OptionProblem::new(at, format!("metric `{name}` is listed twice")).help("keep one of them"));
            } else if !self.models().is_empty() && *name == self.metric {
                // The two metrics have different data and different values, so a check of `name` could mean either.
                let message = format!("metric `{name}` is also the `metric` of the two models");
                problems.push(OptionProblem::new(at, message).help(format!(
                    "compare the arms in a separate stage, or write `report.{name}` for the metric of their reports"
                )));
            }
        }
        problems
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let count = |port: &str| inputs.get(port).copied().unwrap_or(0);
        let mut problems = Vec::new();
        match (!self.models().is_empty(), count("results")) {
            (true, 0) => {
                let problem =
                    OptionProblem::new("/a", "`a` and `b` name models of `results`, but `results` is not wired");
                problems.push(problem.help("wire it to the output `results` of `evaluate`"));
            }
            (false, tables) if tables > 0 => {
                let problem = OptionProblem::new("/results", "`results` is wired, but no two models are named");
                problems.push(problem.help("name them with `a` and `b`"));
            }
            _ => {}
        }
        if self.pool && count("results") == 1 {
            let problem = OptionProblem::new("/pool", "`pool` needs several tables, but one is wired to `results`");
            problems.push(problem.help("evaluate in a stage with a matrix of seeds, or leave `pool` out"));
        }
        problems.extend(known_models::unknown(&self.named_models(), self.pool, inputs));
        for port in ["reports", "trajectories"] {
            let arms = count(port);
            let places = self.arm_pairs().into_iter().try_for_each(|pair| self.arm_places(arms, pair).map(|_| ()));
            if arms > 0
                && let Err(e) = places
            {
                problems.push(OptionProblem { pointer: format!("/{port}"), message: e.message, help: e.help });
            } else if arms > 0 && self.metrics.is_empty() {
                let message = format!("`{port}` is wired, but no metrics are listed");
                problems.push(OptionProblem::new(format!("/{port}"), message).help("set `metrics`"));
            }
        }
        let (reports, trajectories) = (count("reports") > 0, count("trajectories") > 0);
        for (i, name) in self.metrics.iter().enumerate() {
            let Ok(metric) = ArmMetric::parse(name) else { continue };
            if metric.origin(reports, trajectories).is_none() {
                let (source, help) = match metric.given() {
                    MetricSource::Trajectories(_) => ("trajectories", "wire `trajectories` to those of both arms"),
                    MetricSource::Report(_) => ("reports", "wire `reports` to those of both arms"),
                };
                let message = format!("metric `{name}` needs `{source}`, which is not wired");
                problems.push(OptionProblem::new(format!("/metrics/{i}"), message).help(help));
            }
        }
        problems
    }
}

fn has_twice(names: &[String]) -> bool {
    names.iter().enumerate().any(|(i, name)| names[..i].contains(name))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
