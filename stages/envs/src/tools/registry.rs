//! Lists the tools of this crate that options may name, one line each, sorted.

use crate::programs::{CustomCodeOptions, CustomCodePage, ServiceOptions};
use crate::tools::process::{CustomToolOptions, CustomTools, ToolRole};
use crate::tools::{AgentTool, calculator, mcp, python};
use serde_json::Value;
use trainyard_api::{Family, PartKind};
use trainyard_core::Result;
use trainyard_process::ProgramOptions;

type ToolKind = PartKind<dyn AgentTool>;

/// Returns the registry line of tools in user-defined code.
fn custom<P: CustomCodeOptions>() -> ToolKind
where
    ToolRole: CustomCodePage<P>,
{
    ToolKind::new(|options: CustomToolOptions<P>, ()| Ok(Box::new(CustomTools(options))))
}

/// Returns the tools of this crate.
pub fn family() -> Family<dyn AgentTool> {
    let members = vec![
        ToolKind::plain("calculator", "one arithmetic expression, exactly", calculator::DOC, |()| {
            Ok(Box::new(calculator::Calculator))
        }),
        custom::<ServiceOptions>(),
        ToolKind::new::<mcp::McpOptions>(|options, ()| Ok(Box::new(mcp::McpTool(options)))),
        custom::<ProgramOptions>(),
        ToolKind::new::<python::PythonOptions>(|options, ()| Ok(Box::new(python::Python(options)))),
    ];
    Family::new("tools", "tool", members)
}

/// Returns the names of the tools, sorted.
pub fn names() -> Vec<&'static str> {
    family().names()
}

/// Returns the named tool. Errors: invalid, with the valid names.
pub fn tool(name: &str) -> Result<Box<dyn AgentTool>> {
    family().build(&Value::from(name), &())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_found() {
        let names = names();
        assert!(names.is_sorted());
        // The tools of these kinds are known only to a program.
        for name in names.into_iter().filter(|name| !["http", "mcp", "process"].contains(name)) {
            let tool = tool(name).unwrap();
            let [spec] = tool.specs().try_into().unwrap();
            assert!(spec.name == name && spec.main_argument().is_some(), "{name}");
        }
        assert!(tool("abacus").is_err());
    }
}
