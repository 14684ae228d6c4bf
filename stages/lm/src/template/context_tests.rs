//! Tests templates that rewrite earlier turns: learned and read tokens, turn by turn.

use super::*;
use crate::tokenizer::{character_tokenizer, special};
use trainyard_tables::Message;

/// A template that shows only thoughts of the turns after the last user message, as Qwen3 and related models do.
const FORGETS: &str = "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}\
    {% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
    {% for m in messages %}<|{{ m.role }}|>{% set parts = m.content.split('</think>') %}\
    {% if m.role == 'assistant' and loop.index0 < ns.last %}{{ parts[-1] }}{% else %}{{ m.content }}{% endif %}\
    <|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// A template that opens a thought for the model and never shows one, as DeepSeek's R1 does.
const OPENS: &str = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}<|end|>{% endfor %}\
    {% if add_generation_prompt %}<|assistant|><think>\n{% endif %}";

fn chat(source: &str) -> ChatEncoder {
    let tokenizer = character_tokenizer([], &special::COMPACT).unwrap();
    ChatEncoder::new(tokenizer, ChatTemplate::new(source).unwrap()).unwrap()
}

fn messages(list: &[(&str, &str)]) -> Vec<Message> {
    list.iter().map(|(role, content)| Message::new(role, *content)).collect()
}

/// Returns the contexts as text, with the learned tokens in brackets.
fn shown(chat: &ChatEncoder, encoded: &ConversationTokens) -> Vec<String> {
    let one = |context: std::ops::Range<usize>| {
        let mut text = String::new();
        for part in context.collect::<Vec<_>>().chunk_by(|a, b| encoded.loss_mask[*a] == encoded.loss_mask[*b]) {
            let ids: Vec<u32> = part.iter().map(|i| encoded.token_ids[*i]).collect();
            let piece = chat.tokenizer().decode(&ids).unwrap();
            text += &if encoded.loss_mask[part[0]] { format!("[{piece}]") } else { piece };
        }
        text
    };
    encoded.contexts().into_iter().map(one).collect()
}

const TALK: [(&str, &str); 6] = [
    ("user", "1+1?"),
    ("assistant", "<think>call</think>c"),
    ("tool", "2"),
    ("assistant", "<think>so</think>2"),
    ("user", "2+2?"),
    ("assistant", "<think>easy</think>4"),
];

#[test]
fn every_turn_is_learned_in_its_own_context() {
    let chat = chat(FORGETS);
    let encoded = TokenizedConversation::encode(&chat, &messages(&TALK), None).unwrap();
    assert_eq!(
        shown(&chat, &encoded),
        [
            "<|user|>1+1?<|end|><|assistant|>[<think>call</think>c<|end|>]<|tool|>2<|end|><|assistant|>\
             [<think>so</think>2<|end|>]",
            "<|user|>1+1?<|end|><|assistant|>c<|end|><|tool|>2<|end|><|assistant|>2<|end|><|user|>2+2?<|end|>\
             <|assistant|>[<think>easy</think>4<|end|>]",
        ]
    );
    let turns: Vec<u16> = (0..encoded.turn.len()).filter(|i| encoded.loss_mask[*i]).map(|i| encoded.turn[i]).collect();
    assert!(turns.is_sorted() && turns.last() == Some(&2));
}

#[test]
fn a_thought_that_the_prompt_opens_is_learned() {
    let chat = chat(OPENS);
    let list = messages(&[("user", "1+1?"), ("assistant", "<think>\nadd\n</think>\n\n2"), ("user", "so?")]);
    let separate = Message { reasoning_content: Some("add".into()), ..Message::new("assistant", "2") };
    let separate = [list[0].clone(), separate, list[2].clone(), Message::new("assistant", "yes")];
    let encoded = TokenizedConversation::encode(&chat, &list[..2], None).unwrap();
    assert_eq!(shown(&chat, &encoded), ["<|user|>1+1?<|end|><|assistant|><think>\n[add\n</think>\n\n2<|end|>]"]);
    let encoded = TokenizedConversation::encode(&chat, &separate, None).unwrap();
    assert_eq!(
        shown(&chat, &encoded),
        [
            "<|user|>1+1?<|end|><|assistant|><think>\n[add\n</think>\n\n2<|end|>]",
            "<|user|>1+1?<|end|><|assistant|>2<|end|><|user|>so?<|end|><|assistant|><think>\n\
             [\n</think>\n\nyes<|end|>]",
        ]
    );
}

