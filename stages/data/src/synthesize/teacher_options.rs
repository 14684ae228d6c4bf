//! Defines the options of the method `teacher`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_chat::ChatOptions;
use trainyard_core::OptionProblem;
use trainyard_envs::players::ModelCallMode;

/// Options of the method `teacher`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Teacher {
    /// The model: `{endpoint: URL, model: NAME}`.
    pub model: ChatOptions,
    /// Form of its tool calls.
    #[serde(skip_serializing_if = "ModelCallMode::is_default")]
    pub calls: ModelCallMode,
    /// Maximum episodes of every problem.
    #[schemars(range(min = 1, max = 1024))]
    pub samples: u32,
    /// Right episodes that become demonstrations.
    pub keep: TeacherKeepPolicy,
}

impl Default for Teacher {
    fn default() -> Self {
        Self {
            model: ChatOptions::default(),
            calls: ModelCallMode::default(),
            samples: 1,
            keep: TeacherKeepPolicy::First,
        }
    }
}

/// Right episodes of a problem that become demonstrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TeacherKeepPolicy {
    /// The first; a solved problem is not played again.
    #[default]
    First,
    /// All; every problem is played `samples` times.
    All,
}

impl Teacher {
    /// Returns all problems of the options; pointers are into the options of the stage.
    pub fn problems(&self) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            self.model.problems().into_iter().map(|problem| problem.with_prefix("/teacher/model")).collect();
        problems.extend(OptionProblem::out_of_range("/teacher/samples", self.samples, 1..=1024));
        if self.samples > 1 && self.model.temperature == Some(0.0) {
            let message = "greedy episodes of one problem are all equal";
            let problem = OptionProblem::new("/teacher/model/temperature", message);
            problems.push(problem.help("use a temperature above 0, or `samples: 1`"));
        }
        problems
    }
}
