//! The methods of `data/synthesize`: one line each, sorted.

use super::method::Method;
use trainyard_api::{Family, slot};

/// What every page of a method says.
const DOC: &str = "A method of `data/synthesize`. What it makes and which options it reads stands in \
    `trainyard stages data/synthesize`.";

const METHODS: [&dyn Method; 2] = [&super::annotated::AnnotatedMethod, &super::procedural::Procedural];

/// The methods of this crate.
pub fn family() -> Family<&'static dyn Method> {
    slot::constants("synthesize", "method", METHODS.into_iter().map(|m| (m.name(), m.summary(), DOC, m)))
}

/// The method of this name.
#[cfg(test)]
pub fn method(name: &str) -> Option<&'static dyn Method> {
    METHODS.into_iter().find(|m| m.name() == name)
}

/// All names, sorted.
#[cfg(test)]
pub fn names() -> Vec<&'static str> {
    METHODS.iter().map(|m| m.name()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn methods_are_sorted() {
        assert!(super::names().is_sorted());
    }
}
