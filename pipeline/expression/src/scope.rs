//! Defines the source of the values that an expression reads from outside.

use super::name::ScopeName;

/// Source of the values of names.
pub trait Scope<N: ScopeName> {
    /// Returns the value of a name; `None` if it is not known here.
    fn value(&self, name: &N) -> Option<N::Value>;
}
