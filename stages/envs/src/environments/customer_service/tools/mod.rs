//! The shop's tools: names, arguments and effects as in tau2-bench's retail domain, written anew from its policy,
//! database and tasks.
//!
//! Three results differ from its program, which contradicts its own policy there. When several items change at once,
//! each gets its own price and options (there, those of the last one). Two equal items that change to different
//! variants each get theirs (there, the first changes twice). A cancelled order refunds what is still paid (there,
//! refunds are refunded, too). The tools do not enforce what the policy leaves to the agent: confirmation and identity.

mod arguments;
mod delivered;
mod general;
mod items;
mod lookup;
mod pending;

pub use arguments::Arguments;
pub use general::TRANSFER;

use super::database::Shop;
use crate::tools::ToolSpec;
use serde_json::{Map, Value, json};

/// What a tool returns, or why it did nothing.
pub type ToolOutput = Result<String, String>;

/// One tool.
pub struct ServiceTool {
    /// The name in calls.
    pub name: &'static str,
    /// What the agent is told about it.
    pub description: &'static str,
    /// Its arguments, all required.
    pub parameters: &'static [Parameter],
    /// Whether it changes the database.
    pub changes: bool,
    /// The implementation; arguments are checked first.
    pub run: fn(&mut Shop, &Arguments<'_>) -> ToolOutput,
}

/// A required argument.
pub struct Parameter {
    /// The name in calls.
    pub name: &'static str,
    /// Whether it is a list of strings instead of a string.
    pub list: bool,
    /// What the agent is told about it.
    pub description: &'static str,
}

const fn text(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, list: false, description }
}
const fn texts(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, list: true, description }
}

const ORDER: Parameter = text("order_id", "id of the order with its sign, such as #W0000000");
const METHOD: Parameter =
    text("payment_method_id", "id of one of the customer's means of payment, such as gift_card_0000000");

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

/// The tool with this name.
pub fn tool(name: &str) -> Option<&'static ServiceTool> {
    TOOLS.into_iter().find(|t| t.name == name)
}

/// Descriptions of all tools for the agent.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS.iter().map(|t| t.spec()).collect()
}

impl ServiceTool {
    /// Runs a call. A failed call changes nothing.
    pub fn call(&self, shop: &mut Shop, arguments: &Value) -> ToolOutput {
        let Some(map) = arguments.as_object() else {
            return Err(format!("the arguments of `{}` must be an object", self.name));
        };
        if let Some(unknown) = map.keys().filter(|key| self.parameters.iter().all(|p| p.name != key.as_str())).min() {
            let known: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
            return Err(format!("tool `{}` has no argument `{unknown}`; it has: {}", self.name, known.join(", ")));
        }
        (self.run)(shop, &Arguments::new(self.name, map))
    }
    fn spec(&self) -> ToolSpec {
        let schema = |p: &Parameter| match p.list {
            true => json!({"description": p.description, "items": {"type": "string"}, "type": "array"}),
            false => json!({"description": p.description, "type": "string"}),
        };
        let properties: Map<String, Value> = self.parameters.iter().map(|p| (p.name.to_string(), schema(p))).collect();
        let required: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
        ToolSpec {
            name: self.name.to_string(),
            description: self.description.to_string(),
            parameters: json!({"properties": properties, "required": required, "type": "object"}),
        }
    }
}

/// A record as the agent sees it.
fn shown(record: &impl serde::Serialize) -> ToolOutput {
    serde_json::to_string(record).map_err(|e| format!("the record has no JSON form: {e}"))
}

#[cfg(test)]
mod tests;
