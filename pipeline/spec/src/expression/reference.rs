//! Defines the names of `${{ … }}` and prints them as text.

use std::fmt::{Display, Formatter, Result};
use trainyard_core::ComparisonField;
use trainyard_expression::member;

/// A name of a value from outside the expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExprReference {
    /// `params.<name>`.
    Param(String),
    /// `matrix.<axis>`.
    Matrix(String),
    /// `item` of a `for_each`.
    Item,
    /// Local path of an input; `run` stages only.
    Input(String),
    /// Local path of an output; `run` stages only.
    Output(String),
    /// `stages.<id>.<port>`.
    Artifact {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
        /// Name of the output port.
        port: String,
    },
    /// `stages.<id>.metrics.<name>`, known after the stage has ended.
    Metric {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
        /// Name of the metric or comparison.
        name: String,
        /// Number of a comparison.
        of: Option<ComparisonField>,
    },
    /// `stages.<id>.status`, known after the stage has ended.
    Status {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
    },
}

impl Display for ExprReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Param(name) => write!(f, "params{}", member(name)),
            Self::Matrix(axis) => write!(f, "matrix{}", member(axis)),
            Self::Item => f.write_str("item"),
            Self::Input(port) => write!(f, "inputs{}", member(port)),
            Self::Output(port) => write!(f, "outputs{}", member(port)),
            Self::Artifact { stage, port } => write!(f, "stages{}{}", member(stage), member(port)),
            Self::Metric { stage, name, of } => {
                write!(f, "stages{}.metrics{}", member(stage), member(name))?;
                of.map_or(Ok(()), |of| write!(f, ".{}", of.name()))
            }
            Self::Status { stage } => write!(f, "stages{}.status", member(stage)),
        }
    }
}
