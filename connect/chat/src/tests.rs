//! Chats with a correct or faulty server: requests, stored answers, and errors that end the stage.

use crate::testing::{MockChatServer, MockResponse, text_response, tool_call_response};
use crate::{ChatClient, ChatOptions, ChatRequest, ChatUsage, Models, Price};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::RequestsInMemory;
use trainyard_core::{Error, ErrorKind, SecretName};

fn options(served: &MockChatServer) -> ChatOptions {
    ChatOptions { attempts: 2, timeout: "5s".into(), ..ChatOptions::new(served.url(), "m") }
}

fn questions(count: usize) -> Vec<ChatRequest> {
    (0..count).map(|n| ChatRequest::from_prompt("", format!("question {n}"))).collect()
}

/// Returns the last message in capitals.
fn shouting(body: &Value, _: usize) -> MockResponse {
    text_response(
        body,
        &body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap().to_uppercase(),
    )
}

/// Returns the texts of all answers, and the tally.
fn ask(
    models: &Arc<Models>,
    options: &ChatOptions,
    questions: &[ChatRequest],
) -> Result<(Vec<String>, ChatUsage), Error> {
    let mut chat = ChatClient::open(models, options)?;
    let answers = chat.send_all(questions, |_| Ok(()))?;
    let texts = answers.into_iter().map(|answer| answer.map_or_else(|e| e.message, |answer| answer.text));
    Ok((texts.collect(), chat.usage()))
}

#[test]
fn answers_come_in_order_and_whoever_asks_again_pays_nothing() {
    let served = MockChatServer::start(|body, number| {
        std::thread::sleep(Duration::from_millis(if number.is_multiple_of(2) { 20 } else { 1 }));
        shouting(body, number)
    });
    let models = Models::in_memory();
    let chosen = ChatOptions { concurrency: 4, ..options(&served) };
    let (texts, tally) = ask(&models, &chosen, &questions(12)).unwrap();
    assert_eq!(texts, (0..12).map(|n| format!("QUESTION {n}")).collect::<Vec<_>>());
    assert_eq!((tally.requests, tally.sent, tally.prompt_tokens, tally.completion_tokens), (12, 12, 120, 60));
    assert!(served.most() <= 4);
    let (again, tally) = ask(&models, &ChatOptions { concurrency: 2, ..chosen.clone() }, &questions(13)).unwrap();
    assert_eq!((again.len(), tally.requests, tally.sent, served.requests()), (13, 13, 1, 13));
    for other in [
        ChatOptions { temperature: Some(0.5), ..chosen.clone() },
        ChatOptions { model: "n".into(), ..chosen.clone() },
        ChatOptions { service: Some("elsewhere".into()), ..chosen.clone() },
    ] {
        assert_eq!(ask(&models, &other, &questions(1)).unwrap().1.sent, 1, "{other:?} asks something else");
    }
}

#[test]
fn equal_questions_are_one_request_and_draws_are_others() {
    let served = MockChatServer::start(shouting);
    let mut asked = vec![ChatRequest::from_prompt("", "same"); 5];
    asked[4].draw = 1;
    let (texts, tally) = ask(&Models::in_memory(), &options(&served), &asked).unwrap();
    assert_eq!((texts.len(), tally.requests, served.requests()), (5, 2, 2));
}

#[test]
fn a_service_under_a_name_is_found_at_another_address() {
    let (here, there) = (MockChatServer::start(shouting), MockChatServer::start(shouting));
    let models = Models::in_memory();
    for served in [&here, &there] {
        let named = ChatOptions { service: Some("ours".into()), ..options(served) };
        ask(&models, &named, &questions(3)).unwrap();
    }
    assert_eq!((here.requests(), there.requests()), (3, 0));
}

