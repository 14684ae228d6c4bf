//! Tests conversations of an external program: the tokens of earlier turns stay, regardless of the template's text for
//! them.

use super::*;
use crate::tokenizer::{character_tokenizer, special};
use trainyard_tables::Message;

/// A template that shows only thoughts of the turns after the last user message, and writes calls with different
/// spaces.
const FORGETS: &str = "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}\
    {% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
    {% for m in messages %}<|{{ m.role }}|>{% set parts = m.content.split('</think>') %}\
    {% if m.role == 'assistant' and loop.index0 < ns.last %}{{ parts[-1] }}{% else %}{{ m.content }}{% endif %}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\
    <|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// A template that opens a thought for the model and never shows one.
const OPENS: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}<|end|>{% endfor %}\
    {% if add_generation_prompt %}<|assistant|><think>\n{% endif %}";

/// A template that shows results only of calls that are separate from the text.
const APART: &str = "{% for m in messages %}{% if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}:{{ c.function.arguments.a }}</tool_call>\
    {% endfor %}\
    <|end|>{% elif m.tool_call_id %}<|tool|>{{ m.name }}={{ m.content }}<|end|>{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

/// A template that drops the last answer after a further user message.
const DROPS: &str = "{% for m in messages %}{% if m.role != 'assistant' or loop.last %}<|{{ m.role }}|>{{ m.content }}\
    <|end|>{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

fn chat(source: &str) -> ChatEncoder {
    let tokenizer = character_tokenizer([], &special::COMPACT).unwrap();
    ChatEncoder::new(tokenizer, ChatTemplate::new(source).unwrap()).unwrap()
}

/// Returns a conversation of one turn, which ended with a stop token or was cut.
fn sampled<'a>(chat: &'a ChatEncoder, turn: &str, stopped: bool) -> TokenizedConversation<'a> {
    let mut one = TokenizedConversation::new(chat, None);
    one.extend(&[Message::new("user", "q")]).unwrap();
    one.open_first_turn().unwrap();
    let mut ids = chat.tokenizer().encode(turn).unwrap();
    ids.extend(stopped.then(|| chat.end_token()));
    one.push_sampled(&ids).unwrap();
    one
}

#[test]
fn sampled_tokens_stay_when_the_template_rewrites_them() {
    let call = r#"[{"name": "f", "arguments": {"a": 1}}]"#;
    let tool = Message::new("tool", "2");
    let user = Message::new("user", "and?");
    let thought_and_call = "hm</think>so <tool_call>f:1</tool_call> ";
    let rest = |open: &str, role: &str| {
        format!("<|{role}|>{}<|end|><|assistant|>{open}", if role == "tool" { "2" } else { "and?" })
    };
    for (source, turn, calls, next, new, healed) in [
        (FORGETS, "<think>a</think>b", None, &user, rest("", "user"), true),
        (FORGETS, "<think>a</think>b", None, &tool, rest("", "tool"), false),
        (FORGETS, "b", None, &user, rest("", "user"), false),
        (
            FORGETS,
            "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":1}}</tool_call>",
            Some(call),
            &tool,
            rest("", "tool"),
            true,
        ),
        (OPENS, "a</think>b", None, &user, rest("<think>\n", "user"), true),
        (OPENS, "b ", None, &tool, rest("<think>\n", "tool"), true),
        (APART, thought_and_call, Some(call), &tool, "<|tool|>f=2<|end|><|assistant|>".into(), true),
    ] {
        for stopped in [true, false] {
            let chat = chat(source);
            let mut one = sampled(&chat, turn, stopped);
            one.set_tool_calls(calls.map(str::to_string));
            let before = one.encoded().token_ids.clone();
            let continuation = one.continue_turn(std::slice::from_ref(next)).unwrap().unwrap();
            assert!(one.encoded().token_ids.starts_with(&before) && one.encoded().restarts.is_empty());
            let shown = chat.tokenizer().decode(&continuation.tokens).unwrap();
            let expected = if stopped { new.clone() } else { format!("<|end|>{new}") };
            assert_eq!(shown, expected, "{turn}");
            assert_eq!(continuation.healed, healed, "{turn} {stopped}");
            // A second turn continues the first, healed or not.
            let mut ids = chat.tokenizer().encode("c").unwrap();
            ids.push(chat.end_token());
            one.push_sampled(&ids).unwrap();
            let again = one.continue_turn(&[Message::new("user", "more")]).unwrap().unwrap();
            let again = chat.tokenizer().decode(&again.tokens).unwrap();
            assert!(again.starts_with("<|user|>more<|end|><|assistant|>"), "{again}");
        }
    }
}

#[test]
fn continue_and_observe_agree_without_rewriting() {
    let chat = chat(FORGETS);
    for next in [Message::new("tool", "2 <|end|> é"), Message::new("user", "go on")] {
        let (mut continued, mut native) = (sampled(&chat, "b", true), sampled(&chat, "b", true));
        let continuation = continued.continue_turn(std::slice::from_ref(&next)).unwrap().unwrap();
        assert_eq!(Some(continuation.tokens), native.observe(std::slice::from_ref(&next)).unwrap());
        assert_eq!(continued.encoded(), native.encoded());
        assert_eq!(continued.messages(), native.messages());
    }
}

#[test]
fn dropped_turn_cannot_be_continued() {
    let chat = chat(DROPS);
    let mut one = sampled(&chat, "b", true);
    let before = one.encoded().clone();
    assert_eq!(one.continue_turn(&[Message::new("user", "x")]).unwrap(), None);
    assert_eq!((one.encoded(), one.messages().len()), (&before, 2), "nothing has changed");
    let mut open = TokenizedConversation::new(&chat, None);
    open.extend(&[Message::new("user", "q")]).unwrap();
    assert!(open.continue_turn(&[]).is_err(), "no turn was sampled");
}
