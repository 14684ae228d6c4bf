//! Defines the options of `data/select`.

use crate::facts;
use crate::filter::rules::decontaminate::Decontaminate;
use crate::identity::Half;
use crate::row_expression::{self, RowTable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PreparedOptions;
use trainyard_core::{Facts, OptionProblem, WiredInputs};

/// Options of `data/select`. A row must pass all of them; `per_level` and `limit` come last, in this order.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelectConfig {
    /// Keep the problems of these splits.
    #[schemars(length(min = 1))]
    pub splits: Option<Vec<String>>,
    /// Keep the problems of these levels.
    #[schemars(length(min = 1))]
    pub levels: Option<Vec<u32>>,
    /// Keep one half of the problems, by the first bit of the SHA-256 of the question: 0 is `a`, 1 is `b`.
    pub half: Option<Half>,
    /// A SQL expression over the columns of the problems: id, answer, environment, level, source, split, canonical, ….
    pub r#where: Option<String>,
    /// Keep only problems that overlap none of the input `evaluation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decontaminate: Option<Decontaminate>,
    /// Keep at most this many problems of each level, the first ones.
    #[schemars(range(min = 1))]
    pub per_level: Option<u64>,
    /// Keep at most this many problems, the first ones.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

impl PreparedOptions for SelectConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let config = self;
        let mut problems = Vec::new();
        for (name, zero) in [("per_level", config.per_level == Some(0)), ("limit", config.limit == Some(0))] {
            if zero {
                problems
                    .push(OptionProblem::new(format!("/{name}"), "0 selects no problems").help("leave it out for all"));
            }
        }
        for (name, empty) in [
            ("splits", config.splits.as_ref().is_some_and(Vec::is_empty)),
            ("levels", config.levels.as_ref().is_some_and(Vec::is_empty)),
        ] {
            if empty {
                problems.push(
                    OptionProblem::new(format!("/{name}"), "an empty list selects nothing")
                        .help("leave it out for all"),
                );
            }
        }
        let fault = config.decontaminate.as_ref().and_then(Decontaminate::fault);
        problems.extend(fault.map(|fault| OptionProblem::new("/decontaminate", fault)));
        let expression = config.r#where.iter();
        problems.extend(expression.flat_map(|text| row_expression::problems(RowTable::Problems, "/where", text)));
        problems
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let warnings = |text| row_expression::warnings(RowTable::Problems, "/where", text, inputs, "problems");
        self.r#where.as_deref().map(warnings).unwrap_or_default()
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let config = self;
        let evaluation = inputs.get("evaluation").is_some_and(|n| *n > 0);
        match (&config.decontaminate, evaluation) {
            (Some(_), false) => {
                let problem = OptionProblem::new("/decontaminate", "no evaluation problems to decontaminate against");
                vec![problem.help("wire the input `evaluation`")]
            }
            (None, true) => {
                let problem = OptionProblem::new("/evaluation", "the input `evaluation` is wired but not used");
                vec![problem.help("set `decontaminate`, for example to `{methods: [canonical, ngram_13]}`")]
            }
            _ => Vec::new(),
        }
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        facts::of_rows(inputs, "problems", ["problems"])
    }
}
