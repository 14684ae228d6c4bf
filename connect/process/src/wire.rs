//! Reads and writes version 1 of the protocol: one JSON object per line.
//!
//! The caller sends `hello` to the program, and the program sends `ready`. Then every request has an `id` and an `op`,
//! and every response has the `id` of its request with a `result` or an `error`.

use crate::fault::ProgramException;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trainyard_core::{Error, Result};

/// Version of the protocol.
pub const PROTOCOL: u32 = 1;

#[derive(Serialize)]
struct HelloLine<'a> {
    r#type: &'static str,
    protocol: u32,
    #[serde(flatten)]
    about: HelloBody<'a>,
}

#[derive(Serialize)]
struct HelloBody<'a> {
    role: &'a str,
    name: &'a str,
    options: &'a Value,
    seed: u64,
}

/// Returns the line `hello`, without its line end.
pub fn hello_line(role: &str, name: &str, options: &Value, seed: u64) -> String {
    let line = HelloLine { r#type: "hello", protocol: PROTOCOL, about: HelloBody { role, name, options, seed } };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Returns the fields of `hello` that describe a part, as JSON. A stateless service receives them with each request.
pub fn hello_body(role: &str, name: &str, options: &Value, seed: u64) -> String {
    serde_json::to_string(&HelloBody { role, name, options, seed }).unwrap_or_default()
}

/// Parses the features that a program reports in its first line. Errors: a description of the fault.
pub fn parse_ready(line: &[u8]) -> Result<Value, String> {
    let ready: Value =
        serde_json::from_slice(line).map_err(|_| format!("its first line is not JSON: {}", excerpt(line)))?;
    match (ready["type"].as_str(), ready["protocol"].as_u64()) {
        (Some("ready"), Some(version)) if version == u64::from(PROTOCOL) => Ok(ready),
        (Some("ready"), version) => {
            let version = version.map_or_else(|| "no version".to_string(), |version| format!("version {version}"));
            Err(format!("it uses {version} of the protocol, but version {PROTOCOL} is required"))
        }
        (Some("error"), _) => {
            let raised: ProgramException = serde_json::from_value(ready["error"].clone()).unwrap_or_default();
            let trace = raised.traceback.trim_end();
            Err(if trace.is_empty() { raised.to_string() } else { format!("{raised}\n{trace}") })
        }
        _ => Err(format!("its first line is not `ready`: {}", excerpt(line))),
    }
}

/// A serialized request without its id. The requester's thread serializes it.
pub struct ProgramRequest(String);

impl ProgramRequest {
    /// Creates a request; `body` is a map with the keys of the operation.
    pub fn new(op: &str, body: &impl Serialize) -> Result<Self> {
        Ok(Self(format!(",\"op\":\"{op}\"{}}}", inner(body)?)))
    }
    /// Creates a request of another protocol, with an `id` and `keys`.
    pub fn plain(keys: &impl Serialize) -> Result<Self> {
        Ok(Self(format!("{}}}", inner(keys)?)))
    }
    /// Returns the request as a line with its id and line end.
    pub fn line(&self, id: u64) -> String {
        format!("{{\"id\":{id}{}\n", self.0)
    }
    /// Returns the request as a line with further keys after the id. `keys` is the inside of a map, such as
    /// `"hello":{}`.
    pub fn line_with(&self, id: u64, keys: &str) -> String {
        format!("{{\"id\":{id},{keys}{}\n", self.0)
    }
}

/// Returns the keys of a map for appending to a longer one, with a comma before them.
fn inner(keys: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(keys).map_err(|e| Error::bug(format!("a request has no JSON form: {e}")))?;
    let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return Err(Error::bug("the body of a request is not a map"));
    };
    Ok(if inner.is_empty() { String::new() } else { format!(",{inner}") })
}

#[derive(Deserialize)]
struct ResponseLine {
    id: u64,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<ProgramException>,
}

/// Deserializes a present value as `Some`, so that a result of null differs from no result.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The id of a response whose content cannot be read.
#[derive(Deserialize)]
struct ResponseId {
    id: u64,
}

/// Parses a response: the id of its request, and its result or exception. A response with an id and with texts that are
/// not Unicode, such as those with lone surrogates, is an exception of its request. Errors: a description of the fault.
pub fn parse_response(line: &[u8]) -> Result<(u64, Result<Value, ProgramException>), String> {
    let read: ResponseLine = match serde_json::from_slice(line) {
        Ok(read) => read,
        Err(error) => {
            let fault = format!("wrote a line that is not a response ({error}): {}", excerpt(line));
            // The content of unknown fields is not decoded.
            let read: ResponseId = serde_json::from_slice(line).map_err(|_| fault)?;
            let message = format!("its response cannot be read ({error}): {}", excerpt(line));
            let kind = "InvalidResponse".to_string();
            return Ok((read.id, Err(ProgramException { kind, message, traceback: String::new() })));
        }
    };
    match (read.result, read.error) {
        (_, Some(raised)) => Ok((read.id, Err(raised))),
        (Some(result), None) => Ok((read.id, Ok(result))),
        (None, None) => Err(format!("wrote a response with neither `result` nor `error`: {}", excerpt(line))),
    }
}

/// Returns the start of a line, quoted for messages.
pub fn excerpt(line: &[u8]) -> String {
    const MAX_BYTES: usize = 200;
    let text = String::from_utf8_lossy(&line[..line.len().min(MAX_BYTES)]).trim().to_string();
    if line.len() > MAX_BYTES { format!("`{text}…`") } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_begin_with_their_id() {
        let request = ProgramRequest::new("score", &json!({"items": [1]})).unwrap();
        assert_eq!(request.line(7), "{\"id\":7,\"op\":\"score\",\"items\":[1]}\n");
        let line = request.line_with(9, "\"hello\":{}");
        assert_eq!(line, "{\"id\":9,\"hello\":{},\"op\":\"score\",\"items\":[1]}\n");
        assert_eq!(ProgramRequest::new("close", &json!({})).unwrap().line(8), "{\"id\":8,\"op\":\"close\"}\n");
        assert!(ProgramRequest::new("close", &json!([])).is_err());
    }

    #[test]
    fn response_has_result_or_error() {
        assert_eq!(parse_response(br#"{"id":1,"result":null}"#), Ok((1, Ok(Value::Null))));
        let raised = ProgramException { kind: "E".into(), message: "m".into(), traceback: String::new() };
        assert_eq!(parse_response(br#"{"id":2,"error":{"type":"E","message":"m"}}"#), Ok((2, Err(raised))));
        for unreadable in [r#"{"id":3,"result":{"text":"a\ud800b"}}"#, r#"{"result":["\udc80"],"id":3}"#] {
            let (id, result) = parse_response(unreadable.as_bytes()).unwrap();
            let raised = result.unwrap_err();
            assert_eq!((id, raised.kind.as_str()), (3, "InvalidResponse"));
            assert!(raised.message.contains("its response cannot be read"), "{raised}");
        }
        for bad in [r#"{"id":1}"#, r#"{"result":1}"#, "", "3", r#"{"id":-1,"result":1}"#] {
            assert!(parse_response(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn first_line_must_have_this_version() {
        assert!(parse_ready(br#"{"type":"ready","protocol":1,"tools":[]}"#).is_ok());
        for (line, message) in [
            (r#"{"type":"ready","protocol":2}"#, "version 2"),
            (r#"{"type":"ready"}"#, "no version"),
            ("hello", "not JSON"),
            (r#"{"id":1}"#, "not `ready`"),
            (r#"{"type":"error","error":{"type":"ImportError","message":"no x"}}"#, "ImportError: no x"),
        ] {
            assert!(parse_ready(line.as_bytes()).unwrap_err().contains(message), "{line}");
        }
    }
}
