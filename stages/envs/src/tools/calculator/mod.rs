//! Implements the tool `calculator`, which evaluates one arithmetic expression exactly, in this process.
//!
//! Precedence and signs of `+ - * / // % **` are those of Python. Unlike in Python, results are exact (`0.1+0.2` is
//! `0.3`) and whole results have no `.0`.

mod expression;

pub use expression::evaluate;

use crate::tools::tool::text_argument;
use crate::tools::{AgentTool, PendingToolResult, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// Description for the model and the documentation page.
pub const DOC: &str = "Evaluates one arithmetic expression exactly: + - * / // % ** and parentheses on integers \
and decimals. No names, no functions.";

pub struct Calculator;

impl AgentTool for Calculator {
    fn name(&self) -> &'static str {
        "calculator"
    }
    fn specs(&self) -> Vec<ToolSpec> {
        vec![ToolSpec {
            name: self.name().to_string(),
            description: DOC.to_string(),
            parameters: json!({
                "type": "object",
                "properties": {"expression": {"type": "string", "description": "for example (12+7)*3/4"}},
                "required": ["expression"],
            }),
        }]
    }
    fn open(&self, _host: &Arc<ToolHost>, _limits: &ToolLimits) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(CalculatorSession))
    }
}

/// Session without state.
struct CalculatorSession;

impl ToolSession for CalculatorSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        let result = text_argument("calculator", "expression", arguments).map(evaluate);
        PendingToolResult::ready(match result {
            Err(error) => error,
            Ok(Ok(number)) => ToolResult::ok(number.to_string()),
            Ok(Err(message)) => ToolResult::error(message),
        })
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self))
    }
}
