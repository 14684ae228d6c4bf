//! The names of one use of the language: which there are, how they are read, and their types.

use super::dialect::Dialect;
use super::domain::Domain;
use super::fault::Fault;
use super::functions::Function;
use super::types::Type;
use super::words::Words;
use std::fmt::{Debug, Display};
use std::ops::Range;

/// A name of a value from outside an expression. Prints as text that is read back as the same name.
pub trait Name: Clone + PartialEq + Debug + Display {
    /// Values of these names and of everything computed from them.
    type Value: Domain;
    /// Form of the language.
    const DIALECT: Dialect;

    /// Reads the name that begins with the word `root` at `range`; `words` are those after it. Fails if no name begins
    /// so.
    fn read(root: &str, range: &Range<usize>, words: &mut Words) -> Result<Self, Fault>;
    /// Creates the fault of a call of a function that the dialect does not have.
    fn no_function(name: &str, range: &Range<usize>) -> Fault;

    /// Returns the type, as far as it is known without the value.
    fn type_of(&self) -> Type {
        Type::Any
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
    fn unknown(&self, range: &Range<usize>) -> Fault {
        Fault::new(range, format!("`{self}` is not known here"))
    }
    /// Creates the fault of a call with a wrong number of arguments.
    fn wrong_number(function: Function, found: usize, range: &Range<usize>) -> Fault {
        Fault::new(range, format!("`{}` takes {}, found {found} arguments", function.name(), function.takes()))
    }
}
