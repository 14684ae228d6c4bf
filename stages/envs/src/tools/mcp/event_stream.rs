//! Parses responses of MCP servers at a URL: one message, or a stream of server-sent events with a message in each.

use serde_json::Value;

/// Content type of a stream of events.
const EVENT_STREAM: &str = "text/event-stream";

/// Returns whether a stream of events contains the response to `request`, so that the client need not wait for its end.
/// False for other types of responses.
pub fn is_complete(kind: &str, bytes: &[u8], request: &str) -> bool {
    if !kind.starts_with(EVENT_STREAM) || !bytes.ends_with(b"\n") {
        return false;
    }
    let id = |message: &Value| message.get("id").filter(|id| !id.is_null()).cloned();
    let Some(request_id) = serde_json::from_str(request).ok().as_ref().and_then(id) else { return false };
    messages(kind, bytes)
        .iter()
        .any(|message| message.get("method").is_none() && id(message).as_ref() == Some(&request_id))
}

/// Returns the messages of a response, which is a stream of events, one message, or empty. Events without JSON are left
/// out.
pub fn messages(kind: &str, bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    if !kind.starts_with(EVENT_STREAM) {
        return serde_json::from_str(&text).into_iter().collect();
    }
    let (mut found, mut data) = (Vec::new(), String::new());
    for line in text.lines().map(|line| line.trim_end_matches('\r')).chain([""]) {
        if let Some(part) = line.strip_prefix("data:") {
            data.push_str(part.strip_prefix(' ').unwrap_or(part));
            data.push('\n');
        } else if line.is_empty() && !data.is_empty() {
            found.extend(serde_json::from_str::<Value>(&std::mem::take(&mut data)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_answer_is_a_message_or_a_stream_of_them() {
        let stream = b"event: message\ndata: {\"method\":\"ping\",\"id\":1}\n\n: still here\n\n\
            data: {\"id\":7,\r\ndata: \"result\":{}}\r\n\r\n";
        let found = messages("text/event-stream; charset=utf-8", stream);
        assert_eq!(found, [json!({"method": "ping", "id": 1}), json!({"id": 7, "result": {}})]);
        assert!(is_complete("text/event-stream", stream, "{\"id\":7}"));
        assert!(!is_complete("text/event-stream", stream, "{\"id\":1}"), "a request of the server is not a response");
        assert!(!is_complete("application/json", b"{\"id\":7}\n", "{\"id\":7}"), "it is read to its end");
        assert_eq!(messages("application/json", b"{\"id\":7}"), [json!({"id": 7})]);
        assert!(messages("", b"").is_empty());
    }
}
