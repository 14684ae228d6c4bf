//! Defines the values that expressions compute with. This module implements them for JSON values, and
//! [`super::numbers`] for floats.

use super::functions::BuiltinFunction;
use super::operators::{BinaryOperator, UnaryOperator};
use super::value::index;
use serde_json::Value;

/// A kind of values, and the operators and functions on it.
pub trait ExpressionValue: Clone {
    /// Converts a literal.
    fn known(literal: &Value) -> Self;
    /// Returns the value of a missing name.
    fn null() -> Self;
    /// Makes a list.
    fn list(items: Vec<Self>) -> Self;
    /// Whether `default` replaces the value.
    fn is_null(&self) -> bool;
    /// Returns the truth of a condition; `None` for a value that is neither true nor false.
    fn truth(&self) -> Option<bool>;
    /// Indexes a list or a map. Errors, as texts: an incorrect type, a missing item.
    fn index(&self, at: &Self) -> Result<Self, String>;
    /// Applies an operator. Errors, as texts: an incorrect type, a result out of range.
    fn unary(operator: UnaryOperator, operand: &Self) -> Result<Self, String>;
    /// Applies an operator to both sides. Errors, as texts: incorrect types, a result out of range.
    fn binary(operator: BinaryOperator, a: &Self, b: &Self) -> Result<Self, String>;
    /// Calls a function. Errors, as texts: incorrect types, a result out of range.
    fn call(function: BuiltinFunction, arguments: &[Self]) -> Result<Self, String>;
}

/// Values of exact types: ints are not floats, truth is a bool, and a result that is not finite is an error.
impl ExpressionValue for Value {
    fn known(literal: &Value) -> Self {
        literal.clone()
    }
    fn null() -> Self {
        Self::Null
    }
    fn list(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
    fn is_null(&self) -> bool {
        Value::is_null(self)
    }
    fn truth(&self) -> Option<bool> {
        self.as_bool()
    }
    fn index(&self, at: &Self) -> Result<Self, String> {
        index(self, at)
    }
    fn unary(operator: UnaryOperator, operand: &Self) -> Result<Self, String> {
        operator.apply(operand)
    }
    fn binary(operator: BinaryOperator, a: &Self, b: &Self) -> Result<Self, String> {
        operator.apply(a, b)
    }
    fn call(function: BuiltinFunction, arguments: &[Self]) -> Result<Self, String> {
        function.call(arguments)
    }
}