#[test]
fn faults_of_a_server_are_tried_again_and_the_second_stage_asks_only_for_the_rest() {
    let broken = MockChatServer::start(|body, number| match number {
        0 => MockResponse::Status(503, "busy"),
        1 => MockResponse::Half(json!({"choices": [{"message": {"content": "half of an answer"}}]})),
        2 => MockResponse::Hang,
        number => shouting(body, number),
    });
    let (texts, _) =
        ask(&Models::in_memory(), &ChatOptions { attempts: 4, ..options(&broken) }, &questions(3)).unwrap();
    assert_eq!(texts, ["QUESTION 0", "QUESTION 1", "QUESTION 2"]);

    // The first six requests are answered, and then the server is gone.
    let kept = Arc::new(RequestsInMemory::default());
    let dying =
        MockChatServer::start(|body, number| if number < 6 { shouting(body, number) } else { MockResponse::Hang });
    let named = |served: &MockChatServer| ChatOptions { service: Some("one".into()), ..options(served) };
    let error = ask(&Models::with_cache(kept.clone()), &named(&dying), &questions(20)).unwrap_err();
    assert_eq!((error.kind, kept.count()), (ErrorKind::Retryable, 6), "{error}");
    assert!(error.message.contains("model `m` at http://127.0.0.1"), "{error}");
    let living = MockChatServer::start(shouting);
    let (texts, tally) = ask(&Models::with_cache(kept), &named(&living), &questions(20)).unwrap();
    assert_eq!((texts.len(), tally.requests, tally.sent, living.requests()), (20, 20, 14, 14));
}

#[test]
fn what_drips_is_cut_off() {
    let served = MockChatServer::start(|_, _| MockResponse::Drip);
    let impatient = ChatOptions { timeout: "1s".into(), attempts: 1, ..options(&served) };
    let error = ask(&Models::in_memory(), &impatient, &questions(1)).unwrap_err();
    assert!(error.kind == ErrorKind::Retryable && error.message.contains("did not answer within 1s"), "{error}");
}

#[test]
fn a_question_that_the_server_refuses_is_one_question() {
    let served = MockChatServer::start(|body, number| match number {
        0 => MockResponse::Status(400, "the prompt is too long"),
        1 => MockResponse::Json(json!({"error": {"message": "nothing"}})),
        2 => MockResponse::Status(200, "<html>"),
        number => shouting(body, number),
    });
    let kept = Arc::new(RequestsInMemory::default());
    let one_by_one = ChatOptions { concurrency: 1, ..options(&served) };
    let (texts, tally) = ask(&Models::with_cache(kept.clone()), &one_by_one, &questions(4)).unwrap();
    assert!(texts[0].contains("400: the prompt is too long"), "{texts:?}");
    assert!(texts[1..3].iter().all(|text| text.contains("no chat completion")), "{texts:?}");
    assert_eq!((texts[3].as_str(), tally.requests, kept.count()), ("QUESTION 3", 1, 1));
}

#[test]
fn another_model_than_the_one_that_was_asked_is_named_and_its_answer_is_kept() {
    let served = MockChatServer::start(|body, number| match shouting(body, number) {
        MockResponse::Json(mut answer) => {
            answer["model"] = json!("m-mini");
            MockResponse::Json(answer)
        }
        other => other,
    });
    let models = Models::in_memory();
    let error = ask(&models, &options(&served), &questions(1)).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("`m` was asked, and `m-mini` has answered"));
    assert!(error.help.unwrap().contains("served_as: [m-mini]"));
    let known = ChatOptions { served_as: vec!["m-mini".into()], ..options(&served) };
    let (texts, tally) = ask(&models, &known, &questions(1)).unwrap();
    assert_eq!((texts[0].as_str(), tally.sent, served.requests()), ("QUESTION 0", 0, 1));
}

