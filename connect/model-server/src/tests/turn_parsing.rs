//! Tests the parsing of a model's text.

use super::scripted::{POSITIONS, chat, chat_request, chat_request_with_tool, options, response, send, server, wait};
use crate::ModelServerOptions;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use trainyard_model_api::{
    ApiFinishReason, ApiKind, ApiToolChoice, Caller, ModelHandler as _, ModelRequest, ResponseChoice,
};

const CALL: &str = "<tool_call>\n{\"name\": \"sum\", \"arguments\": {\"a\": 2}}\n</tool_call>";

#[test]
fn calls_and_thoughts_are_separated_in_streams_and_responses() {
    for native in [false, true] {
        let (host, held) = server(native, &format!("<think>\nhm ☃\n</think>\n\nI add.\n{CALL}\n{CALL}"), options());
        let request = ModelRequest { stream: true, n: 2, ..chat_request_with_tool("2+2?") };
        let (deltas, streamed) = wait(send(&host, request.clone())).unwrap();
        let mut built = vec![ResponseChoice { finish: ApiFinishReason::Calls, ..ResponseChoice::default() }; 2];
        deltas.iter().for_each(|delta| built[delta.choice].add(delta));
        assert_eq!(built, streamed.choices, "the deltas add up to the response");
        assert!(deltas.len() > 50, "{} pieces", deltas.len());
        let choice = &streamed.choices[0];
        assert_eq!((choice.thinking.as_str(), choice.text.as_str()), ("hm ☃", "I add."));
        let calls: Vec<(&str, &str)> = choice.calls.iter().map(|c| (c.name.as_str(), c.arguments.as_str())).collect();
        assert_eq!(calls, [("sum", "{\"a\":2}"); 2]);
        let ids: Vec<&String> = streamed.choices.iter().flat_map(|c| &c.calls).map(|c| &c.id).collect();
        assert!(ids.iter().all(|id| id.len() == 9 && ids.iter().filter(|other| other == &id).count() == 1), "{ids:?}");
        let usage = streamed.usage;
        assert_eq!(usage.sampled, 2 * choice.tokens.len());
        assert!(usage.thinking > 4 && usage.thinking < usage.sampled / 2, "{usage:?}");
        let whole = response(&host, ModelRequest { stream: false, seed: request.seed, ..request });
        assert_eq!(whole.choices[0].text, choice.text);
        assert_eq!(held.load(Ordering::SeqCst), 0, "no sequence of a completed request remains");
    }
}

#[test]
fn single_call_ends_turn_without_parallel_calls() {
    let (host, _) = server(false, &format!("{CALL}\n{CALL}"), options());
    let choice =
        response(&host, ModelRequest { parallel_calls: false, ..chat_request_with_tool("x") }).choices.remove(0);
    assert_eq!((choice.calls.len(), choice.finish), (1, ApiFinishReason::Calls));
    let choice = response(&host, ModelRequest { tool_choice: ApiToolChoice::None, ..chat_request_with_tool("x") })
        .choices
        .remove(0);
    assert_eq!((choice.calls.len(), choice.text, choice.finish), (0, format!("{CALL}\n{CALL}"), ApiFinishReason::End));
    assert_eq!(response(&host, chat_request("x")).choices[0].calls.len(), 0, "without tools nothing is a call");
}

#[test]
fn invalid_calls_are_text() {
    let (host, _) = server(false, "I add. <tool_call>{\"name\": 3}</tool_call>", options());
    let choice = response(&host, chat_request_with_tool("x")).choices.remove(0);
    assert_eq!((choice.text.as_str(), choice.calls.len()), ("I add. <tool_call>{\"name\": 3}</tool_call>", 0));
    assert_eq!(choice.finish, ApiFinishReason::End);
    let cut = response(&host, ModelRequest { max_tokens: Some(12), ..chat_request_with_tool("x") }).choices.remove(0);
    assert_eq!((cut.finish, cut.tokens.len()), (ApiFinishReason::Length, 12));
}

