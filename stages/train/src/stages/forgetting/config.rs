//! Defines the options of `forgetting`, and checks them against each other and against the inputs.

use crate::results::ResultRow;
use crate::stages::compare::ProblemMetric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PreparedOptions;
use trainyard_core::{OptionProblem, WiredInputs};

/// Options of `forgetting`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForgettingConfig {
    /// Tasks in the order of training, at least two.
    pub tasks: Vec<ForgettingTask>,
    /// Models in the same order: the first was trained on the first task, the second then on the second one, and so on.
    /// Write `2/rl` for the model `rl` of the second table if several tables use the name.
    pub models: Vec<String>,
    /// Model before the first task. With it, the report also contains the gain from training on each task.
    pub initial: Option<String>,
    /// Metric of the matrix: `accuracy`, `avg`, `pass_at_<k>`, `pass_hat_<k>`, `maj_at_<k>`,
    /// `weighted_maj_at_<k>_<min|product|last>` or `best_of_<k>_<min|product|last>`, as in `compare`.
    pub metric: String,
}

/// A set of problems: those of some levels, those whose id begins with a prefix, or those that meet both conditions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ForgettingTask {
    /// Part of metric names: lower-case letters, digits and `_`.
    pub name: String,
    /// Levels of the task's problems; empty = all.
    pub levels: Vec<u32>,
    /// Prefix of the ids of the task's problems; empty = all.
    pub id_prefix: String,
}

impl Default for ForgettingConfig {
    fn default() -> Self {
        Self { tasks: Vec::new(), models: Vec::new(), initial: None, metric: "accuracy".into() }
    }
}

impl ForgettingTask {
    /// Returns whether the row's problem belongs to the task.
    pub fn holds(&self, row: &ResultRow) -> bool {
        (self.levels.is_empty() || self.levels.contains(&row.level)) && row.problem_id.starts_with(&self.id_prefix)
    }
    /// Returns whether the options alone show that two tasks share problems. Other overlaps are found in the tables.
    fn overlaps(&self, other: &Self) -> bool {
        let inside = |a: &Self, b: &Self| a.id_prefix.starts_with(&b.id_prefix);
        let nested = inside(self, other) || inside(other, self);
        match (self.levels.is_empty(), other.levels.is_empty()) {
            (true, true) => nested,
            (false, false) => nested && self.levels.iter().any(|l| other.levels.contains(l)),
            (true, false) => inside(other, self),
            (false, true) => inside(self, other),
        }
    }
}

impl PreparedOptions for ForgettingConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }

    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        match ProblemMetric::parse(&self.metric) {
            Err(e) => problems.push(OptionProblem { pointer: "/metric".into(), message: e.message, help: e.help }),
            Ok(ProblemMetric::Mean(_)) => {
                let problem =
                    OptionProblem::new("/metric", format!("`{}` is not a share of right answers", self.metric));
                problems.push(problem.help("use `accuracy`, `avg` or another metric of right answers"));
            }
            Ok(_) => {}
        }
        if self.tasks.len() < 2 {
            let problem = OptionProblem::new(
                "/tasks",
                format!("forgetting takes at least two tasks, but there are {}", self.tasks.len()),
            );
            problems.push(problem.help("write `tasks: [{name: …, levels: […]}, …]` in the order of training"));
        }
        if self.models.len() != self.tasks.len() {
            let message = format!("there are {} tasks, but {} models", self.tasks.len(), self.models.len());
            problems.push(
                OptionProblem::new("/models", message).help("name one model per task: the model after training on it"),
            );
        }
        problems.extend(self.tasks.iter().enumerate().filter_map(|(i, task)| self.problem_of_task(i, task)));
        for (i, name) in self.models.iter().enumerate().filter(|(i, name)| self.models[..*i].contains(name)) {
            let problem = OptionProblem::new(format!("/models/{i}"), format!("model `{name}` is named twice"));
            problems.push(problem.help("write `1/rl` and `2/rl` for models of one name in two tables"));
        }
        if let Some(initial) = self.initial.as_ref().filter(|name| self.models.contains(name)) {
            let problem = OptionProblem::new("/initial", format!("`{initial}` is also named as a model after a task"));
            problems.push(problem.help("name the model before the first task, or leave `initial` out"));
        }
        problems
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        if inputs.get("results").copied().unwrap_or(0) > 0 {
            return Vec::new();
        }
        vec![
            OptionProblem::new("/results", "input `results` is not wired")
                .help("wire it to the output `results` of `evaluate`"),
        ]
    }
}

