//! Parsing of a model's text.

use super::scripted::{POSITIONS, answered, asked, asked_with_tool, chat, host, options, send, wait};
use crate::HostOptions;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use trainyard_model_api::{Asked, Caller, Choice, Desk as _, Finish, Form, ToolChoice};

const CALL: &str = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": 2}}\n</tool_call>";

#[test]
fn calls_and_thoughts_are_taken_apart_streamed_or_not() {
    for native in [false, true] {
        let (host, held) = host(native, &format!("<think>\nhm ☃\n</think>\n\nI add.\n{CALL}\n{CALL}"), options());
        let asked = Asked { stream: true, n: 2, ..asked_with_tool("2+2?") };
        let (pieces, streamed) = wait(send(&host, asked.clone())).unwrap();
        let mut built = vec![Choice { finish: Finish::Calls, ..Choice::default() }; 2];
        pieces.iter().for_each(|piece| built[piece.choice].add(piece));
        assert_eq!(built, streamed.choices, "the pieces are the answer");
        assert!(pieces.len() > 50, "{} pieces", pieces.len());
        let choice = &streamed.choices[0];
        assert_eq!((choice.thinking.as_str(), choice.text.as_str()), ("hm ☃", "I add."));
        let calls: Vec<(&str, &str)> = choice.calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
        assert_eq!(calls, [("sum", "{\"a\":2}"); 2]);
        let ids: Vec<&String> = streamed.choices.iter().flat_map(|c| &c.calls).map(|c| &c.id).collect();
        assert!(ids.iter().all(|id| id.len() == 9 && ids.iter().filter(|other| other == &id).count() == 1), "{ids:?}");
        let usage = streamed.usage;
        assert_eq!(usage.sampled, 2 * choice.tokens.len());
        assert!(usage.thinking > 4 && usage.thinking < usage.sampled / 2, "{usage:?}");
        let whole = answered(&host, Asked { stream: false, seed: asked.seed, ..asked });
        assert_eq!(whole.choices[0].text, choice.text);
        assert_eq!(held.load(Ordering::SeqCst), 0, "nothing is kept of answered requests");
    }
}

#[test]
fn a_turn_that_may_hold_one_call_ends_with_it() {
    let (host, _) = host(false, &format!("{CALL}\n{CALL}"), options());
    let choice = answered(&host, Asked { parallel_calls: false, ..asked_with_tool("x") }).choices.remove(0);
    assert_eq!((choice.calls.len(), choice.finish), (1, Finish::Calls));
    let choice = answered(&host, Asked { tool_choice: ToolChoice::None, ..asked_with_tool("x") }).choices.remove(0);
    assert_eq!((choice.calls.len(), choice.text, choice.finish), (0, format!("{CALL}\n{CALL}"), Finish::End));
    assert_eq!(answered(&host, asked("x")).choices[0].calls.len(), 0, "without tools nothing is a call");
}

#[test]
fn calls_that_cannot_be_read_are_text() {
    let (host, _) = host(false, "I add. <tool_call>{\"name\": 3}</tool_call>", options());
    let choice = answered(&host, asked_with_tool("x")).choices.remove(0);
    assert_eq!((choice.text.as_str(), choice.calls.len()), ("I add. <tool_call>{\"name\": 3}</tool_call>", 0));
    assert_eq!(choice.finish, Finish::End);
    let cut = answered(&host, Asked { max_tokens: Some(12), ..asked_with_tool("x") }).choices.remove(0);
    assert_eq!((cut.finish, cut.tokens.len()), (Finish::Length, 12));
}

#[test]
fn texts_and_tokens_of_the_request_end_a_turn() {
    let (host, _) = host(false, "one two three", options());
    let of = |asked: Asked| answered(&host, asked).choices.remove(0);
    let stop = vec!["o t".to_string(), "thr".into()];
    let choice = of(Asked { stop: stop.clone(), ..asked("x") });
    assert_eq!((choice.text.as_str(), choice.finish), ("one tw", Finish::Text("o t".into())));
    let kept = of(Asked { stop, keep_stop: true, ..asked("x") });
    assert_eq!(kept.text, "one two t");
    let e = chat(false).tokenizer().encode("e").unwrap()[0];
    let choice = of(Asked { stop_tokens: vec![e], ..asked("x") });
    assert_eq!((choice.text.as_str(), choice.finish), ("on", Finish::Token(e)));
    let end = chat(false).end_token();
    let choice = of(Asked { ignore_end: true, max_tokens: Some(20), ..asked("x") });
    assert!(choice.tokens.iter().any(|token| token.id == end) && choice.finish == Finish::Length);
    assert_eq!(of(asked("x")).tokens.last().unwrap().id, end, "the token that ends a turn belongs to it");
}

#[test]
fn the_template_gets_tools_variables_and_thoughts() {
    let (host, _) = host(true, "hm</think>ok", options());
    let count = |asked: &Asked| host.count(&Caller::default(), asked).unwrap();
    let (plain, tools) = (asked("x"), asked_with_tool("x"));
    assert!(count(&tools) > count(&plain) + 20);
    assert_eq!(count(&Asked { tool_choice: ToolChoice::None, ..tools }), count(&plain));
    let mut thinks = plain.clone();
    thinks.variables.insert("enable_thinking".into(), json!(true));
    assert!(count(&thinks) > count(&plain));
    let choice = answered(&host, thinks).choices.remove(0);
    assert_eq!((choice.thinking.as_str(), choice.text.as_str()), ("hm", "ok"), "the prompt opened the thought");
    assert_eq!(answered(&host, plain).choices[0].thinking, "");
}

#[test]
fn a_context_that_is_full_is_refused_with_the_numbers() {
    let (host, _) = host(false, "ok", options());
    let of = |asked: Asked| wait(send(&host, asked)).map(|(_, answered)| answered);
    let long = asked(&"12 ".repeat(POSITIONS));
    let refusal = of(long).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (400, Some("context_length_exceeded")));
    assert!(refusal.message.contains(&format!("maximum context length is {POSITIONS} tokens")), "{}", refusal.message);
    assert!(of(Asked { max_tokens: Some(POSITIONS), ..asked("x") }).is_err());
    let anthropic = Asked { form: Form::Messages, max_tokens: Some(32_000), ..asked("x") };
    assert_eq!(of(anthropic).unwrap().choices[0].text, "ok", "limits of Anthropic's clients are cut");
    let refusal = of(Asked { n: 5, ..asked("x") }).unwrap_err();
    assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some("n")));
}

#[test]
fn clients_that_go_make_room_and_too_many_are_refused() {
    let (host, held) = host(false, "x", HostOptions { max_batch: 1, max_waiting: 2, ..options() });
    let endless = || Asked { ignore_end: true, max_tokens: Some(1900), ..asked("x") };
    let first = send(&host, endless());
    let until = |count: usize| {
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            held.load(Ordering::SeqCst) == count
        })
    };
    assert!(until(1));
    let (second, third) = (send(&host, asked("y")), send(&host, asked("z")));
    let refusal = wait(send(&host, asked("w"))).unwrap_err();
    assert_eq!(refusal.status, 429, "two wait already");
    drop(first);
    assert_eq!(wait(second).unwrap().1.choices[0].text, "x", "its place is free");
    wait(third).unwrap();
    assert!(until(0));
    let last = send(&host, asked("v"));
    drop(host);
    assert_eq!(wait(last).unwrap().1.choices[0].text, "x", "what was taken is answered before the end");
}
