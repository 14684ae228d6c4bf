//! The tools of the shop: names, arguments and effects as in tau2-bench's retail domain, written anew from its policy, database and
//! tasks. A file for each subject, a line for each tool in [`TOOLS`].
//!
//! Three results are other than those of its program, which is at odds with its policy there: several items that are changed at once get
//! their own prices and options (there, those of the last one); of two equal items that are changed to different ones each gets its own
//! (there, the first is changed twice); a cancelled order is refunded what is still paid (there, refunds are refunded, too). The tools allow
//! what the policy leaves to the agent (confirmation, identity). Refuses: arguments that a tool does not know.

mod arguments;
mod delivered;
mod general;
mod items;
mod lookup;
mod pending;
mod tool;

pub use arguments::Arguments;
pub use general::TRANSFER;
pub use tool::{Said, ServiceTool};

use crate::tools::ToolSpec;

/// All tools, sorted.
pub static TOOLS: [&ServiceTool; 16] = [
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

/// The tool of a name.
pub fn tool(name: &str) -> Option<&'static ServiceTool> {
    TOOLS.into_iter().find(|t| t.name == name)
}

/// As the agent is told about them.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS.iter().map(|t| t.spec()).collect()
}

#[cfg(test)]
mod tests;
