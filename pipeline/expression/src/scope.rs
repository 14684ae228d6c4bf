//! Defines the source of the values that an expression reads from outside.

use super::name::ScopeName;

/// Source of the values of names.
pub trait Scope<N: ScopeName> {
    /// Returns the value of a name; `None` if the value is not known.
    fn value(&self, name: &N) -> Option<N::Value>;
}
