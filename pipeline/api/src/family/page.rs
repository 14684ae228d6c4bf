//! Builds the pages and schemas of families, independent of the type of their parts.

use super::{Family, PartKind};
use serde::Serialize;
use serde_json::Value;
use trainyard_core::MetricInfo;

/// The documentation of one part.
#[derive(Debug, Clone, Serialize)]
pub struct PartPage {
    /// Name, such as `losses/clip`.
    pub name: String,
    /// The family, as in [`Family::folder`].
    pub folder: &'static str,
    /// The name that follows `kind:`.
    pub kind: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Documentation in Markdown.
    pub doc: &'static str,
    /// JSON Schema of the options, `kind` included.
    pub options: Value,
    /// Requirements with default options.
    pub needs: Vec<&'static str>,
    /// Metrics, by their names in manifests.
    pub metrics: Vec<MetricInfo>,
    /// The options that a named composition expands to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expands_to: Option<Value>,
}

/// A family with the type of its parts erased, for lists, pages and recipes.
pub trait AnyFamily: Send + Sync {
    /// As in [`Family::folder`].
    fn folder(&self) -> &'static str;
    /// As in [`Family::member_name`].
    fn member_name(&self) -> &'static str;
    /// Returns all kinds, sorted.
    fn kinds(&self) -> Vec<&'static str>;
    /// Returns one page per part, sorted.
    fn pages(&self) -> Vec<PartPage>;
    /// As in [`Family::schema`].
    fn schema(&self) -> Value;
}

impl<T: ?Sized + 'static, A: ?Sized + 'static> AnyFamily for Family<T, A> {
    fn folder(&self) -> &'static str {
        self.folder
    }
    fn member_name(&self) -> &'static str {
        self.member_name
    }
    fn kinds(&self) -> Vec<&'static str> {
        self.names()
    }
    fn schema(&self) -> Value {
        Family::schema(self)
    }
    fn pages(&self) -> Vec<PartPage> {
        let page = |member: &PartKind<T, A>| PartPage {
            name: format!("{}/{}", self.folder, member.kind),
            folder: self.folder,
            kind: member.kind,
            summary: member.summary,
            doc: member.doc,
            options: member.branch(),
            needs: member.default_needs(),
            metrics: member.metrics.iter().map(|m| m.clone().prefixed(member.kind)).collect(),
            expands_to: None,
        };
        self.members.iter().map(page).collect()
    }
}

/// Inserts the schema of a family where the derived schema of a stage's options has `"x-family": "<folder>"`
/// (`#[schemars(extend("x-family" = "losses"))]` on a `Value` or a `Vec<Value>`).
pub fn fill_schema(schema: &mut Value, folder: &str, family: &Value) {
    match schema {
        Value::Object(map) if map.get("x-family").and_then(Value::as_str) == Some(folder) => {
            map.remove("x-family");
            if map.get("type").and_then(Value::as_str) == Some("array") {
                map.insert("items".into(), family.clone());
            } else {
                map.extend(family.as_object().cloned().unwrap_or_default());
            }
        }
        Value::Object(map) => map.values_mut().for_each(|inner| fill_schema(inner, folder, family)),
        Value::Array(list) => list.iter_mut().for_each(|inner| fill_schema(inner, folder, family)),
        _ => {}
    }
}
