//! Any bytes as the response of an MCP server, a stream of server-sent events: no panic, the type decides how it is
//! read, and an event that this project writes is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use trainyard_envs::tools::mcp::event_stream::{is_complete, messages};
use trainyard_model_api::apis::ServerSentEvent;

const STREAM: &str = "text/event-stream";

fuzz_target!(|data: &[u8]| {
    let found = messages(STREAM, data);
    if is_complete(STREAM, data, "{\"id\": 1}") {
        assert!(found.iter().any(|message| message["id"] == 1));
    }
    let longer = [data, &b"\n\ndata: {\"id\": 1}\n\n"[..]].concat();
    assert!(is_complete(STREAM, &longer, "{\"id\": 1}"), "events before the response do not hide it");
    assert_eq!(messages(STREAM, &longer).len(), found.len() + 1, "an event does not change the ones before it");
    if let [value] = &messages("application/json", data)[..] {
        let same: Value = serde_json::from_str(&value.to_string()).expect("it is JSON");
        assert_eq!(messages(STREAM, ServerSentEvent::plain(value.clone()).text().as_bytes()), [same]);
    }
});
