//! Any text as the chat template of a model: no panic leaves it, each conversation has one text or one error, and the
//! text is within its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trainyard_fuzz::permit_caught_panics;
use trainyard_lm::template::{ChatTemplate, RenderOptions};
use trainyard_tables::Message;

/// Maximum bytes of a rendered text.
const TEXT: usize = 64 << 20;
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "python", "description": "Runs code.", "parameters":
    {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}}}]"#;

fn conversation() -> Vec<Message> {
    let calls = r#"[{"name": "python", "arguments": {"code": "1+1"}}]"#;
    vec![
        Message::new("system", "Be brief."),
        Message::new("user", "What is 1+1? <b>é</b>"),
        Message {
            tool_calls: Some(calls.into()),
            reasoning_content: Some("I add.".into()),
            ..Message::new("assistant", "")
        },
        Message { tool_call_id: Some("abcdefghi".into()), ..Message::new("tool", "2") },
        Message::new("assistant", "2"),
    ]
}

fuzz_target!(|source: &str| {
    permit_caught_panics();
    let Ok(template) = ChatTemplate::new(source) else { return };
    let tools = RenderOptions { tools: Some(TOOLS.into()), ..RenderOptions::default() };
    for (messages, prompt, options) in [
        (&conversation()[1..2], true, &RenderOptions::default()),
        (&conversation()[..], false, &RenderOptions::default()),
        (&conversation()[..4], true, &tools),
    ] {
        let text = template.render(messages, prompt, options).ok();
        assert!(text.as_ref().is_none_or(|text| text.len() <= TEXT));
        assert_eq!(template.render(messages, prompt, options).ok(), text, "equal inputs give equal texts");
    }
});
