use super::*;

fn message(text: Value) -> Result<ServerMessage, String> {
    read(&text)
}

#[test]
fn messages_are_classified_by_id_and_method() {
    assert_eq!(message(json!({"id": "initialize", "result": {}})), Ok(ServerMessage::Initialized(Ok(json!({})))));
    assert_eq!(message(json!({"id": "tools", "result": 1})), Ok(ServerMessage::Listed(Ok(json!(1)))));
    assert_eq!(message(json!({"id": 7, "result": null})), Ok(ServerMessage::Called(7, Ok(Value::Null))));
    let Ok(ServerMessage::Called(7, Err(raised))) =
        message(json!({"id": 7, "error": {"code": -32602, "message": "no x"}}))
    else {
        panic!()
    };
    assert_eq!(raised.to_string(), "error: no x (code -32602)");
    assert_eq!(message(json!({"method": "ping", "id": "a"})), Ok(ServerMessage::Request(json!("a"), "ping".into())));
    assert_eq!(message(json!({"method": "notifications/tools/list_changed"})), Ok(ServerMessage::Changed));
    assert_eq!(message(json!({"method": "notifications/progress"})), Ok(ServerMessage::Other));
    let log = json!({"method": "notifications/message", "params": {"level": "info", "data": {"x": 1}}});
    assert_eq!(message(log), Ok(ServerMessage::Log("{\"x\":1}".into())));
    for bad in [json!({}), json!({"id": "x", "result": 1}), json!({"id": 3}), json!({"error": {"message": "parse"}})] {
        assert!(message(bad.clone()).is_err(), "{bad}");
    }
}

#[test]
fn client_answers_requests_of_the_server() {
    assert_eq!(client_response(&json!(1), "ping")["result"], json!({}));
    assert_eq!(client_response(&json!(1), "roots/list")["result"], json!({"roots": []}));
    assert_eq!(client_response(&json!("q"), "sampling/createMessage")["error"]["code"], -32601);
}

#[test]
fn server_must_support_a_known_version_and_tools() {
    let with = |version: &str, capabilities: Value| {
        accept(&Ok(json!({"protocolVersion": version, "capabilities": capabilities})))
    };
    for version in VERSIONS {
        assert_eq!(with(version, json!({"tools": {}})), Ok(version.to_string()));
    }
    assert!(with("1999-01-01", json!({"tools": {}})).unwrap_err().contains("`1999-01-01`"));
    assert_eq!(with("2025-06-18", json!({"prompts": {}})).unwrap_err(), "it offers no tools");
    let refused = accept(&Err(raised(&json!({"message": "go away"}))));
    assert_eq!(refused.unwrap_err(), "it rejected `initialize`: error: go away");
}

#[test]
fn pages_contain_tools_with_schemas() {
    let tool = json!({"name": "a", "inputSchema": {"$schema": "x", "type": "object"}, "title": "A", "icons": []});
    let (tools, cursor) = page(&Ok(json!({"tools": [tool], "nextCursor": "2"}))).unwrap();
    assert_eq!((tools[0].parameters.clone(), cursor.as_deref()), (json!({"type": "object"}), Some("2")));
    assert_eq!(page(&Ok(json!({"tools": []}))).unwrap(), (vec![], None));
    for (bad, words) in [
        (json!({}), "no list `tools`"),
        (json!({"tools": [{"inputSchema": {}}]}), "without a name"),
        (json!({"tools": [{"name": "a"}]}), "`a` has no `inputSchema`"),
    ] {
        assert!(page(&Ok(bad)).unwrap_err().contains(words), "{words}");
    }
}

#[test]
fn results_are_texts_of_bounded_length() {
    let image = json!({"type": "image", "mimeType": "image/png", "data": "xxxx"});
    let blocks = json!({"content": [
        {"type": "text", "text": "one"}, image,
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "b:", "text": "two"}},
        {"type": "resource", "resource": {"uri": "c:", "blob": "xx", "mimeType": "a/b"}},
    ]});
    let text = "one\n[image, image/png]\n[resource file:///a]\ntwo\n[resource c:, a/b]";
    assert_eq!(result(&blocks, 1000), json!({"text": text, "error": false}));
    let structured = json!({"content": [], "structuredContent": {"x": 1}, "isError": true});
    assert_eq!(result(&structured, 1000), json!({"text": "{\"x\":1}", "error": true}));
    let both = json!({"content": [{"type": "text", "text": "t"}], "structuredContent": {"x": 1}});
    assert_eq!(result(&both, 1000)["text"], "t");
    let long = json!({"content": [{"type": "text", "text": "äää"}]});
    assert_eq!(result(&long, 3)["text"], "ä\n[4 of 6 bytes left out]");
    assert_eq!(result(&json!({}), 3), json!({"text": "", "error": false}));
}
