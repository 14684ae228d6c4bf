//! Implements the tools that use no records: arithmetic, and the transfer of the conversation to a person.

use super::arguments::ShopToolArguments;
use super::tool::{ShopTool, ToolOutput, text};
use crate::environments::customer_service::database::Shop;
use crate::tools::calculator::evaluate;

/// The tool that hands the conversation to a person.
pub const TRANSFER: &str = "transfer_to_human_agents";

pub static CALCULATE: ShopTool = ShopTool {
    name: "calculate",
    description: "Calculates an expression of numbers, + - * / and parentheses, rounded to two places.",
    parameters: &[text("expression", "such as (2 + 3) * 4.5")],
    changes: false,
    run: calculate,
};

pub static TRANSFER_TOOL: ShopTool = ShopTool {
    name: TRANSFER,
    description: "Hands the conversation to a person, if the customer asks for one or if rules and tools do not allow \
                  what they need.",
    parameters: &[text("summary", "what the customer wants")],
    changes: false,
    run: transfer,
};

fn calculate(_shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    let expression = arguments.text("expression")?;
    if let Some(c) = expression.chars().find(|c| !(c.is_ascii_digit() || "+-*/(). ".contains(*c))) {
        return Err(format!("`{c}` cannot stand in an expression"));
    }
    let value = evaluate(expression)?.to_f64();
    // Always with a point, as Python prints floats.
    Ok(format!("{:?}", (value * 100.0).round() / 100.0))
}

fn transfer(_shop: &mut Shop, arguments: &ShopToolArguments<'_>) -> ToolOutput {
    arguments.text("summary")?;
    Ok("Transfer successful".to_string())
}
