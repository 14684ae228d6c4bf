//! Represents a value with expressions: a config until every metric and status that it reads is known.
//!
//! [`Template::resolve`] returns the complete value, or an error that names the unknown reference.

use crate::expression::{ExprReference, Expression, Scope, value_text};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::Result;

/// A config, or a part of one, that may hold expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum Template {
    /// A value without expressions.
    Literal(Value),
    /// `${{ e }}` as the whole scalar; keeps its type.
    Expression(Expression),
    /// Text with expressions; becomes a string.
    Text(Vec<TemplatePiece>),
    /// Items in order.
    List(Vec<Template>),
    /// Values by key.
    Map(BTreeMap<String, Template>),
}

/// A stretch of text, or an expression inside it.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplatePiece {
    Literal(String),
    /// Expression whose value is inserted as text.
    Expression(Expression),
}

/// A scope without any value.
struct EmptyScope;

impl Scope<ExprReference> for EmptyScope {
    fn value(&self, _: &ExprReference) -> Option<Value> {
        None
    }
}

impl Template {
    pub fn null() -> Self {
        Self::Literal(Value::Null)
    }
    /// Whether all parts are known.
    pub fn is_literal(&self) -> bool {
        match self {
            Self::Literal(_) => true,
            Self::Expression(e) => e.as_literal().is_some(),
            Self::Text(pieces) => pieces.iter().all(|p| matches!(p, TemplatePiece::Literal(_))),
            Self::List(items) => items.iter().all(Self::is_literal),
            Self::Map(entries) => entries.values().all(Self::is_literal),
        }
    }
    /// Returns the value, if all parts are known.
    pub fn as_literal(&self) -> Option<Value> {
        if self.is_literal() { self.resolve(&EmptyScope).ok() } else { None }
    }
    /// Returns the value, with null for all parts that are not known.
    pub fn known_part(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Expression(_) | Self::Text(_) => Value::Null,
            Self::List(items) => Value::Array(items.iter().map(Self::known_part).collect()),
            Self::Map(entries) => Value::Object(entries.iter().map(|(k, t)| (k.clone(), t.known_part())).collect()),
        }
    }
    /// Resolves the value under `scope`.
    pub fn resolve(&self, scope: &dyn Scope<ExprReference>) -> Result<Value> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Expression(e) => e.evaluate(scope)?,
            Self::Text(pieces) => Value::String(resolve_text(pieces, scope)?),
            Self::List(items) => Value::Array(items.iter().map(|t| t.resolve(scope)).collect::<Result<_>>()?),
            Self::Map(entries) => {
                let resolved = entries.iter().map(|(k, t)| Ok((k.clone(), t.resolve(scope)?)));
                Value::Object(resolved.collect::<Result<_>>()?)
            }
        })
    }
    /// Returns all references.
    pub fn references(&self) -> Vec<&ExprReference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Expression(e) => e.references(),
            Self::Text(pieces) => pieces.iter().flat_map(TemplatePiece::references).collect(),
            Self::List(items) => items.iter().flat_map(Self::references).collect(),
            Self::Map(entries) => entries.values().flat_map(Self::references).collect(),
        }
    }
}

impl TemplatePiece {
    fn references(&self) -> Vec<&ExprReference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Expression(e) => e.references(),
        }
    }
}

fn resolve_text(pieces: &[TemplatePiece], scope: &dyn Scope<ExprReference>) -> Result<String> {
    let mut text = String::new();
    for piece in pieces {
        match piece {
            TemplatePiece::Literal(literal) => text.push_str(literal),
            TemplatePiece::Expression(e) => text.push_str(&value_text(&e.evaluate(scope)?)),
        }
    }
    Ok(text)
}

/// Serializes expressions as `${{ … }}` text; for display and for the plan's digest.
impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Literal(value) => value.serialize(serializer),
            Self::Expression(e) => serializer.collect_str(&format_args!("${{{{ {e} }}}}")),
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        TemplatePiece::Literal(literal) => text.push_str(literal),
                        TemplatePiece::Expression(e) => text.push_str(&format!("${{{{ {e} }}}}")),
                    }
                }
                serializer.serialize_str(&text)
            }
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Known;
    impl Scope<ExprReference> for Known {
        fn value(&self, reference: &ExprReference) -> Option<Value> {
            matches!(reference, ExprReference::Metric { stage, name, .. } if stage == "gate" && name == "accuracy")
                .then(|| json!(0.25))
        }
    }

    fn late() -> Expression {
        Expression::parse("stages.gate.metrics.accuracy").unwrap()
    }

    #[test]
    fn whole_scalars_keep_their_type_and_text_becomes_a_string() {
        let template = Template::Map(BTreeMap::from([
            ("a".into(), Template::Expression(late())),
            ("b".into(), Template::Text(vec![TemplatePiece::Literal("x=".into()), TemplatePiece::Expression(late())])),
            ("c".into(), Template::List(vec![Template::Literal(json!(null))])),
        ]));
        assert_eq!(template.resolve(&Known).unwrap(), json!({"a": 0.25, "b": "x=0.25", "c": [null]}));
        assert!(!template.is_literal());
        assert_eq!(template.references().len(), 2);
    }

    #[test]
    fn unknown_references_are_named() {
        let error = Template::Expression(late()).resolve(&EmptyScope).unwrap_err();
        assert!(error.message.contains("stages.gate.metrics.accuracy"), "{error}");
    }
}
