//! Tests chats with a correct or faulty server: requests, stored responses, and errors that end the stage.

use crate::{ChatClient, ChatOptions, ChatRequest, ChatUsage, Models, Price};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::RequestsInMemory;
use trainyard_core::{Error, ErrorKind, SecretName};
use trainyard_testkit::chat::{MockChatServer, MockResponse, calls, says};

fn options(served: &MockChatServer) -> ChatOptions {
    ChatOptions { attempts: 2, timeout: "5s".into(), ..ChatOptions::new(served.url(), "m") }
}

fn requests(count: usize) -> Vec<ChatRequest> {
    (0..count).map(|n| ChatRequest::from_prompt("", format!("question {n}"))).collect()
}

/// Returns the last message in capitals.
fn shouting(body: &Value, _: usize) -> MockResponse {
    says(body, &body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_uppercase())
}

/// Returns the texts of all responses, and the usage.
fn run(
    models: &Arc<Models>,
    options: &ChatOptions,
    requests: &[ChatRequest],
) -> Result<(Vec<String>, ChatUsage), Error> {
    let mut chat = ChatClient::open(models, options)?;
    let responses = chat.send_all(requests, |_| Ok(()))?;
    let texts = responses.into_iter().map(|response| response.map_or_else(|e| e.message, |response| response.text));
    Ok((texts.collect(), chat.usage()))
}

#[test]
fn responses_keep_order_and_repeated_requests_are_not_paid_again() {
    let served = MockChatServer::start(|body, number| {
        std::thread::sleep(Duration::from_millis(if number.is_multiple_of(2) { 20 } else { 1 }));
        shouting(body, number)
    });
    let models = Models::in_memory();
    let chosen = ChatOptions { concurrency: 4, ..options(&served) };
    let (texts, tally) = run(&models, &chosen, &requests(12)).unwrap();
    assert_eq!(texts, (0..12).map(|n| format!("QUESTION {n}")).collect::<Vec<_>>());
    assert_eq!((tally.requests, tally.sent, tally.prompt_tokens, tally.completion_tokens), (12, 12, 120, 60));
    assert!(served.most() <= 4);
    let (again, tally) = run(&models, &ChatOptions { concurrency: 2, ..chosen.clone() }, &requests(13)).unwrap();
    assert_eq!((again.len(), tally.requests, tally.sent, served.requests()), (13, 13, 1, 13));
    for other in [
        ChatOptions { temperature: Some(0.5), ..chosen.clone() },
        ChatOptions { model: "n".into(), ..chosen.clone() },
        ChatOptions { service: Some("elsewhere".into()), ..chosen.clone() },
    ] {
        assert_eq!(run(&models, &other, &requests(1)).unwrap().1.sent, 1, "{other:?} is another request");
    }
}

#[test]
fn equal_requests_are_sent_once_unless_draws_differ() {
    let served = MockChatServer::start(shouting);
    let mut requests = vec![ChatRequest::from_prompt("", "same"); 5];
    requests[4].draw = 1;
    let (texts, tally) = run(&Models::in_memory(), &options(&served), &requests).unwrap();
    assert_eq!((texts.len(), tally.requests, served.requests()), (5, 2, 2));
}

#[test]
fn named_service_shares_responses_across_addresses() {
    let (here, there) = (MockChatServer::start(shouting), MockChatServer::start(shouting));
    let models = Models::in_memory();
    for served in [&here, &there] {
        let named = ChatOptions { service: Some("ours".into()), ..options(served) };
        run(&models, &named, &requests(3)).unwrap();
    }
    assert_eq!((here.requests(), there.requests()), (3, 0));
}

