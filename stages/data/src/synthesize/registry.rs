//! Lists the methods of `data/synthesize`, one line each, sorted.

use super::custom::CustomMethod;
use super::method::SynthesisMethod;
use trainyard_api::{Family, PartKind, slot};
use trainyard_envs::programs::ServiceOptions;
use trainyard_process::ProgramOptions;

const METHODS: [&dyn SynthesisMethod; 5] = [
    &super::annotated::AnnotatedMethod,
    &CustomMethod::<ServiceOptions>::METHOD,
    &super::procedural::Procedural,
    &CustomMethod::<ProgramOptions>::METHOD,
    &super::teacher::TeacherMethod,
];

/// Returns the methods of this crate.
pub fn family() -> Family<&'static dyn SynthesisMethod> {
    Family::new("synthesize", "method", METHODS.into_iter().map(line).collect())
}

/// Returns the registry entry of a method.
pub fn line(method: &'static dyn SynthesisMethod) -> PartKind<&'static dyn SynthesisMethod> {
    slot::constant(method.name(), method.summary(), method.doc(), method)
}

/// Returns the methods of a family, in its order.
pub fn methods(family: &Family<&'static dyn SynthesisMethod>) -> Vec<&'static dyn SynthesisMethod> {
    family.names().into_iter().filter_map(|name| family.build(&name.into(), &()).ok()).map(|method| *method).collect()
}

/// Returns the method called `name`, or `None` if this crate has no such method.
#[cfg(test)]
pub fn method(name: &str) -> Option<&'static dyn SynthesisMethod> {
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
