//! Defines a tool of the shop by its arguments and its implementation.

use super::arguments::ShopToolArguments;
use crate::environments::customer_service::database::Shop;
use crate::tools::ToolSpec;
use serde_json::{Map, Value, json};

/// Output of a tool, or the reason why it changed nothing.
pub type ToolOutput = Result<String, String>;

pub struct ShopTool {
    /// The name in calls.
    pub name: &'static str,
    /// Description for the agent.
    pub description: &'static str,
    /// Arguments, all required.
    pub parameters: &'static [ShopToolParameter],
    /// Whether the tool changes the database.
    pub changes: bool,
    /// Implementation. [`ShopTool::call`] has rejected unknown arguments before.
    pub run: fn(&mut Shop, &ShopToolArguments<'_>) -> ToolOutput,
}

pub struct ShopToolParameter {
    /// The name in calls.
    pub name: &'static str,
    /// Whether it is a list of strings instead of a string.
    pub list: bool,
    /// Description for the agent.
    pub description: &'static str,
}

pub(super) const fn text(name: &'static str, description: &'static str) -> ShopToolParameter {
    ShopToolParameter { name, list: false, description }
}
pub(super) const fn texts(name: &'static str, description: &'static str) -> ShopToolParameter {
    ShopToolParameter { name, list: true, description }
}

pub(super) const ORDER: ShopToolParameter = text("order_id", "id of the order with its sign, such as #W0000000");
pub(super) const METHOD: ShopToolParameter =
    text("payment_method_id", "id of one of the customer's means of payment, such as gift_card_0000000");

impl ShopTool {
    /// Runs a call. A call that fails changes nothing.
    pub fn call(&self, shop: &mut Shop, arguments: &Value) -> ToolOutput {
        let Some(map) = arguments.as_object() else {
            return Err(format!("the arguments of `{}` must be an object", self.name));
        };
        if let Some(unknown) = map.keys().filter(|key| self.parameters.iter().all(|p| p.name != key.as_str())).min() {
            let known: Vec<&str> = self.parameters.iter().map(|p| p.name).collect();
            return Err(format!("tool `{}` has no argument `{unknown}`; it has: {}", self.name, known.join(", ")));
        }
        (self.run)(shop, &ShopToolArguments::new(self.name, map))
    }
    pub(super) fn spec(&self) -> ToolSpec {
        let schema = |p: &ShopToolParameter| match p.list {
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

/// Returns a record as JSON text, the form in which the agent sees it.
pub(super) fn shown(record: &impl serde::Serialize) -> ToolOutput {
    serde_json::to_string(record).map_err(|e| format!("the record has no JSON form: {e}"))
}
