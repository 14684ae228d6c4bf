//! Implements floats as the values of expressions: true is 1 and false is 0, and values may be infinite or NaN.
//!
//! The dialect `numbers` has no other values, so only functions of lists and strings can meet a wrong type here.

use super::domain::ExpressionValue;
use super::functions::BuiltinFunction;
use super::operators::{BinaryOperator, UnaryOperator};
use serde_json::Value;

/// Values of 64-bit floats; every operation has a result, as in IEEE 754.
impl ExpressionValue for f64 {
    fn known(literal: &Value) -> Self {
        literal.as_f64().unwrap_or(Self::NAN)
    }
    fn null() -> Self {
        Self::NAN
    }
    fn list(_: Vec<Self>) -> Self {
        Self::NAN
    }
    fn is_null(&self) -> bool {
        false
    }
    fn truth(&self) -> Option<bool> {
        Some(*self != 0.0)
    }
    fn index(&self, _: &Self) -> Result<Self, String> {
        Err("a number cannot be indexed".to_string())
    }
    fn unary(operator: UnaryOperator, operand: &Self) -> Result<Self, String> {
        Ok(match operator {
            UnaryOperator::Not => truth(*operand == 0.0),
            UnaryOperator::Negate => -operand,
        })
    }
    fn binary(operator: BinaryOperator, a: &Self, b: &Self) -> Result<Self, String> {
        Ok(match operator {
            BinaryOperator::Or => truth(*a != 0.0 || *b != 0.0),
            BinaryOperator::And => truth(*a != 0.0 && *b != 0.0),
            BinaryOperator::Equal => truth(a == b),
            BinaryOperator::Unequal => truth(a != b),
            BinaryOperator::Less => truth(a < b),
            BinaryOperator::LessEqual => truth(a <= b),
            BinaryOperator::Greater => truth(a > b),
            BinaryOperator::GreaterEqual => truth(a >= b),
            BinaryOperator::Add => a + b,
            BinaryOperator::Subtract => a - b,
            BinaryOperator::Multiply => a * b,
            BinaryOperator::Divide => a / b,
            BinaryOperator::Remainder => a % b,
        })
    }
    fn call(function: BuiltinFunction, arguments: &[Self]) -> Result<Self, String> {
        match (function, arguments) {
            (BuiltinFunction::Abs, [a]) => Ok(a.abs()),
            (BuiltinFunction::Sqrt, [a]) => Ok(a.sqrt()),
            (BuiltinFunction::If, [condition, then, other]) => Ok(if *condition != 0.0 { *then } else { *other }),
            (BuiltinFunction::Max, all) => Ok(all.iter().copied().fold(Self::NEG_INFINITY, Self::max)),
            (BuiltinFunction::Min, all) => Ok(all.iter().copied().fold(Self::INFINITY, Self::min)),
            _ => Err(format!("`{}` takes {}, found numbers", function.name(), function.takes())),
        }
    }
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
