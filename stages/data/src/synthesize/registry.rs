//! The methods of `data/synthesize`: one line each, sorted.

use super::method::Method;
use super::own::OwnMethod;
use trainyard_api::{Family, PartKind, slot};
use trainyard_envs::programs::ServiceOptions;
use trainyard_process::ProgramOptions;

const METHODS: [&dyn Method; 5] = [
    &super::annotated::AnnotatedMethod,
    &OwnMethod::<ServiceOptions>::METHOD,
    &super::procedural::Procedural,
    &OwnMethod::<ProgramOptions>::METHOD,
    &super::teacher::TeacherMethod,
];

/// Returns the methods of this crate.
pub fn family() -> Family<&'static dyn Method> {
    Family::new("synthesize", "method", METHODS.into_iter().map(line).collect())
}

/// Returns the entry of a method.
pub fn line(method: &'static dyn Method) -> PartKind<&'static dyn Method> {
    slot::constant(method.name(), method.summary(), method.doc(), method)
}

/// Returns the methods of a family, in its order.
pub fn methods(family: &Family<&'static dyn Method>) -> Vec<&'static dyn Method> {
    family.names().into_iter().filter_map(|name| family.build(&name.into(), &()).ok()).map(|method| *method).collect()
}

/// Returns the method of this name.
#[cfg(test)]
pub fn method(name: &str) -> Option<&'static dyn Method> {
    METHODS.into_iter().find(|m| m.name() == name)
}

/// Returns all names, sorted.
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