#[test]
fn the_limit_on_spend_ends_the_stage_and_what_was_paid_is_kept() {
    let served = MockChatServer::start(shouting);
    // An answer costs 10 + 5 · 10 = 60 millionths, and at most about 100 + 20 · 10.
    let price = Some(Price { input: 1.0, output: 10.0 });
    let frugal = |limit| ChatOptions { price, spend_limit: Some(limit), max_tokens: Some(20), ..options(&served) };
    let kept = Arc::new(RequestsInMemory::default());
    let error = ask(&Models::with_cache(kept.clone()), &frugal(0.0006), &questions(50)).unwrap_err();
    assert!(error.kind == ErrorKind::Invalid && error.message.contains("`spend_limit` is 0.0006"), "{error}");
    let paid = served.requests();
    assert!((1..=10).contains(&paid) && kept.count() == paid, "{paid} requests cost 60 millionths each");
    let again = ask(&Models::with_cache(kept.clone()), &frugal(0.0006), &questions(50)).unwrap_err();
    assert_eq!((again.message, served.requests()), (error.message, paid), "another attempt spends nothing more");
    let (_, tally) = ask(&Models::with_cache(kept), &frugal(1.0), &questions(50)).unwrap();
    assert_eq!((tally.sent, served.requests()), (50 - paid as u64, 50));
    assert!((tally.cost().unwrap() - 0.003).abs() < 1e-12);
}

#[test]
fn requests_are_spaced_as_the_options_say() {
    let served = MockChatServer::start(shouting);
    let paced = ChatOptions { requests_per_minute: Some(1200), ..options(&served) };
    let clock = trainyard_core::SystemClock::new();
    ask(&Models::in_memory(), &paced, &questions(5)).unwrap();
    let took = trainyard_core::Clock::monotonic(&clock);
    assert!(took >= Duration::from_millis(200), "four gaps of 50 ms, but it took {took:?}");
}

#[test]
fn tools_are_called_and_the_key_is_sent_and_asked_for() {
    let served = MockChatServer::start(|body, _| tool_call_response(body, "c1", "add", &json!({"a": 1})));
    let question = ChatRequest { tools: vec![json!({"type": "function"})], ..ChatRequest::from_prompt("", "1+1?") };
    let mut chat = ChatClient::open(&Models::in_memory(), &options(&served)).unwrap();
    let ticket = chat.send(&question).unwrap();
    let (first, answer) = chat.next(Duration::from_secs(10)).unwrap().unwrap();
    let answer = answer.unwrap();
    assert_eq!(
        (first, answer.calls[0].name.as_str(), answer.calls[0].arguments.as_str()),
        (ticket, "add", "{\"a\":1}")
    );
    assert!(chat.next(Duration::ZERO).unwrap().is_none());
    let locked = ChatOptions { api_key: Some(SecretName { secret: "KEY".into() }), ..options(&served) };
    let error = ChatClient::open(&Models::in_memory(), &locked).err().unwrap();
    assert!(error.message.contains("`KEY`"), "{error}");
}

/// Against a llama.cpp server, which names its model by its file and takes a schema for a grammar.
#[test]
fn a_real_server_answers_in_the_form_that_was_asked_for() {
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
    let mut question =
        ChatRequest::from_prompt("", "Is 2 + 2 = 4? Say why in three words, and whether to keep it, as JSON.");
    question.response_schema = Some(crate::ResponseSchema { name: "verdict", schema });
    let error = ask(&models, &plain, std::slice::from_ref(&question)).unwrap_err();
    let (_, rest) = error.message.split_once("and `").unwrap();
    let name = rest.split_once('`').unwrap().0.to_string();
    assert!(name.ends_with(".gguf"), "{error}");

    let named = ChatOptions { served_as: vec![name], ..plain };
    let mut chat = ChatClient::open(&models, &named).unwrap();
    let answers = chat.send_all(&[question, ChatRequest::from_prompt("", "Say hello.")], |_| Ok(())).unwrap();
    let verdict = answers[0].as_ref().unwrap().object().unwrap();
    assert!(verdict["keep"].is_boolean() && verdict["reason"].is_string(), "{verdict}");
    let said = answers[1].as_ref().unwrap();
    assert!(!said.text.is_empty() && said.tokens.is_some_and(|(prompt, answer)| prompt > 10 && answer > 0), "{said:?}");
    assert_eq!((chat.usage().requests, chat.usage().sent), (2, 1), "the first was kept though its name was unknown");
}
