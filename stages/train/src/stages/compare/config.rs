//! Defines the options of `compare`, and checks them against each other and against the wired inputs.

use super::arm_metric::{ArmMetric, MetricSource};
use super::metrics::ProblemMetric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PreparedOptions;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};

/// Options of `compare`: `a` and `b` name two models of `results`, `metrics` what is compared between two arms; both at
/// once are fine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CompareConfig {
    /// Metric to compare between two models: `accuracy`, `avg`, `pass_at_<k>`, `pass_hat_<k>`, `maj_at_<k>`,
    /// `weighted_maj_at_<k>_<min|product|last>`, `best_of_<k>_<min|product|last>`, `likeliest_of_<k>`, `reward`,
    /// `tool_calls`, `tool_errors`, `turns` or `tokens`.
    #[serde(default = "accuracy")]
    pub metric: String,
    /// The model whose value comes first. Write `2/rl` for the model `rl` of the second table if several tables use the
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// The model that is subtracted.
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
    /// The two arms that are compared, `[treatment, baseline]`, out of more that are wired; the second is subtracted.
    /// Needed where `reports` or `trajectories` take more than two.
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
    /// Returns the two models of `results`, `a` first, or `None` unless both are set.
    pub fn models(&self) -> Option<(&str, &str)> {
        self.a.as_deref().zip(self.b.as_deref())
    }

    /// Returns the names of both arms, `a` first.
    pub fn arm_names(&self) -> (&str, &str) {
        match self.arms.as_slice() {
            [a, b] => (a, b),
            _ => (&self.names.a, &self.names.b),
        }
    }

    /// Returns the indexes of both arms among `wired` artifacts, `a` first. Errors: invalid, if the arms are not wired.
    pub fn arm_places(&self, wired: usize) -> Result<(usize, usize)> {
        let place = |name: &String| self.order.iter().position(|n| n == name).filter(|place| *place < wired);
        match (self.arms.as_slice(), wired) {
            ([], 2) => Ok((1, 0)),
            ([], _) => Err(Error::invalid(format!("two arms are compared, but {wired} are wired")).help(
                "wire the baseline's first, then the treatment's, or name two with `arms: [treatment, baseline]`",
            )),
            ([a, b], _) => place(a).zip(place(b)).ok_or_else(|| {
                let names = self.order[..wired.min(self.order.len())].join(", ");
                Error::invalid(format!("`{a}` and `{b}` are not both among the {wired} wired arms: {names}"))
                    .help("`order` names them in the order of the matrix")
            }),
            _ => Err(Error::invalid("`arms` takes two names").help("write `arms: [treatment, baseline]`")),
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
                let problem = OptionProblem::new("/a", format!("`a` names model `{a}`, but `b` is not set"));
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
        if self.arms.len() == 1 || self.arms.len() > 2 || self.arms.len() == 2 && self.arms[0] == self.arms[1] {
            let problem = OptionProblem::new("/arms", "`arms` takes two different names");
            problems.push(problem.help("write `arms: [treatment, baseline]`"));
        }
        for (i, arm) in self.arms.iter().enumerate().filter(|(_, arm)| !self.order.contains(arm)) {
            let problem = OptionProblem::new(format!("/arms/{i}"), format!("no arm is called `{arm}`"));
            problems.push(problem.help(format!("`order` names them: {}", self.order.join(", "))));
        }
        if self.pool && self.models().is_none() {
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
            } else if self.models().is_some() && *name == self.metric {
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
        match (self.models(), count("results")) {
            (Some(_), 0) => {
                let problem =
                    OptionProblem::new("/a", "`a` and `b` name models of `results`, but `results` is not wired");
                problems.push(problem.help("wire it to the output `results` of `evaluate`"));
            }
            (None, tables) if tables > 0 => {
                let problem = OptionProblem::new("/results", "`results` is wired, but no two models are named");
                problems.push(problem.help("name them with `a` and `b`"));
            }
            _ => {}
        }
        if self.pool && count("results") == 1 {
            let problem = OptionProblem::new("/pool", "`pool` needs several tables, but one is wired to `results`");
            problems.push(problem.help("evaluate in a stage with a matrix of seeds, or leave `pool` out"));
        }
        for port in ["reports", "trajectories"] {
            let arms = count(port);
            let places = self.arm_places(arms);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn config(options: Value) -> CompareConfig {
        serde_json::from_value(options).unwrap()
    }
    fn wired(counts: &[(&str, usize)]) -> WiredInputs {
        counts.iter().map(|(port, n)| ((*port).to_string(), *n)).collect()
    }

    #[test]
    fn options_of_older_files_keep_their_json() {
        let old = config(json!({"a": "rl", "b": "sft"}));
        assert_eq!(serde_json::to_value(&old).unwrap(), json!({"metric": "accuracy", "a": "rl", "b": "sft"}));
        assert_eq!((old.problems(), old.problems_with(&wired(&[("results", 2)]))), (vec![], vec![]));
    }

    #[test]
    fn contradictory_options_are_refused() {
        let places = |options: Value| config(options).problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>();
        assert_eq!(places(json!({})), [""]);
        assert_eq!(places(json!({"a": "rl"})), ["/a"]);
        assert_eq!(places(json!({"b": "rl"})), ["/b"]);
        assert_eq!(places(json!({"metric": "loss", "a": "x", "b": "y"})), ["/metric"]);
        let names = ["kl", "Kl", "kl", "rewards.answer", "rewards_answer", "report.kl", "report."];
        assert_eq!(places(json!({"metrics": names})), ["/metrics/1", "/metrics/2", "/metrics/6"]);
        assert_eq!(places(json!({"metrics": ["kl"], "names": {"a": "x", "b": "x"}})), ["/names"]);
        assert_eq!(places(json!({"metrics": ["kl"], "a": "rl", "b": "sft"})), [""; 0]);
    }

    #[test]
    fn arms_are_chosen_by_name_among_those_that_are_wired() {
        let places = |options: Value, wired: usize| config(options).arm_places(wired).map_err(|e| e.message);
        assert_eq!(places(json!({}), 2), Ok((1, 0)));
        assert!(places(json!({}), 3).unwrap_err().contains("3 are wired"));
        assert_eq!(places(json!({"arms": ["placebo", "baseline"]}), 3), Ok((2, 0)));
        assert!(places(json!({"arms": ["placebo", "baseline"]}), 2).unwrap_err().contains("not both among"));
        assert_eq!(places(json!({"arms": ["x", "y"], "order": ["y", "z", "x"]}), 3), Ok((2, 0)));
        let pointers = |options: Value| config(options).problems().into_iter().map(|p| p.pointer).collect::<Vec<_>>();
        assert_eq!(pointers(json!({"metrics": ["kl"], "arms": ["treatment"]})), ["/arms"]);
        assert_eq!(pointers(json!({"metrics": ["kl"], "arms": ["treatment", "basline"]})), ["/arms/1"]);
        assert_eq!(pointers(json!({"metrics": ["kl"], "pool": true})), ["/pool"]);
    }

    #[test]
    fn models_and_arms_cannot_share_a_row() {
        let both = |metrics: &[&str]| json!({"metric": "reward", "a": "rl", "b": "sft", "metrics": metrics});
        let problems = config(both(&["kl", "reward"])).problems();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!(problem.pointer, "/metrics/1");
        assert!(problem.help.as_ref().is_some_and(|h| h.contains("`report.reward`")), "{problem:?}");
        assert!(config(both(&["kl", "report.reward"])).problems().is_empty());
        assert!(config(json!({"metric": "reward", "metrics": ["reward"]})).problems().is_empty(), "no models, no row");
    }

    #[test]
    fn contradictory_wiring_is_refused() {
        let places = |options: Value, counts: &[(&str, usize)]| {
            let problems = config(options).problems_with(&wired(counts));
            problems.into_iter().map(|p| p.pointer).collect::<Vec<_>>()
        };
        assert_eq!(places(json!({"a": "rl", "b": "sft"}), &[]), ["/a"]);
        assert_eq!(places(json!({"metrics": ["kl"]}), &[("results", 1), ("reports", 2)]), ["/results"]);
        assert_eq!(places(json!({"metrics": ["kl"]}), &[]), ["/metrics/0"]);
        assert_eq!(places(json!({"metrics": ["kl"]}), &[("reports", 3)]), ["/reports"]);
        assert_eq!(places(json!({"metrics": ["void", "kl"]}), &[("trajectories", 2)]), ["/metrics/1"]);
        assert_eq!(
            places(json!({"metrics": ["void", "kl"]}), &[("reports", 2)]),
            [""; 0],
            "a report may hold any name"
        );
        assert_eq!(places(json!({"metrics": ["rewards.answer"]}), &[("reports", 2)]), ["/metrics/0"]);
        assert_eq!(places(json!({"a": "rl", "b": "sft"}), &[("results", 1), ("trajectories", 2)]), ["/trajectories"]);
        assert_eq!(places(json!({"metrics": ["void", "kl"]}), &[("reports", 2), ("trajectories", 2)]), [""; 0]);
    }
}
