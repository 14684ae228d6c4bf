//! Parses the names of `${{ … }}`: `params.steps`, `stages.gate.metrics.accuracy`.

use super::reference::ExprReference;
use crate::diagnostic::suggest;
use serde_json::Value;
use std::ops::Range;
use trainyard_core::ComparisonField;
use trainyard_expression::{
    BuiltinFunction, ExprType, ExpressionDialect, ExpressionError, MAX_DEPTH, ScopeName, TokenReader,
};

const ROOTS: [&str; 9] = ["params", "matrix", "item", "inputs", "outputs", "stages", "true", "false", "null"];
const FUNCTIONS: [BuiltinFunction; 7] = [
    BuiltinFunction::Contains,
    BuiltinFunction::Default,
    BuiltinFunction::Join,
    BuiltinFunction::Len,
    BuiltinFunction::Max,
    BuiltinFunction::Min,
    BuiltinFunction::StartsWith,
];

impl ScopeName for ExprReference {
    type Value = Value;
    const DIALECT: ExpressionDialect = ExpressionDialect {
        numbers: false,
        words: false,
        functions: &FUNCTIONS,
        most_tokens: 1_000,
        deepest: MAX_DEPTH,
    };

    fn read(root: &str, range: &Range<usize>, words: &mut TokenReader) -> Result<Self, ExpressionError> {
        Ok(match root {
            "item" => Self::Item,
            "params" => Self::Param(words.member(range, "params.<name>")?),
            "matrix" => Self::Matrix(words.member(range, "matrix.<axis>")?),
            "inputs" => Self::Input(words.member(range, "inputs.<port>")?),
            "outputs" => Self::Output(words.member(range, "outputs.<port>")?),
            "stages" => stage(range, words)?,
            _ => {
                let fault = ExpressionError::new(range, format!("`{root}` is not a root of an expression"));
                return Err(ExpressionError { help: suggest(root, ROOTS.into_iter().chain(functions())), ..fault });
            }
        })
    }
    fn no_function(name: &str, range: &Range<usize>) -> ExpressionError {
        ExpressionError {
            help: suggest(name, functions()),
            ..ExpressionError::new(range, format!("there is no function `{name}`"))
        }
    }
    fn type_of(&self) -> ExprType {
        match self {
            Self::Metric { .. } => ExprType::Float,
            Self::Status { .. } => ExprType::String,
            Self::Artifact { .. } => ExprType::Artifact,
            _ => ExprType::Any,
        }
    }
    /// Whether it is a metric or status, known only after a stage has ended.
    fn may_be_missing(&self) -> bool {
        matches!(self, Self::Metric { .. } | Self::Status { .. })
    }
    /// Whether a dot and a name after it parse as a number of a comparison: `stages.a.metrics.m.low`.
    fn takes_word(&self) -> bool {
        matches!(self, Self::Metric { of: None, .. })
    }
    fn unknown(&self, range: &Range<usize>) -> ExpressionError {
        let fault = ExpressionError::new(range, format!("`{self}` is not known here"));
        match self {
            Self::Metric { .. } => {
                fault.help("the stage did not report this metric; `default(…, 0)` gives a value for that case")
            }
            _ => fault,
        }
    }
}

fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().map(BuiltinFunction::name)
}

/// Parses `stages.<id>.<port>`, `.metrics.<name>`, `.metrics.<name>.<number of a comparison>` or `.status`.
fn stage(root: &Range<usize>, words: &mut TokenReader) -> Result<ExprReference, ExpressionError> {
    let stage = words.member(root, "stages.<id>.<port>")?;
    let port = words.member(root, "stages.<id>.<port>, stages.<id>.metrics.<name> or stages.<id>.status")?;
    Ok(match port.as_str() {
        "metrics" => {
            let name = words.member(root, "stages.<id>.metrics.<name>")?;
            ExprReference::Metric { stage, of: number_of(&name, words)?, name }
        }
        "status" => ExprReference::Status { stage },
        _ => ExprReference::Artifact { stage, port },
    })
}

/// Parses `.difference` and similar after the name of a comparison.
fn number_of(metric: &str, words: &mut TokenReader) -> Result<Option<ComparisonField>, ExpressionError> {
    if words.take(".").is_none() {
        return Ok(None);
    }
    let (word, range) = words.name("which number of a comparison")?;
    ComparisonField::parse(&word).map(Some).ok_or_else(|| {
        ExpressionError::new(&range, format!("`{word}` is not a number of a comparison")).help(format!(
            "use one of {}; a name with a dot is written `metrics[\"{metric}.{word}\"]`",
            ComparisonField::NAMES.join(", ")
        ))
    })
}
