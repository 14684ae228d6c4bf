//! Values that an expression reads from outside.

use super::name::Name;

/// Source of the values of names.
pub trait Scope<N: Name> {
    /// Returns the value of a name; `None` if it is not known here.
    fn value(&self, name: &N) -> Option<N::Value>;
}
