//! The methods of `data/synthesize`: one line each, sorted.

use super::method::Method;

const METHODS: [&dyn Method; 2] = [&super::annotated::AnnotatedMethod, &super::procedural::Procedural];

/// The method of this name.
pub fn method(name: &str) -> Option<&'static dyn Method> {
    METHODS.into_iter().find(|m| m.name() == name)
}

/// All names, sorted.
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