impl ForgettingConfig {
    fn problem_of_task(&self, i: usize, task: &ForgettingTask) -> Option<OptionProblem> {
        let name = &task.name;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            let problem =
                OptionProblem::new(format!("/tasks/{i}/name"), format!("`{name}` cannot be part of a metric name"));
            return Some(problem.help("use lower-case letters, digits and `_`"));
        }
        if task.levels.is_empty() && task.id_prefix.is_empty() {
            let problem = OptionProblem::new(format!("/tasks/{i}"), format!("task `{name}` selects no problems"));
            return Some(problem.help("set `levels`, `id_prefix` or both"));
        }
        let earlier = &self.tasks[..i];
        if earlier.iter().any(|other| other.name == *name) {
            return Some(
                OptionProblem::new(format!("/tasks/{i}/name"), format!("two tasks are called `{name}`"))
                    .help("give every task a name"),
            );
        }
        let other = earlier.iter().find(|other| other.overlaps(task))?;
        let problem =
            OptionProblem::new(format!("/tasks/{i}"), format!("tasks `{}` and `{name}` share problems", other.name));
        Some(problem.help("a problem belongs to one task; give them other levels or prefixes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn places(options: Value) -> Vec<String> {
        serde_json::from_value::<ForgettingConfig>(options).unwrap().problems().into_iter().map(|p| p.pointer).collect()
    }
    fn tasks(second: Value) -> Value {
        json!({"tasks": [{"name": "add", "levels": [1, 2]}, second], "models": ["a", "b"]})
    }

    #[test]
    fn contradictory_options_are_refused() {
        assert_eq!(places(tasks(json!({"name": "mul", "levels": [3]}))), [""; 0]);
        assert_eq!(places(json!({})), ["/tasks"]);
        assert_eq!(places(tasks(json!({"name": "Mul", "levels": [3]}))), ["/tasks/1/name"]);
        assert_eq!(places(tasks(json!({"name": "add", "levels": [3]}))), ["/tasks/1/name"]);
        assert_eq!(places(tasks(json!({"name": "mul"}))), ["/tasks/1"]);
        assert_eq!(places(tasks(json!({"name": "mul", "levels": [2, 3]}))), ["/tasks/1"]);
        assert_eq!(
            places(tasks(json!({"name": "mul", "id_prefix": "x"}))),
            [""; 0],
            "overlaps by prefix are found in the tables"
        );
        let inside = json!([{"name": "all", "id_prefix": "a"}, {"name": "some", "id_prefix": "ab", "levels": [1]}]);
        assert_eq!(places(json!({"tasks": inside, "models": ["a", "b"]})), ["/tasks/1"]);
        let one = json!([{"name": "add", "levels": [1]}]);
        assert_eq!(places(json!({"tasks": one, "models": ["a"]})), ["/tasks"]);
        let two = json!([{"name": "add", "id_prefix": "a"}, {"name": "mul", "id_prefix": "m", "levels": [1]}]);
        assert_eq!(places(json!({"tasks": two, "models": ["a", "b"]})), [""; 0]);
        assert_eq!(places(json!({"tasks": two, "models": ["a"]})), ["/models"]);
        assert_eq!(places(json!({"tasks": two, "models": ["a", "a"]})), ["/models/1"]);
        assert_eq!(places(json!({"tasks": two, "models": ["a", "b"], "initial": "b"})), ["/initial"]);
        for metric in ["tokens", "loss"] {
            assert_eq!(places(json!({"tasks": two, "models": ["a", "b"], "metric": metric})), ["/metric"]);
        }
    }

    #[test]
    fn a_table_must_be_wired() {
        let config = ForgettingConfig::default();
        assert_eq!(config.problems_with(&WiredInputs::new())[0].pointer, "/results");
        assert_eq!(config.problems_with(&WiredInputs::from([("results".to_string(), 1)])), []);
    }

    #[test]
    fn task_contains_problems_that_meet_both_conditions() {
        let task = ForgettingTask { name: "t".into(), levels: vec![2], id_prefix: "wp".into() };
        let row = |id: &str, level: u32| ResultRow { problem_id: id.into(), level, ..ResultRow::default() };
        assert!(task.holds(&row("wp2-x", 2)) && !task.holds(&row("wp2-x", 1)) && !task.holds(&row("gsm8k-1", 2)));
    }
}
