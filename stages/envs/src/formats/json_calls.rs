//! Reads and writes calls in the form of JSON objects, for several formats.

use crate::tools::ToolCall;
use serde_json::Value;

/// Reads a call from an object with `name` and, under `key`, the arguments. The error is the message to the agent.
pub fn call(value: &Value, key: &str) -> Result<ToolCall, String> {
    let Some(name) = value.get("name").and_then(Value::as_str) else {
        return Err("error: the tool call has no \"name\"".to_string());
    };
    match value.get(key) {
        Some(arguments @ Value::Object(_)) => Ok(ToolCall { name: name.to_string(), arguments: arguments.clone() }),
        Some(_) => Err(format!("error: \"{key}\" of the tool call must be an object")),
        None => Err(format!("error: the tool call has no \"{key}\"")),
    }
}

/// Writes JSON with a space after `:` and `,`, as Python prints it and as the training data of models contains it.
pub fn spaced(value: &Value) -> String {
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, SpacedFormatter);
    // Writing into memory cannot fail, and every `Value` has a JSON form.
    let written = serde::Serialize::serialize(value, &mut serializer);
    written.ok().and_then(|()| String::from_utf8(out).ok()).unwrap_or_default()
}

struct SpacedFormatter;

impl serde_json::ser::Formatter for SpacedFormatter {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, writer: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        writer.write_all(b": ")
    }
}