#[test]
fn rollout_continues_with_the_templates_text() {
    let chat = chat(OPENS);
    let mut rollout = TokenizedConversation::new(&chat, None);
    rollout.extend(&messages(&[("user", "1+1?")])).unwrap();
    rollout.open_first_turn().unwrap();
    let mut ids = chat.tokenizer().encode("add\n</think>c").unwrap();
    ids.push(chat.end_token());
    rollout.push_sampled(&ids).unwrap();
    assert_eq!(rollout.observe(&messages(&[("tool", "2")])).unwrap(), None, "another sequence begins");
    let text = chat.tokenizer().decode(rollout.context()).unwrap();
    assert_eq!(text, "<|user|>1+1?<|end|><|assistant|>c<|end|><|tool|>2<|end|><|assistant|><think>\n");
    let mut ids = chat.tokenizer().encode("</think>2").unwrap();
    ids.push(chat.end_token());
    rollout.push_sampled(&ids).unwrap();
    assert_eq!(
        shown(&chat, rollout.encoded()),
        [
            "<|user|>1+1?<|end|><|assistant|><think>\n[add\n</think>c<|end|>]",
            "<|user|>1+1?<|end|><|assistant|>c<|end|><|tool|>2<|end|><|assistant|><think>\n[</think>2<|end|>]",
        ]
    );
    assert_eq!(rollout.messages()[1].content, "add\n</think>c", "the record keeps what was sampled");
}

#[test]
fn trimmed_white_space_starts_no_new_context() {
    let trims = "{% for m in messages %}<|{{ m.role }}|>{{ m.content.strip() }}<|end|>{% endfor %}\
                 {% if add_generation_prompt %}<|assistant|>{% endif %}";
    let chat = chat(trims);
    let mut rollout = TokenizedConversation::new(&chat, None);
    rollout.extend(&messages(&[("user", "q")])).unwrap();
    rollout.open_first_turn().unwrap();
    let mut ids = chat.tokenizer().encode(" c \n").unwrap();
    ids.push(chat.end_token());
    rollout.push_sampled(&ids).unwrap();
    assert!(rollout.observe(&messages(&[("tool", "2")])).unwrap().is_some());
    assert_eq!(
        shown(&chat, rollout.encoded()),
        ["<|user|>q<|end|><|assistant|>[ c \n<|end|>]<|tool|>2<|end|><|assistant|>"]
    );
}

/// A template that shows results only of calls that are separate from the text, as Gemma 4 does.
const APART: &str = "{% for m in messages %}{% if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}\
    {% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }}:{{ c.function.arguments.a }}</tool_call>\
    {% endfor %}\
    <|end|>{% elif m.tool_call_id %}<|tool|>{{ m.name }}={{ m.content }}<|end|>{% endif %}{% endfor %}\
    {% if add_generation_prompt %}<|assistant|>{% endif %}";

#[test]
fn calls_are_separated_for_templates_that_require_it() {
    let chat = chat(APART);
    chat.expect_tools().unwrap();
    let mut rollout = TokenizedConversation::new(&chat, None);
    rollout.extend(&messages(&[("user", "q")])).unwrap();
    rollout.open_first_turn().unwrap();
    let mut ids = chat.tokenizer().encode("so <tool_call>f:1</tool_call>").unwrap();
    ids.push(chat.end_token());
    rollout.push_sampled(&ids).unwrap();
    rollout.set_tool_calls(Some(r#"[{"name": "f", "arguments": {"a": 1}}]"#.into()));
    assert_eq!(rollout.observe(&messages(&[("tool", "2")])).unwrap(), None, "`so` loses its space");
    let text = chat.tokenizer().decode(rollout.context()).unwrap();
    assert_eq!(text, "<|user|>q<|end|><|assistant|>so<tool_call>f:1</tool_call><|end|><|tool|>f=2<|end|><|assistant|>");
}

#[test]
fn template_writes_calls_of_given_turns_if_native() {
    let chat = chat(APART).with_native_calls(true);
    let call = Message {
        tool_calls: Some(r#"[{"name": "f", "arguments": {"b": 2, "a": 1}}]"#.into()),
        ..Message::new("assistant", "so\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>")
    };
    let list = [Message::new("user", "q"), call, Message::new("tool", "2"), Message::new("assistant", "2")];
    let encoded = TokenizedConversation::encode(&chat, &list, None).unwrap();
    assert_eq!(
        shown(&chat, &encoded),
        ["<|user|>q<|end|><|assistant|>[so<tool_call>f:1</tool_call><|end|>]<|tool|>f=2<|end|><|assistant|>[2<|end|>]",]
    );
}

#[test]
fn template_that_drops_results_is_rejected() {
    let drops = "{% for m in messages %}{% if m.role != 'tool' %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}\
                 {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
    let chat = chat(drops);
    let error = TokenizedConversation::encode(&chat, &messages(&TALK), None).unwrap_err();
    assert!(error.message.contains("cannot show tool results"), "{error}");
    assert!(TokenizedConversation::encode(&chat, &messages(&TALK[..2]), None).is_ok());
}
