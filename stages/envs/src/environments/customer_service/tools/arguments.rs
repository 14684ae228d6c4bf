//! Reads the arguments of a call with their types. A number is not accepted as a text.

use super::super::records::PostalAddress;
use serde_json::{Map, Value};

/// The arguments of one call.
pub struct ShopToolArguments<'a> {
    tool: &'a str,
    map: &'a Map<String, Value>,
}

impl<'a> ShopToolArguments<'a> {
    /// Returns the arguments of a call to `tool`.
    pub fn new(tool: &'a str, map: &'a Map<String, Value>) -> Self {
        Self { tool, map }
    }
    fn value(&self, name: &str) -> Result<&'a Value, String> {
        self.map.get(name).ok_or_else(|| format!("tool `{}` needs the argument `{name}`", self.tool))
    }
    pub fn text(&self, name: &str) -> Result<&'a str, String> {
        self.value(name)?.as_str().ok_or_else(|| format!("argument `{name}` of tool `{}` must be a string", self.tool))
    }
    pub fn texts(&self, name: &str) -> Result<Vec<&'a str>, String> {
        let list =
            self.value(name)?.as_array().and_then(|list| list.iter().map(Value::as_str).collect::<Option<Vec<&str>>>());
        list.ok_or_else(|| format!("argument `{name}` of tool `{}` must be a list of strings", self.tool))
    }
    /// Returns the address in the arguments `address1` to `zip`.
    pub fn address(&self) -> Result<PostalAddress, String> {
        let field = |name: &str| self.text(name).map(str::to_string);
        Ok(PostalAddress {
            address1: field("address1")?,
            address2: field("address2")?,
            city: field("city")?,
            country: field("country")?,
            state: field("state")?,
            zip: field("zip")?,
        })
    }
}
