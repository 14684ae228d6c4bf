//! All tools of this build: one line each, sorted.

use crate::tools::{Tool, calculator, python};
use trainyard_core::{Error, Result};

/// Every tool, by name.
pub fn tools() -> Vec<Box<dyn Tool>> {
    vec![Box::new(calculator::Calculator), Box::new(python::Python)]
}

/// Sorted names.
pub fn names() -> Vec<&'static str> {
    tools().iter().map(|t| t.name()).collect()
}

/// The tool of a name.
pub fn tool(name: &str) -> Result<Box<dyn Tool>> {
    let found = tools().into_iter().find(|t| t.name() == name);
    found.ok_or_else(|| {
        Error::invalid(format!("no tool `{name}` in this build")).help(format!("use one of: {}", names().join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let names = names();
        assert!(names.is_sorted());
        for name in names {
            let tool = tool(name).unwrap();
            assert_eq!(tool.spec().name, name);
            assert!(tool.spec().main_argument().is_some(), "{name}");
        }
        assert!(tool("abacus").is_err());
    }
}
