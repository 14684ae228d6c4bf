//! Tests columns and roles of conversations in the forms that other programs write.

use super::*;
use crate::import::tests::read_file;
use serde_json::{Value, json};
use trainyard_tables::{Message, Trajectory};

fn read(format: &str, row: &Value) -> Result<ImportedRows> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, row.to_string()).unwrap();
    read_file(format, &path, &ImportContext { name: "x".into(), ..ImportContext::default() })
}

fn one(format: &str, row: &Value) -> Trajectory {
    read(format, row).unwrap().trajectories.remove(0)
}

fn roles(row: &Trajectory) -> Vec<&str> {
    row.messages.iter().map(|m| m.role.as_str()).collect()
}

#[test]
fn fields_and_roles_of_newer_interfaces_are_kept() {
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 1, \"a\": 2}"}});
    let row = json!({
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
            {"role": "user", "name": "ada", "content": "2+1?"},
            {"role": "assistant", "content": null, "reasoning_content": "Add.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "name": "add", "content": "3"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Done."}, {"text": "3"}]},
        ],
        "tools": [{"type": "function", "function": {"name": "add", "description": "adds"}}, {"name": "sub"}],
    });
    let read = one("openai", &row);
    assert_eq!(roles(&read), ["system", "user", "assistant", "tool", "assistant"]);
    assert_eq!(read.messages[0].content, "Be brief.");
    assert_eq!(read.messages[1].name.as_deref(), Some("ada"));
    assert_eq!(
        (read.messages[2].reasoning_content.as_deref(), read.messages[2].tool_calls.as_deref()),
        (Some("Add."), Some(r#"[{"id": "c1", "name": "add", "arguments": {"b": 1, "a": 2}}]"#))
    );
    let result = Message { name: Some("add".into()), tool_call_id: Some("c1".into()), ..Message::new("tool", "3") };
    assert_eq!(read.messages[3], result);
    assert_eq!(read.messages[4].reasoning_content.as_deref(), Some("Done."));
    let tools: Value = serde_json::from_str(read.tools.as_deref().unwrap()).unwrap();
    assert_eq!(
        (&tools[0]["function"]["name"], &tools[1]),
        (&json!("add"), &json!({"type": "function", "function": {"name": "sub"}}))
    );
    assert_eq!((read.turns, read.tool_calls, read.answer.as_deref()), (2, 1, Some("3")));
}

#[test]
fn older_calls_and_tools_as_text_are_read() {
    let row = json!({
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "assistant", "content": "1"},
        ],
        "functions": [{"name": "f", "parameters": {}}],
    });
    let read = one("openai", &row);
    assert_eq!(roles(&read), ["user", "assistant", "tool", "assistant"]);
    assert_eq!((read.tool_calls, read.messages[2].name.as_deref()), (1, Some("f")));
    let text = json!({
        "conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}],
        "system": "s", "tools": "[{\"name\": \"f\", \"description\": \"d\"}]",
    });
    let read = one("sharegpt", &text);
    assert_eq!(roles(&read), ["system", "user", "assistant"]);
    let tools = r#"[{"type": "function", "function": {"name": "f", "description": "d"}}]"#;
    assert_eq!(read.tools.as_deref(), Some(tools));
    for none in [json!(null), json!([]), json!(""), json!("null"), json!("[]")] {
        let mut row = text.clone();
        row["tools"] = none;
        assert_eq!(one("sharegpt", &row).tools, None);
    }
    let written =
        json!({"messages": json!([{"role": "user", "content": "q"}, {"role": "model", "content": "a"}]).to_string()});
    assert_eq!(roles(&one("openai", &written)), ["user", "assistant"]);
}

#[test]
fn invalid_conversations_are_rejected() {
    let messages =
        |content: Value| json!([{"role": "user", "content": content}, {"role": "assistant", "content": "a"}]);
    let text = messages(json!("q"));
    for (row, word) in [
        (
            json!({"messages": messages(json!([{"type": "image_url", "image_url": {}}]))}),
            "message 1: a content part is of type `image_url`",
        ),
        (json!({"messages": text, "images": ["x.png"]}), "the row has `images`"),
        (json!({"messages": [{"role": "robot", "content": "q"}]}), "unknown role `robot`"),
        (json!({"messages": [{"content": "q"}]}), "neither `role` nor `from`"),
        (json!({"messages": text, "tools": [{"type": "function"}]}), "has no `name`"),
        (json!({"messages": text, "tools": "x"}), "`tools` is not a JSON list"),
        (json!({"messages": [{"role": "user", "content": "q"}]}), "no assistant message"),
        (json!({"messages": "q"}), "are text, not a list"),
    ] {
        let error = read("openai", &row).unwrap_err();
        assert!(error.message.contains(word), "{word}: {error}");
    }
    assert!(read("openai", &json!({"messages": text, "images": []})).is_ok());
}

#[test]
fn a_pair_becomes_a_group_of_a_chosen_and_a_rejected_trajectory() {
    let prompt = json!([{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]);
    let answer = |text: &str| json!([{"role": "assistant", "content": text}]);
    let conversation = |text: &str| json!([prompt[0], prompt[1], {"role": "assistant", "content": text}]);
    for row in [
        json!({"prompt": prompt, "chosen": answer("a"), "rejected": answer("b")}),
        json!({"chosen": conversation("a"), "rejected": conversation("b")}),
        json!({"prompt": "q", "chosen": conversation("a"), "rejected": conversation("b")}),
        json!({"prompt": prompt, "chosen": "a", "rejected": "b"}),
    ] {
        let rows = read("preferences", &row).unwrap().preferences;
        let answers: Vec<&str> = rows.iter().map(|r| r.messages[2].content.as_str()).collect();
        assert_eq!((answers.as_slice(), rows[0].messages.len()), (["a", "b"].as_slice(), 3));
        assert_eq!((rows[0].sample, rows[0].reward, rows[0].rewards["preference"]), (0, 1.0, 1.0));
        assert_eq!((rows[1].sample, rows[1].reward, rows[1].rewards["preference"]), (1, 0.0, 0.0));
        assert!(rows[0].problem_id == rows[1].problem_id && rows[0].id != rows[1].id);
    }
    for (row, word) in [
        (json!({"prompt": "q", "chosen": "a", "rejected": "a"}), "are the same"),
        (json!({"chosen": "a", "rejected": "b"}), "missing column `prompt`"),
        (json!({"prompt": "q", "chosen": "a"}), "missing column `rejected`"),
        (
            json!({"chosen": [{"role": "user"}, {"role": "assistant", "content": "a"}], "rejected": conversation("b")}),
            "different questions",
        ),
    ] {
        let error = read("preferences", &row).unwrap_err();
        assert!(error.message.contains(word), "{word}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let rows = (0..3).map(|i| json!({"prompt": i.to_string(), "chosen": "a", "rejected": "b"}).to_string());
    std::fs::write(&path, rows.collect::<Vec<_>>().join("\n")).unwrap();
    let read = read_file("preferences", &path, &ImportContext::default()).unwrap().preferences;
    assert_eq!(read.iter().map(|r| r.group).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2]);
}
