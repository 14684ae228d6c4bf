//! What an expression may read from outside of it.

use serde_json::Value;
use trainyard_core::Of;

/// Where the values of references come from. `None` = not known here.
pub trait Scope {
    /// Value of a parameter.
    fn param(&self, _name: &str) -> Option<Value> {
        None
    }
    /// Value on an axis of `matrix`.
    fn matrix(&self, _axis: &str) -> Option<Value> {
        None
    }
    /// The row or item of `for_each`.
    fn item(&self) -> Option<Value> {
        None
    }
    /// A metric of a stage instance's manifest (a list of numbers, in order, if `stage` is a late fan-out; instances
    /// that were skipped are left out). `None` also where the stage did not report it.
    fn metric(&self, _stage: &str, _name: &str, _of: Option<Of>) -> Option<Value> {
        None
    }
    /// How a stage instance ended: `succeeded`, `failed`, `skipped`, `blocked` or `cancelled`.
    fn status(&self, _stage: &str) -> Option<Value> {
        None
    }
}