#[test]
fn server_faults_are_retried_and_next_stage_sends_only_missing_requests() {
    let broken = MockChatServer::start(|body, number| match number {
        0 => MockResponse::Status(503, "busy"),
        1 => MockResponse::Half(json!({"choices": [{"message": {"content": "half of an answer"}}]})),
        2 => MockResponse::Hang,
        number => shouting(body, number),
    });
    let (texts, _) = run(&Models::in_memory(), &ChatOptions { attempts: 4, ..options(&broken) }, &requests(3)).unwrap();
    assert_eq!(texts, ["QUESTION 0", "QUESTION 1", "QUESTION 2"]);

    // The server responds to the first six requests, and then hangs.
    let stored = Arc::new(RequestsInMemory::default());
    let dying =
        MockChatServer::start(|body, number| if number < 6 { shouting(body, number) } else { MockResponse::Hang });
    let named = |served: &MockChatServer| ChatOptions { service: Some("one".into()), ..options(served) };
    let error = run(&Models::with_cache(stored.clone()), &named(&dying), &requests(20)).unwrap_err();
    assert_eq!((error.kind, stored.count()), (ErrorKind::Retryable, 6), "{error}");
    assert!(error.message.contains("model `m` at http://127.0.0.1"), "{error}");
    let living = MockChatServer::start(shouting);
    let (texts, tally) = run(&Models::with_cache(stored), &named(&living), &requests(20)).unwrap();
    assert_eq!((texts.len(), tally.requests, tally.sent, living.requests()), (20, 20, 14, 14));
}

#[test]
fn slow_response_times_out() {
    let served = MockChatServer::start(|_, _| MockResponse::Drip);
    let impatient = ChatOptions { timeout: "1s".into(), attempts: 1, ..options(&served) };
    let error = run(&Models::in_memory(), &impatient, &requests(1)).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("did not answer within 1s"), "{error}");
}

#[test]
fn rejected_request_fails_alone() {
    let served = MockChatServer::start(|body, number| match number {
        0 => MockResponse::Status(400, "the prompt is too long"),
        1 => MockResponse::Json(json!({"error": {"message": "nothing"}})),
        2 => MockResponse::Status(200, "<html>"),
        number => shouting(body, number),
    });
    let stored = Arc::new(RequestsInMemory::default());
    let one_by_one = ChatOptions { concurrency: 1, ..options(&served) };
    let (texts, tally) = run(&Models::with_cache(stored.clone()), &one_by_one, &requests(4)).unwrap();
    assert!(texts[0].contains("400: the prompt is too long"), "{texts:?}");
    assert!(texts[1..3].iter().all(|text| text.contains("no chat completion")), "{texts:?}");
    assert_eq!((texts[3].as_str(), tally.requests, stored.count()), ("QUESTION 3", 1, 1));
}

#[test]
fn response_of_another_model_is_reported_and_stored() {
    let served = MockChatServer::start(|body, number| match shouting(body, number) {
        MockResponse::Json(mut response) => {
            response["model"] = json!("m-mini");
            MockResponse::Json(response)
        }
        other => other,
    });
    let models = Models::in_memory();
    let error = run(&models, &options(&served), &requests(1)).unwrap_err();
    assert!(
        error.kind == ErrorKind::Invalid && error.message.contains("model `m`, but the server responded as `m-mini`")
    );
    assert!(error.help.unwrap().contains("served_as: [m-mini]"));
    let known = ChatOptions { served_as: vec!["m-mini".into()], ..options(&served) };
    let (texts, tally) = run(&models, &known, &requests(1)).unwrap();
    assert_eq!((texts[0].as_str(), tally.sent, served.requests()), ("QUESTION 0", 0, 1));
}

#[test]
fn model_may_respond_with_the_date_of_its_release() {
    for (name, is_known) in [
        ("m-2024-08-06", true),
        ("m-20250514", true),
        ("m-mini-2024-08-06", false),
        ("m-2024", false),
        ("m2024-08-06", false),
        ("m-2024-08-0x", false),
    ] {
        let served = MockChatServer::start(move |body, number| match shouting(body, number) {
            MockResponse::Json(mut response) => {
                response["model"] = json!(name);
                MockResponse::Json(response)
            }
            other => other,
        });
        assert_eq!(run(&Models::in_memory(), &options(&served), &requests(1)).is_ok(), is_known, "{name}");
    }
}

