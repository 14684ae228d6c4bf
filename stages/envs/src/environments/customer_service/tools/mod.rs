//! Implements the shop's tools. Their names, arguments and effects are those of tau2-bench's retail domain, written
//! anew from its policy, database and tasks.
//!
//! Three results differ from tau2-bench's program, which contradicts its own policy. If several items change at once,
//! each gets its own price and options; in tau2-bench, all get those of the last item. If two equal items change to
//! different variants, each gets its variant; in tau2-bench, the first item changes twice. A cancelled order refunds
//! the paid amount less earlier refunds; tau2-bench refunds the refunds, too. The tools do not enforce the rules that
//! the policy leaves to the agent: confirmation and identification.

mod arguments;
mod delivered;
mod general;
mod items;
mod lookup;
mod pending;
mod tool;

pub use arguments::ShopToolArguments;
pub use general::TRANSFER;
pub use tool::{ShopTool, ToolOutput};

use crate::tools::ToolSpec;

/// All tools, sorted.
pub static TOOLS: [&ShopTool; 16] = [
    &general::CALCULATE,
    &pending::CANCEL,
    &delivered::EXCHANGE,
    &lookup::USER_BY_EMAIL,
    &lookup::USER_BY_NAME,
    &lookup::ITEM,
    &lookup::ORDER_DETAILS,
    &lookup::PRODUCT,
    &lookup::USER,
    &lookup::PRODUCT_TYPES,
    &pending::ADDRESS,
    &pending::ITEMS,
    &pending::PAYMENT,
    &pending::USER_ADDRESS,
    &delivered::RETURN,
    &general::TRANSFER_TOOL,
];

pub fn tool(name: &str) -> Option<&'static ShopTool> {
    TOOLS.into_iter().find(|t| t.name == name)
}

/// Returns the descriptions of all tools for the agent.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS.iter().map(|t| t.spec()).collect()
}

#[cfg(test)]
mod tests;
