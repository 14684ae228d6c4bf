//! Reads typed values from a GGUF file's metadata, with errors that name the key.

use candle_core::quantized::gguf_file::Value;
use std::collections::HashMap;
use trainyard_core::{Error, Result};

/// Keys and values of a file.
pub(super) struct Metadata<'a>(pub &'a HashMap<String, Value>);

impl<'a> Metadata<'a> {
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key)
    }
    pub fn text(&self, key: &str) -> Result<&'a str> {
        match self.need(key)? {
            Value::String(text) => Ok(text),
            _ => Err(wrong(key, "a text")),
        }
    }
    pub fn size(&self, key: &str) -> Result<usize> {
        whole_number(self.need(key)?).ok_or_else(|| wrong(key, "a whole number"))
    }
    /// Returns the number of a key. A float32 becomes its shortest decimal, as config files write numbers.
    pub fn number(&self, key: &str) -> Result<f64> {
        match self.need(key)? {
            Value::F32(x) => x.to_string().parse().map_err(|_| wrong(key, "a number")),
            Value::F64(x) => Ok(*x),
            other => whole_number(other).map(|x| x as f64).ok_or_else(|| wrong(key, "a number")),
        }
    }
    pub fn flag_or(&self, key: &str, default: bool) -> Result<bool> {
        match self.get(key) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(wrong(key, "true or false")),
        }
    }
    pub fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        let text = |v: &'a Value| match v {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        };
        self.list(key)?.iter().map(text).collect::<Option<_>>().ok_or_else(|| wrong(key, "a list of texts"))
    }
    pub fn sizes(&self, key: &str) -> Result<Vec<usize>> {
        self.list(key)?
            .iter()
            .map(whole_number)
            .collect::<Option<_>>()
            .ok_or_else(|| wrong(key, "a list of whole numbers"))
    }
    pub fn numbers(&self, key: &str) -> Result<Vec<f32>> {
        let number = |v: &Value| match v {
            Value::F32(x) => Some(*x),
            Value::F64(x) => Some(*x as f32),
            _ => None,
        };
        self.list(key)?.iter().map(number).collect::<Option<_>>().ok_or_else(|| wrong(key, "a list of numbers"))
    }
    /// Returns the id of a special token by llama.cpp's name (`bos`, `eos`, `padding`, …), or `None` if the file lacks
    /// it.
    pub fn token(&self, name: &str) -> Option<u32> {
        self.get(&format!("tokenizer.ggml.{name}_token_id"))
            .and_then(whole_number)
            .and_then(|id| u32::try_from(id).ok())
    }
    fn list(&self, key: &str) -> Result<&'a [Value]> {
        match self.need(key)? {
            Value::Array(list) => Ok(list),
            _ => Err(wrong(key, "a list")),
        }
    }
    fn need(&self, key: &str) -> Result<&'a Value> {
        self.get(key).ok_or_else(|| Error::data(format!("the metadata lack `{key}`")))
    }
}

fn wrong(key: &str, what: &str) -> Error {
    Error::data(format!("the metadata's `{key}` is not {what}"))
}

fn whole_number(value: &Value) -> Option<usize> {
    let signed = |x: i64| usize::try_from(x).ok();
    match value {
        Value::U8(x) => Some(usize::from(*x)),
        Value::U16(x) => Some(usize::from(*x)),
        Value::U32(x) => Some(*x as usize),
        Value::U64(x) => usize::try_from(*x).ok(),
        Value::I8(x) => signed(i64::from(*x)),
        Value::I16(x) => signed(i64::from(*x)),
        Value::I32(x) => signed(i64::from(*x)),
        Value::I64(x) => signed(*x),
        _ => None,
    }
}