#[test]
fn spend_limit_ends_stage_and_paid_responses_are_stored() {
    let served = MockChatServer::start(shouting);
    // A response costs 10 + 5 · 10 = 60 millionths, and at most about 100 + 20 · 10.
    let price = Some(Price { input: 1.0, output: 10.0 });
    let frugal = |limit| ChatOptions { price, spend_limit: Some(limit), max_tokens: Some(20), ..options(&served) };
    let stored = Arc::new(RequestsInMemory::default());
    let error = run(&Models::with_cache(stored.clone()), &frugal(0.0006), &requests(50)).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("`spend_limit` is 0.0006"), "{error}");
    let paid = served.requests();
    assert!((1..=10).contains(&paid) && stored.count() == paid, "{paid} requests cost 60 millionths each");
    let again = run(&Models::with_cache(stored.clone()), &frugal(0.0006), &requests(50)).unwrap_err();
    assert_eq!((again.message, served.requests()), (error.message, paid), "another attempt spends nothing more");
    let (_, tally) = run(&Models::with_cache(stored), &frugal(1.0), &requests(50)).unwrap();
    assert_eq!((tally.sent, served.requests()), (50 - paid as u64, 50));
    assert!((tally.cost().unwrap() - 0.003).abs() < 1e-12);
}

#[test]
fn requests_are_spaced_by_rate_limit() {
    let served = MockChatServer::start(shouting);
    let paced = ChatOptions { requests_per_minute: Some(1200), ..options(&served) };
    let clock = trainyard_core::SystemClock::new();
    run(&Models::in_memory(), &paced, &requests(5)).unwrap();
    let took = trainyard_core::Clock::monotonic(&clock);
    assert!(took >= Duration::from_millis(200), "four gaps of 50 ms, but it took {took:?}");
}

#[test]
fn tools_are_called_and_missing_key_is_reported() {
    let served = MockChatServer::start(|body, _| calls(body, "c1", "add", &json!({"a": 1})));
    let request = ChatRequest { tools: vec![json!({"type": "function"})], ..ChatRequest::from_prompt("", "1+1?") };
    let mut chat = ChatClient::open(&Models::in_memory(), &options(&served)).unwrap();
    let id = chat.send(&request).unwrap();
    let (first, response) = chat.next(Duration::from_secs(10)).unwrap().unwrap();
    let response = response.unwrap();
    assert_eq!(
        (first, response.calls[0].name.as_str(), response.calls[0].arguments.as_str()),
        (id, "add", "{\"a\":1}")
    );
    assert!(chat.next(Duration::ZERO).unwrap().is_none());
    let locked = ChatOptions { api_key: Some(SecretName { secret: "KEY".into() }), ..options(&served) };
    let error = ChatClient::open(&Models::in_memory(), &locked).err().unwrap();
    assert!(error.message.contains("`KEY`"), "{error}");
}

/// Against a llama.cpp server, which names its model by its file and takes a schema for a grammar.
#[test]
fn real_server_responds_in_requested_form() {
    use std::io::Write as _;
    let Ok(url) = std::env::var("TRAINYARD_TEST_LLAMA_CPP") else {
        let _ = writeln!(std::io::stderr(), "skipped: TRAINYARD_TEST_LLAMA_CPP names no llama.cpp server");
        return;
    };
    let models = Models::in_memory();
    let plain = ChatOptions { temperature: Some(0.0), max_tokens: Some(64), ..ChatOptions::new(url, "smollm2") };
    let properties = json!({"reason": {"type": "string"}, "keep": {"type": "boolean"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["reason", "keep"],
        "additionalProperties": false});
    let mut request =
        ChatRequest::from_prompt("", "Is 2 + 2 = 4? Say why in three words, and whether to keep it, as JSON.");
    request.response_schema = Some(crate::ResponseSchema { name: "verdict", schema });
    let error = run(&models, &plain, std::slice::from_ref(&request)).unwrap_err();
    let (_, rest) = error.message.split_once("responded as `").unwrap();
    let name = rest.split_once('`').unwrap().0.to_string();
    assert!(name.ends_with(".gguf"), "{error}");

    let named = ChatOptions { served_as: vec![name], ..plain };
    let mut chat = ChatClient::open(&models, &named).unwrap();
    let responses = chat.send_all(&[request, ChatRequest::from_prompt("", "Say hello.")], |_| Ok(())).unwrap();
    let verdict = responses[0].as_ref().unwrap().object().unwrap();
    assert!(verdict["keep"].is_boolean() && verdict["reason"].is_string(), "{verdict}");
    let response = responses[1].as_ref().unwrap();
    assert!(
        !response.text.is_empty() && response.tokens.is_some_and(|(prompt, response)| prompt > 10 && response > 0),
        "{response:?}"
    );
    assert_eq!(
        (chat.usage().requests, chat.usage().sent),
        (2, 1),
        "the first response was stored though its model name was unknown"
    );
}
