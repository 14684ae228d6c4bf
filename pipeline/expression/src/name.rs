//! Defines the names of one use of the language: how they are parsed and printed, and their types.

use super::dialect::ExpressionDialect;
use super::domain::ExpressionValue;
use super::fault::ExpressionError;
use super::functions::BuiltinFunction;
use super::types::ExprType;
use super::words::TokenReader;
use std::fmt::{Debug, Display};
use std::ops::Range;

/// A name of a value from outside an expression. Prints as text that is read back as the same name.
pub trait ScopeName: Clone + PartialEq + Debug + Display {
    /// Values of these names and of everything computed from them.
    type Value: ExpressionValue;
    /// Form of the language.
    const DIALECT: ExpressionDialect;

    /// Reads the name that begins with the word `root` at `range`; `words` are those after it. Fails if no name begins
    /// so.
    fn read(root: &str, range: &Range<usize>, words: &mut TokenReader) -> Result<Self, ExpressionError>;
    /// Creates the fault of a call of a function that the dialect does not have.
    fn no_function(name: &str, range: &Range<usize>) -> ExpressionError;

    /// Returns the type, as far as it is known without the value.
    fn type_of(&self) -> ExprType {
        ExprType::Any
    }
    /// Whether `default` and `== null` accept that the value is missing.
    fn may_be_missing(&self) -> bool {
        false
    }
    /// Whether a dot and a word after the name are read as a part of it, not as a key.
    fn takes_word(&self) -> bool {
        false
    }
    /// Creates the fault of a name whose value the scope does not have.
    fn unknown(&self, range: &Range<usize>) -> ExpressionError {
        ExpressionError::new(range, format!("`{self}` is not known here"))
    }
    /// Creates the fault of a call with an incorrect number of arguments.
    fn wrong_number(function: BuiltinFunction, found: usize, range: &Range<usize>) -> ExpressionError {
        ExpressionError::new(
            range,
            format!("`{}` takes {}, found {found} arguments", function.name(), function.takes()),
        )
    }
}
