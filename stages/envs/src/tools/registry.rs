//! The tools of this room: one line each, sorted.

use crate::tools::{Tool, calculator, mcp, process, python};
use serde_json::Value;
use trainyard_api::{Family, PartKind};
use trainyard_core::Result;

type Line = PartKind<dyn Tool>;

/// The tools of this crate.
pub fn family() -> Family<dyn Tool> {
    let members = vec![
        Line::plain("calculator", "one arithmetic expression, exactly", calculator::DOC, |()| {
            Ok(Box::new(calculator::Calculator))
        }),
        Line::new::<mcp::McpOptions>(|options, ()| Ok(Box::new(mcp::McpTool(options)))),
        Line::new::<process::ProcessToolOptions>(|options, ()| Ok(Box::new(process::Process(options)))),
        Line::new::<python::PythonOptions>(|options, ()| Ok(Box::new(python::Python(options)))),
    ];
    Family::new("tools", "tool", members)
}

/// Sorted names.
pub fn names() -> Vec<&'static str> {
    family().names()
}

/// The tool of a name. Errors: invalid, with the valid names.
pub fn tool(name: &str) -> Result<Box<dyn Tool>> {
    family().build(&Value::from(name), &())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let names = names();
        assert!(names.is_sorted());
        // Of these, only a program knows the tools.
        for name in names.into_iter().filter(|name| !["mcp", "process"].contains(name)) {
            let tool = tool(name).unwrap();
            let [spec] = tool.specs().try_into().unwrap();
            assert!(spec.name == name && spec.main_argument().is_some(), "{name}");
        }
        assert!(tool("abacus").is_err());
    }
}
