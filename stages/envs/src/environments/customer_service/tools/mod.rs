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

pub use arguments::Arguments;
pub use general::TRANSFER;

use super::database::Shop;
use crate::tools::ToolSpec;
use serde_json::{Map, Value, json};

/// What a tool says, or why it did nothing.
pub type Said = Result<String, String>;

/// One tool.
pub struct ServiceTool {
    pub name: &'static str,
    pub description: &'static str,
    pub parameters: &'static [Parameter],
    /// Whether it changes the database.
    pub changes: bool,
    pub run: fn(&mut Shop, &Arguments<'_>) -> Said,
}

/// One argument; all are required.
pub struct Parameter {
    pub name: &'static str,
    /// A list of texts; otherwise one text.
    pub list: bool,
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

/// The tool of a name.
pub fn tool(name: &str) -> Option<&'static ServiceTool> {
    TOOLS.into_iter().find(|t| t.name == name)
}

/// As the agent is told about them.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS.iter().map(|t| t.spec()).collect()
}

impl ServiceTool {
    /// Runs a call. A call that fails changes nothing.
    pub fn call(&self, shop: &mut Shop, arguments: &Value) -> Said {
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
fn shown(record: &impl serde::Serialize) -> Said {
    serde_json::to_string(record).map_err(|e| format!("the record has no JSON form: {e}"))
}

#[cfg(test)]
mod tests;
