//! Measures the values of a template.

use super::limits::{DEPTH, ITEMS, exceeded};
use minijinja::Error;
use minijinja::value::{Value, ValueKind};

/// Bytes that an item of a value takes.
const ITEM: usize = 32;
/// Maximum bytes of a printed whole number.
const INTEGER: usize = 40;
/// Maximum bytes of another printed number.
const FLOAT: usize = 330;
/// Maximum bytes that a byte of a text takes where its list is printed, which escapes it.
const ESCAPED: usize = 6;

/// Size of a value with everything that it holds.
#[derive(Default)]
pub struct Extent {
    pub text: usize,
    pub items: usize,
    /// At least the bytes of its numbers and flags, with what separates its items, where it is printed.
    pub printed: usize,
    /// Whether it holds a namespace, which may come to hold itself.
    pub namespace: bool,
}

impl Extent {
    pub fn of(value: &Value) -> Result<Self, Error> {
        let mut extent = Self::default();
        extent.add(value, 0)?;
        Ok(extent)
    }
    fn add(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.items += 1;
        if self.items > ITEMS {
            return Err(exceeded("a value has too many items", ITEMS));
        }
        if depth > DEPTH {
            return Err(exceeded("a value is nested too deeply", DEPTH));
        }
        match value.kind() {
            ValueKind::String => self.text = self.text.saturating_add(value.as_str().map_or(0, str::len)),
            ValueKind::Number => self.printed += if value.is_integer() { INTEGER } else { FLOAT },
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.add(&item, depth + 1)?;
                }
            }
            ValueKind::Map => {
                self.namespace |= is_namespace(value);
                for key in value.try_iter()? {
                    self.add(&key, depth + 1)?;
                    self.add(&value.get_item(&key)?, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
    /// Returns at least the bytes that the value takes where it is printed.
    pub fn output(&self, kind: ValueKind) -> usize {
        if kind == ValueKind::String {
            return self.text;
        }
        self.text.saturating_mul(ESCAPED).saturating_add(kept(self.items)).saturating_add(self.printed)
    }
}

/// Returns the bytes that so many items of values take in memory.
pub fn kept(items: usize) -> usize {
    items.saturating_mul(ITEM)
}

/// Returns whether a value is a namespace, whose attributes templates change.
pub fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("Namespace"))
}