#[test]
fn stop_texts_and_tokens_end_turn() {
    let (host, _) = server(false, "one two three", options());
    let of = |request: ModelRequest| response(&host, request).choices.remove(0);
    let stop = vec!["o t".to_string(), "thr".into()];
    let choice = of(ModelRequest { stop: stop.clone(), ..chat_request("x") });
    assert_eq!((choice.text.as_str(), choice.finish), ("one tw", ApiFinishReason::Text("o t".into())));
    let with_stop = of(ModelRequest { stop, keep_stop: true, ..chat_request("x") });
    assert_eq!(with_stop.text, "one two t");
    let e = chat(false).tokenizer().encode("e").unwrap()[0];
    let choice = of(ModelRequest { stop_tokens: vec![e], ..chat_request("x") });
    assert_eq!((choice.text.as_str(), choice.finish), ("on", ApiFinishReason::Token(e)));
    let end = chat(false).end_token();
    let choice = of(ModelRequest { ignore_end: true, max_tokens: Some(20), ..chat_request("x") });
    assert!(choice.tokens.iter().any(|token| token.id == end) && choice.finish == ApiFinishReason::Length);
    assert_eq!(of(chat_request("x")).tokens.last().unwrap().id, end, "the token that ends a turn belongs to it");
}

#[test]
fn template_gets_tools_and_variables() {
    let (host, _) = server(true, "hm</think>ok", options());
    let count = |request: &ModelRequest| host.count_tokens(&Caller::default(), request).unwrap();
    let (plain, tools) = (chat_request("x"), chat_request_with_tool("x"));
    assert!(count(&tools) > count(&plain) + 20);
    assert_eq!(count(&ModelRequest { tool_choice: ApiToolChoice::None, ..tools }), count(&plain));
    let mut thinks = plain.clone();
    thinks.variables.insert("enable_thinking".into(), json!(true));
    assert!(count(&thinks) > count(&plain));
    let choice = response(&host, thinks).choices.remove(0);
    assert_eq!((choice.thinking.as_str(), choice.text.as_str()), ("hm", "ok"), "the prompt opened the thought");
    assert_eq!(response(&host, plain).choices[0].thinking, "");
}

#[test]
fn full_context_is_rejected_with_numbers() {
    let (host, _) = server(false, "ok", options());
    let of = |request: ModelRequest| wait(send(&host, request)).map(|(_, response)| response);
    let long = chat_request(&"12 ".repeat(POSITIONS));
    let refusal = of(long).unwrap_err();
    assert_eq!((refusal.status, refusal.code), (400, Some("context_length_exceeded")));
    assert!(refusal.message.contains(&format!("maximum context length is {POSITIONS} tokens")), "{}", refusal.message);
    assert!(of(ModelRequest { max_tokens: Some(POSITIONS), ..chat_request("x") }).is_err());
    let anthropic = ModelRequest { api: ApiKind::Messages, max_tokens: Some(32_000), ..chat_request("x") };
    assert_eq!(of(anthropic).unwrap().choices[0].text, "ok", "limits of Anthropic's clients are cut");
    let refusal = of(ModelRequest { n: 5, ..chat_request("x") }).unwrap_err();
    assert_eq!((refusal.status, refusal.param.as_deref()), (400, Some("n")));
}

#[test]
fn disconnected_clients_free_positions_and_excess_requests_are_rejected() {
    let (host, held) = server(false, "x", ModelServerOptions { max_batch: 1, max_waiting: 2, ..options() });
    let endless = || ModelRequest { ignore_end: true, max_tokens: Some(1900), ..chat_request("x") };
    let first = send(&host, endless());
    let until = |count: usize| {
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            held.load(Ordering::SeqCst) == count
        })
    };
    assert!(until(1));
    let (second, third) = (send(&host, chat_request("y")), send(&host, chat_request("z")));
    let refusal = wait(send(&host, chat_request("w"))).unwrap_err();
    assert_eq!(refusal.status, 429, "two wait already");
    drop(first);
    assert_eq!(wait(second).unwrap().1.choices[0].text, "x", "its position is free");
    wait(third).unwrap();
    assert!(until(0));
    let last = send(&host, chat_request("v"));
    drop(host);
    assert_eq!(wait(last).unwrap().1.choices[0].text, "x", "an accepted request is completed before shutdown");
}
