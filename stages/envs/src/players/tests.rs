//! Tests episodes with a calculator, which a mock server plays as a model would.

use super::{ModelCallMode, PlayedEpisode, Player, PlayerJob, play};
use crate::environments::{self, Environments};
use crate::{Environment, ToolHost};
use serde_json::{Value, json};
use trainyard_chat::{ChatClient, ChatOptions, Models};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason};
use trainyard_testkit::chat::{MockChatServer, MockResponse, calls, says};

fn options() -> Value {
    let family: Environments = environments::family();
    let words = json!({
        "kind": "math-problems", "tools": ["calculator"], "format": "hermes", "describe_tools": true, "max_turns": 4,
    });
    family.complete(&words).unwrap()
}

fn environment(options: &Value) -> Box<dyn Environment> {
    environments::family().build(options, &ToolHost::new(1)).unwrap()
}

fn problems(count: usize) -> Vec<Problem> {
    let problem = |n: usize| Problem {
        id: format!("p{n}"),
        messages: vec![Message::new("user", format!("What is {n} + 1?"))],
        answer: (n + 1).to_string(),
        verifier: "{}".into(),
        ..Problem::default()
    };
    (0..count).map(problem).collect()
}

fn played(served: &MockChatServer, mode: ModelCallMode, problems: &[Problem]) -> Vec<PlayedEpisode> {
    let options = options();
    let environment = environment(&options);
    let prompts = mode.prompt_environment(&environments::family(), &options, &ToolHost::new(1)).unwrap();
    let native = mode == ModelCallMode::Native;
    let player = Player { environment: &*environment, prompt_environment: prompts.as_deref(), native };
    let chosen = ChatOptions { attempts: 1, ..ChatOptions::new(served.url(), "m") };
    let mut chat = ChatClient::open(&Models::in_memory(), &chosen).unwrap();
    let jobs: Vec<PlayerJob<'_>> = problems.iter().map(|problem| PlayerJob { problem, draw: 0, seed: 1 }).collect();
    play(&player, &mut chat, &jobs, |_| Ok(())).unwrap()
}

fn last(body: &Value) -> Value {
    body["messages"].as_array().unwrap().last().unwrap().clone()
}

/// Responds with a call of the calculator, then with its result; for problem 2, with a different answer.
fn native(body: &Value, _: usize) -> MockResponse {
    let message = last(body);
    let text = message["content"].as_str().unwrap();
    match message["role"].as_str() {
        Some("tool") if text == "3" => says(body, "It is 5.\n#### 5"),
        Some("tool") => says(body, &format!("It is {text}.\n#### {text}")),
        _ => {
            let sum = text.trim_start_matches("What is ").trim_end_matches('?');
            calls(body, "c1", "calculator", &json!({"expression": sum}))
        }
    }
}

#[test]
fn native_calls_are_recorded_in_the_environments_format() {
    let served = MockChatServer::start(native);
    let played = played(&served, ModelCallMode::Native, &problems(4));
    assert_eq!(played.iter().map(|one| one.correct).collect::<Vec<_>>(), [true, true, false, true]);
    let row = &played[1].trajectory;
    let roles: Vec<&str> = row.messages.iter().map(|m| m.role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant"]);
    assert!(row.messages[0].content.contains("calculator"), "the record describes tools as a rollout does");
    assert!(row.messages[2].content.starts_with("<tool_call>"), "{}", row.messages[2].content);
    assert!(row.messages[2].tool_calls.is_some());
    assert_eq!((row.messages[3].content.as_str(), row.answer.as_deref(), row.reward), ("2", Some("2"), 1.0));
    assert_eq!((row.turns, row.tool_calls, row.tool_errors, played[1].tokens), (2, 1, 0, 10));
    let body = &served.bodies()[0];
    assert_eq!(body["tools"][0]["function"]["name"], "calculator");
    assert_eq!(body["messages"][0]["role"], "user", "the server receives the tools, so no message describes them");
    let second = served.bodies().into_iter().find(|body| last(body)["role"] == "tool").unwrap();
    assert_eq!(last(&second)["tool_call_id"], "c1");
}

#[test]
fn text_mode_parses_calls_from_the_text() {
    const CALL: &str = "<tool_call>{\"name\": \"calculator\", \"arguments\": {\"expression\": \"0+1\"}}</tool_call>";
    let served = MockChatServer::start(|body, _| {
        let text = last(body)["content"].as_str().unwrap().to_string();
        match text.strip_prefix("<tool_response>\n") {
            Some(result) => says(body, &format!("#### {}", result.split('\n').next().unwrap())),
            None => says(body, CALL),
        }
    });
    let played = played(&served, ModelCallMode::Text, &problems(1));
    assert!(played[0].correct && played[0].trajectory.tool_calls == 1, "{:?}", played[0].trajectory);
    let body = &served.bodies()[0];
    assert!(body.get("tools").is_none() && body["messages"][0]["role"] == "system");
}

#[test]
fn unknown_tools_are_tool_errors_and_rejected_requests_are_infrastructure_failures() {
    let served = MockChatServer::start(|body, _| {
        let text = last(body)["content"].as_str().unwrap().to_string();
        if text.contains("What is 0") {
            return MockResponse::Status(400, "the context is full");
        }
        // The model calls an unknown tool again and again.
        calls(body, "", "abacus", &json!({"beads": 3}))
    });
    let played = played(&served, ModelCallMode::Native, &problems(2));
    let (refused, lost) = (&played[0], &played[1].trajectory);
    assert_eq!(
        (refused.trajectory.status, refused.trajectory.stop_reason),
        (EpisodeStatus::Infrastructure, StopReason::Error)
    );
    assert!(refused.failure.as_ref().unwrap().message.contains("the context is full"));
    assert_eq!(
        (lost.status, lost.stop_reason, lost.turns, lost.tool_errors),
        (EpisodeStatus::Ok, StopReason::Turns, 4, 3)
    );
    assert!(lost.messages[3].content.contains("no tool `abacus`"));
}
