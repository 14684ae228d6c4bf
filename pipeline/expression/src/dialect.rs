//! Defines the switches in which the uses of the language differ.

use super::functions::BuiltinFunction;

/// Form of the language in one use.
#[derive(Debug, Clone, Copy)]
pub struct ExpressionDialect {
    /// Whether every value is a 64-bit float: numbers may be written `.5` and `1.`, whole numbers are floats as well,
    /// and strings, lists, keys, `true`, `false` and `null` do not exist. [`crate::ScopeName::Value`] is then `f64`.
    pub numbers: bool,
    /// Whether `and`, `or` and `not` are spellings of `&&`, `||` and `!`. `not` applies to a whole comparison:
    /// `not a == b` is `!(a == b)`.
    pub words: bool,
    /// Functions, sorted by name.
    pub functions: &'static [BuiltinFunction],
    /// Maximum number of tokens; bounds the depth of a chain such as `1 + 1 + …`, which nests to the left.
    pub most_tokens: usize,
    /// Maximum number of levels of operands; parentheses have a separate limit, [`crate::MAX_DEPTH`].
    pub deepest: usize,
}

impl ExpressionDialect {
    /// Finds a function by name.
    pub fn function(&self, name: &str) -> Option<BuiltinFunction> {
        self.functions.iter().copied().find(|f| f.name() == name)
    }
}
