//! Defines [`LazySchema`], a JSON Schema that is made when it is first read.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

type MakeSchema = Box<dyn FnOnce() -> Value + Send>;

/// A JSON Schema that is made when it is first read. Every command and attempt knows all stage kinds, and most read the
/// schemas of a few.
#[derive(Clone)]
pub struct LazySchema(Arc<LazyLock<Value, MakeSchema>>);

impl LazySchema {
    /// Returns a schema that `make` makes on first use.
    pub fn new(make: impl FnOnce() -> Value + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Value> for LazySchema {
    fn from(schema: Value) -> Self {
        Self::new(move || schema)
    }
}

impl Deref for LazySchema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for LazySchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LazySchema")
    }
}

impl Serialize for LazySchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::serialize(self, serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn schema_is_made_once_and_only_if_read() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let schema = LazySchema::new(|| {
            MADE.fetch_add(1, Ordering::Relaxed);
            json!({"type": "object"})
        });
        let other = schema.clone();
        assert_eq!((format!("{schema:?}"), MADE.load(Ordering::Relaxed)), ("LazySchema".to_string(), 0));
        assert_eq!((&schema["type"], &other["type"]), (&json!("object"), &json!("object")));
        assert_eq!(MADE.load(Ordering::Relaxed), 1);
        assert_eq!(serde_json::to_value(LazySchema::from(json!(true))).unwrap(), json!(true));
    }
}
