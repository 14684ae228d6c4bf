//! How the names of `${{ … }}` are read: `params.steps`, `stages.gate.metrics.accuracy`.

use super::reference::Reference;
use crate::diagnostic::suggest;
use serde_json::Value;
use std::ops::Range;
use trainyard_core::Of;
use trainyard_expression::{DEEPEST, Dialect, Fault, Function, Name, Type, Words};

const ROOTS: [&str; 9] = ["params", "matrix", "item", "inputs", "outputs", "stages", "true", "false", "null"];
const FUNCTIONS: [Function; 7] = [
    Function::Contains,
    Function::Default,
    Function::Join,
    Function::Len,
    Function::Max,
    Function::Min,
    Function::StartsWith,
];

impl Name for Reference {
    type Value = Value;
    const DIALECT: Dialect =
        Dialect { numbers: false, words: false, functions: &FUNCTIONS, most_tokens: 1_000, deepest: DEEPEST };

    fn read(root: &str, range: &Range<usize>, words: &mut Words) -> Result<Self, Fault> {
        Ok(match root {
            "item" => Self::Item,
            "params" => Self::Param(words.member(range, "params.<name>")?),
            "matrix" => Self::Matrix(words.member(range, "matrix.<axis>")?),
            "inputs" => Self::Input(words.member(range, "inputs.<port>")?),
            "outputs" => Self::Output(words.member(range, "outputs.<port>")?),
            "stages" => stage(range, words)?,
            _ => {
                let fault = Fault::new(range, format!("`{root}` is not a root of an expression"));
                return Err(Fault { help: suggest(root, ROOTS.into_iter().chain(functions())), ..fault });
            }
        })
    }
    fn no_function(name: &str, range: &Range<usize>) -> Fault {
        Fault { help: suggest(name, functions()), ..Fault::new(range, format!("there is no function `{name}`")) }
    }
    fn type_of(&self) -> Type {
        match self {
            Self::Metric { .. } => Type::Float,
            Self::Status { .. } => Type::String,
            Self::Artifact { .. } => Type::Artifact,
            _ => Type::Any,
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
    fn unknown(&self, range: &Range<usize>) -> Fault {
        let fault = Fault::new(range, format!("`{self}` is not known here"));
        match self {
            Self::Metric { .. } => {
                fault.help("the stage did not report this metric; `default(…, 0)` gives a value for that case")
            }
            _ => fault,
        }
    }
}

fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.into_iter().map(Function::name)
}

/// Parses `stages.<id>.<port>`, `.metrics.<name>`, `.metrics.<name>.<number of a comparison>` or `.status`.
fn stage(root: &Range<usize>, words: &mut Words) -> Result<Reference, Fault> {
    let stage = words.member(root, "stages.<id>.<port>")?;
    let port = words.member(root, "stages.<id>.<port>, stages.<id>.metrics.<name> or stages.<id>.status")?;
    Ok(match port.as_str() {
        "metrics" => {
            let name = words.member(root, "stages.<id>.metrics.<name>")?;
            Reference::Metric { stage, of: number_of(&name, words)?, name }
        }
        "status" => Reference::Status { stage },
        _ => Reference::Artifact { stage, port },
    })
}

/// Parses `.difference` and similar after the name of a comparison.
fn number_of(metric: &str, words: &mut Words) -> Result<Option<Of>, Fault> {
    if words.take(".").is_none() {
        return Ok(None);
    }
    let (word, range) = words.name("which number of a comparison")?;
    Of::parse(&word).map(Some).ok_or_else(|| {
        Fault::new(&range, format!("`{word}` is no number of a comparison")).help(format!(
            "use one of {}; a name with a dot is written `metrics[\"{metric}.{word}\"]`",
            Of::NAMES.join(", ")
        ))
    })
}
