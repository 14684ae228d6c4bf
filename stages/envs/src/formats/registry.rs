//! All tool-call formats of this build: one line each, sorted.

use crate::formats::{ToolFormat, code, hermes, toolrl};
use crate::tools::ToolSpec;
use serde_json::json;
use trainyard_core::{Error, Result};

type Build = fn(&[ToolSpec]) -> Result<Box<dyn ToolFormat>>;

/// A format and one line about it.
struct Line {
    name: &'static str,
    summary: &'static str,
    build: Build,
}

const FORMATS: &[Line] = &[
    Line {
        name: "code",
        summary: "raw code between the tags, for one tool",
        build: |tools| Ok(Box::new(code::Code::new(tools)?)),
    },
    Line {
        name: "hermes",
        summary: "one JSON object between the tags for each call",
        build: |_| Ok(Box::new(hermes::Hermes)),
    },
    Line {
        name: "toolrl",
        summary: "JSON objects in one block behind thoughts, or a response",
        build: |_| Ok(Box::new(toolrl::ToolRl)),
    },
];

/// Sorted names.
pub fn names() -> Vec<&'static str> {
    FORMATS.iter().map(|line| line.name).collect()
}

/// Each name with one line about it.
pub fn summaries() -> Vec<(&'static str, &'static str)> {
    FORMATS.iter().map(|line| (line.name, line.summary)).collect()
}

/// The schema of an option that names a format, for `schema_with`.
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    one_of(&names())
}

/// The same where every call names its tool, because there may be any tools.
pub fn schema_for_any_tools(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let named: Vec<&str> = names().into_iter().filter(|name| build(name, &[]).is_ok()).collect();
    one_of(&named)
}

fn one_of(names: &[&str]) -> schemars::Schema {
    schemars::Schema::try_from(json!({ "type": "string", "enum": names })).unwrap_or_default()
}

/// The format of a name for these tools.
pub fn build(name: &str, tools: &[ToolSpec]) -> Result<Box<dyn ToolFormat>> {
    match FORMATS.iter().find(|line| line.name == name) {
        Some(line) => (line.build)(tools),
        None => Err(Error::invalid(format!("no tool-call format `{name}` in this build"))
            .help(format!("use one of: {}", names().join(", ")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_build() {
        assert!(names().is_sorted());
        let tools = [crate::tools::registry::tool("python").unwrap().spec()];
        for name in names() {
            let format = build(name, &tools).unwrap();
            assert_eq!(format.kind(), name);
            assert!(format.describe(&tools).contains("<tool_call>"));
        }
        assert!(build("xml", &tools).is_err());
    }
}
