//! Defines the options of `data/pairs`.

use crate::row_expression::{self, RowTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PreparedOptions;
use trainyard_core::{OptionProblem, WiredInputs};

/// Criterion for the better row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairCriterion {
    /// The reward of the row, or one component of it.
    #[default]
    Reward,
    /// The lowest score of its steps.
    ProcessMin,
    /// The product of the scores of its steps.
    ProcessProduct,
    /// The score of its last step.
    ProcessLast,
}

/// Where the rows of a pair end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairCut {
    /// Where the episodes ended.
    #[default]
    End,
    /// After the first step in which they differ: the pair contrasts one step after a common prefix.
    Step,
}

/// Options of `data/pairs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PairsConfig {
    /// Criterion for the better row: `reward`, or the step scores of a process reward model, reduced to their lowest
    /// (`process_min`), product (`process_product`) or last one (`process_last`).
    pub by: PairCriterion,
    /// Reward component that is compared, such as `answer`; null = the reward itself.
    pub component: Option<String>,
    /// Minimum difference by which the chosen row is better.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub min_gap: f64,
    /// Maximum pairs of one problem, so that no problem outweighs the others.
    #[schemars(range(min = 1))]
    pub per_problem: usize,
    /// Where the rows of a pair end: `end`, or after the first `step` in which they differ (step-level preferences).
    pub cut: PairCut,
    /// A SQL expression over the columns of the trajectories, such as `id like 'evaluate/sft/%'`: other rows are left
    /// out.
    pub r#where: Option<String>,
    /// Share of the pairs whose labels are exchanged: noise for testing a loss, and at 0.5 a placebo.
    #[schemars(range(min = 0, max = 1))]
    pub flip: f64,
    /// Seed of the choice of pairs, and of the flipped ones.
    pub seed: u64,
}

impl Default for PairsConfig {
    fn default() -> Self {
        Self {
            by: PairCriterion::Reward,
            component: None,
            min_gap: 0.5,
            per_problem: 4,
            cut: PairCut::End,
            r#where: None,
            flip: 0.0,
            seed: 0,
        }
    }
}

impl PreparedOptions for PairsConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let gap = OptionProblem::out_of_range("/min_gap", self.min_gap, trainyard_core::above(0.0));
        let per_problem = OptionProblem::out_of_range("/per_problem", self.per_problem, 1..);
        let flip = OptionProblem::out_of_range("/flip", self.flip, 0.0..=1.0);
        let unread = (self.by != PairCriterion::Reward && self.component.is_some()).then(|| {
            OptionProblem::new("/component", "rows are compared by step scores, which have no components")
                .help("leave it out, or use `by: reward`")
        });
        let expression = |text| row_expression::problems(RowTable::Trajectories, "/where", text);
        let unknown = self.r#where.as_deref().map(expression).unwrap_or_default();
        [gap, per_problem, flip, unread].into_iter().flatten().chain(unknown).collect()
    }
    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let warnings = |text| row_expression::warnings(RowTable::Trajectories, "/where", text, inputs, "trajectories");
        self.r#where.as_deref().map(warnings).unwrap_or_default()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let none = inputs.get("trajectories").copied().unwrap_or(0) == 0;
        let problem = || {
            OptionProblem::new("/trajectories", "input `trajectories` is not wired")
                .help("wire it to the trajectories of `evaluate`, `rl` or `prm`")
        };
        none.then(problem).into_iter().collect()
    }
}
