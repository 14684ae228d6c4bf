//! Values that an expression reads from outside.

use serde_json::Value;
use trainyard_core::ComparisonField;

/// Source of the values of references. `None` means not known here.
pub trait ExprScope {
    /// Returns the value of a parameter.
    fn param(&self, _name: &str) -> Option<Value> {
        None
    }
    /// Returns the value on an axis of `matrix`.
    fn matrix(&self, _axis: &str) -> Option<Value> {
        None
    }
    /// Returns the row or item of `for_each`.
    fn item(&self) -> Option<Value> {
        None
    }
    /// Returns a metric of a stage instance's manifest (for a late fan-out a list of numbers, in order, without skipped
    /// instances). `None` also if the stage did not report it.
    fn metric(&self, _stage: &str, _name: &str, _of: Option<ComparisonField>) -> Option<Value> {
        None
    }
    /// Returns the final status of a stage instance: `succeeded`, `failed`, `skipped`, `blocked` or `cancelled`.
    fn status(&self, _stage: &str) -> Option<Value> {
        None
    }
}
