//! What can be set of a dialogue, and what contradicts itself.
//!
//! Refuses: nothing to call. An environment with tools of its own needs none of the registry.

use crate::environments::Latency;
use crate::formats::registry as formats;
use crate::tools::registry::{names as tool_names, tool};
use crate::tools::{ToolLimits, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::OptionProblem;

/// Options of a dialogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DialogueOptions {
    /// Tools that the agent may call: `python`, `calculator`.
    pub tools: Vec<String>,
    /// How calls are written: `code` (raw code, one tool) or `hermes` (JSON).
    pub format: String,
    /// Agent turns in one episode, the answer included.
    #[schemars(range(min = 1, max = 1000))]
    pub max_turns: u32,
    /// Tool calls in one episode.
    #[schemars(range(min = 0, max = 10_000))]
    pub max_tool_calls: u32,
    /// Text of a system message; empty = none.
    pub system: String,
    /// Put the description of the tools into the system message. A small model that is trained on one tool needs none.
    pub describe_tools: bool,
    /// Limits of one tool call.
    pub limits: ToolLimits,
    /// Holds the results of every turn with calls back for a drawn time, to try how rollouts hide slow tools; null = never. What the
    /// agent reads does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
}

impl Default for DialogueOptions {
    fn default() -> Self {
        Self {
            tools: vec!["python".to_string()],
            format: "code".to_string(),
            max_turns: 4,
            max_tool_calls: 8,
            system: String::new(),
            describe_tools: false,
            limits: ToolLimits::default(),
            latency: None,
        }
    }
}

impl DialogueOptions {
    /// Everything out of range or contradictory.
    pub fn check(&self) -> Vec<OptionProblem> {
        self.check_with(&[])
    }
    /// The same for an environment with tools of its own; then `tools` may be empty.
    pub fn check_with(&self, own: &[ToolSpec]) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (index, name) in self.tools.iter().enumerate() {
            if let Err(e) = tool(name) {
                problems.push(OptionProblem { pointer: format!("/tools/{index}"), message: e.message, help: e.help });
            } else if self.tools[..index].contains(name) {
                problems.push(OptionProblem::new(format!("/tools/{index}"), format!("tool `{name}` is listed twice")));
            }
        }
        if self.tools.is_empty() && own.is_empty() {
            problems.push(OptionProblem::new("/tools", "no tool is listed").help(format!("use some of: {}", tool_names().join(", "))));
        } else if problems.is_empty()
            && let Err(e) = formats::build(&self.format, &self.specs(own))
        {
            problems.push(OptionProblem { pointer: "/format".to_string(), message: e.message, help: e.help });
        }
        if !(1..=1000).contains(&self.max_turns) {
            problems
                .push(OptionProblem::new("/max_turns", format!("{} is out of range", self.max_turns)).help("use a value from 1 to 1000"));
        }
        if self.max_tool_calls > 10_000 {
            problems
                .push(OptionProblem::new("/max_tool_calls", format!("{} is out of range", self.max_tool_calls)).help("use at most 10000"));
        }
        problems.extend(self.limits.check("/limits"));
        problems.extend(self.latency.iter().flat_map(|latency| latency.check("/latency")));
        problems
    }
    /// Of the tools of the registry, then of these.
    pub(crate) fn specs(&self, own: &[ToolSpec]) -> Vec<ToolSpec> {
        self.tools.iter().filter_map(|name| tool(name).ok()).map(|t| t.spec()).chain(own.iter().cloned()).collect()
    }
}
