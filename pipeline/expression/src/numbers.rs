//! Floats as the values of expressions: truth is 1 and 0, and values may be infinite or undefined.
//!
//! The dialect `numbers` has no other values, so nothing here has a wrong type but a function of lists and strings.

use super::domain::Domain;
use super::functions::Function;
use super::operators::{Binary, Unary};
use serde_json::Value;

/// Values of 64-bit floats; every operation has a result, as in IEEE 754.
impl Domain for f64 {
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
    fn unary(operator: Unary, operand: &Self) -> Result<Self, String> {
        Ok(match operator {
            Unary::Not => truth(*operand == 0.0),
            Unary::Negate => -operand,
        })
    }
    fn binary(operator: Binary, a: &Self, b: &Self) -> Result<Self, String> {
        Ok(match operator {
            Binary::Or => truth(*a != 0.0 || *b != 0.0),
            Binary::And => truth(*a != 0.0 && *b != 0.0),
            Binary::Equal => truth(a == b),
            Binary::Unequal => truth(a != b),
            Binary::Less => truth(a < b),
            Binary::LessEqual => truth(a <= b),
            Binary::Greater => truth(a > b),
            Binary::GreaterEqual => truth(a >= b),
            Binary::Add => a + b,
            Binary::Subtract => a - b,
            Binary::Multiply => a * b,
            Binary::Divide => a / b,
            Binary::Remainder => a % b,
        })
    }
    fn call(function: Function, arguments: &[Self]) -> Result<Self, String> {
        match (function, arguments) {
            (Function::Abs, [a]) => Ok(a.abs()),
            (Function::Sqrt, [a]) => Ok(a.sqrt()),
            (Function::If, [condition, then, other]) => Ok(if *condition != 0.0 { *then } else { *other }),
            (Function::Max, all) => Ok(all.iter().copied().fold(Self::NEG_INFINITY, Self::max)),
            (Function::Min, all) => Ok(all.iter().copied().fold(Self::INFINITY, Self::min)),
            _ => Err(format!("`{}` takes {}, found numbers", function.name(), function.takes())),
        }
    }
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}
