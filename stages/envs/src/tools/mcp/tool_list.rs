//! Keeps the list of a server's tools from its first start in the stage.
//!
//! Every later start, of the same server or of another one for the next episode, must offer the same tools. A tool that
//! is missing or changed would make the rollouts of one stage incomparable.

use super::options::McpOptions;
use crate::tools::{ToolSpec, difference};
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// Tools of one server, common to all its starts.
pub struct McpToolList {
    allow: Vec<String>,
    prefix: String,
    known: Mutex<Option<Vec<ToolSpec>>>,
}

impl McpToolList {
    /// Returns a list without known tools.
    pub fn new(options: &McpOptions) -> Self {
        Self { allow: options.allow.clone(), prefix: options.prefix.clone(), known: Mutex::default() }
    }
    /// Checks the tools that a server listed against the known tools, or stores them if none are known. Returns the
    /// names of new tools, which are not offered.
    ///
    /// The error describes the tools that are missing or changed, or reports an empty list.
    pub fn check_or_store(&self, listed: Vec<ToolSpec>) -> Result<Vec<String>, String> {
        let offered = self.offered(listed)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known_tools) = &*known else {
            *known = Some(offered);
            return Ok(Vec::new());
        };
        let is_known = |tool: &ToolSpec| known_tools.iter().any(|old| old.name == tool.name);
        let (old, new): (Vec<ToolSpec>, Vec<ToolSpec>) = offered.into_iter().partition(is_known);
        match difference(known_tools, &old) {
            None => Ok(new.into_iter().map(|tool| tool.name).collect()),
            Some(changes) => Err(format!("its tools differ from those at the start of the stage: {changes}")),
        }
    }
    /// Returns the allowed tools, in the order of the options.
    fn offered(&self, listed: Vec<ToolSpec>) -> Result<Vec<ToolSpec>, String> {
        let mut chosen = Vec::new();
        for name in &self.allow {
            let Some(tool) = listed.iter().find(|tool| tool.name == *name) else {
                let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_str()).collect();
                return Err(format!("it offers no tool `{name}`, only: {}", names.join(", ")));
            };
            chosen.push(tool.clone());
        }
        let mut offered = if self.allow.is_empty() { listed } else { chosen };
        if offered.is_empty() {
            return Err("it lists no tools".to_string());
        }
        for tool in &mut offered {
            tool.name = format!("{}{}", self.prefix, tool.name);
        }
        Ok(offered)
    }
    /// Returns the known tools in the form of a user program's `ready`.
    pub fn ready(&self) -> Value {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        json!({"tools": known.as_deref().unwrap_or_default()})
    }
    /// Returns the name of a tool at the server, without the prefix.
    pub fn server_name<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(&self.prefix).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, argument: &str) -> ToolSpec {
        let parameters = json!({"type": "object", "properties": {argument: {"type": "string"}}});
        ToolSpec { name: name.into(), description: String::new(), parameters }
    }

    #[test]
    fn changed_tools_of_a_server_are_reported() {
        let listing = McpToolList::new(&McpOptions::default());
        assert_eq!(listing.check_or_store(vec![tool("a", "x"), tool("b", "x")]), Ok(vec![]));
        assert_eq!(listing.check_or_store(vec![tool("b", "x"), tool("a", "x"), tool("c", "x")]), Ok(vec!["c".into()]));
        let error = listing.check_or_store(vec![tool("a", "y")]).unwrap_err();
        assert!(error.ends_with("start of the stage: `a` has other parameters, `b` is missing"), "{error}");
        assert_eq!(listing.ready()["tools"].as_array().unwrap().len(), 2, "new tools are not offered");
    }

    #[test]
    fn only_allowed_tools_are_offered() {
        let options = McpOptions { allow: vec!["b".into(), "a".into()], prefix: "x_".into(), ..McpOptions::default() };
        let listing = McpToolList::new(&options);
        listing.check_or_store(vec![tool("a", "x"), tool("b", "x"), tool("c", "x")]).unwrap();
        let ready = listing.ready();
        assert_eq!((&ready["tools"][0]["name"], &ready["tools"][1]["name"]), (&json!("x_b"), &json!("x_a")));
        assert_eq!((listing.server_name("x_b"), ready["tools"].as_array().unwrap().len()), ("b", 2));
        let error = McpToolList::new(&options).check_or_store(vec![tool("a", "x"), tool("c", "x")]).unwrap_err();
        assert_eq!(error, "it offers no tool `b`, only: a, c");
        assert_eq!(McpToolList::new(&McpOptions::default()).check_or_store(vec![]).unwrap_err(), "it lists no tools");
    }
}
