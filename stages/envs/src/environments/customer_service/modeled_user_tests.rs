use super::super::tests::{call, cancel, cancelling};
use super::*;
use crate::environments::customer_service::CustomerService;
use crate::environments::{DialogueEnvironment, Environment, EnvironmentSetup, Episode, EpisodeStep};
use serde_json::{Value, json};
use trainyard_core::ErrorKind;
use trainyard_tables::{EpisodeStatus, StopReason};
use trainyard_testkit::chat::{MockChatServer, MockResponse, says};

const LONG: Duration = Duration::from_secs(20);

fn environment(server: &MockChatServer, more: &Value) -> CustomerService {
    let mut user = json!({"endpoint": server.url(), "model": "m", "attempts": 1});
    user.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    CustomerService::new(serde_json::from_value(json!({ "user": user })).unwrap(), &EnvironmentSetup::standard(1))
        .unwrap()
}

/// Returns the step after a turn, once the user has replied.
fn step(environment: &CustomerService, episode: &mut dyn Episode, text: &str) -> EpisodeStep {
    match episode.step(&environment.format().parse(text)).unwrap() {
        EpisodeStep::Pending => episode.poll(LONG).unwrap().expect("an answer within the time"),
        step => step,
    }
}

/// Returns the last message that the agent sees.
fn last_message(step: &EpisodeStep) -> &str {
    match step {
        EpisodeStep::Observe(seen) => &seen.messages.last().unwrap().content,
        other => panic!("{other:?}"),
    }
}

/// Returns a user who gives their name, then confirms, then leaves.
fn ada() -> MockChatServer {
    MockChatServer::start(|body, _| {
        let messages = body["messages"].as_array().unwrap();
        let last = messages.last().unwrap()["content"].as_str().unwrap();
        let answer = if last.contains("name") {
            "Ada Moss, 12207."
        } else if last.contains("back") {
            "Thanks! ###STOP###"
        } else {
            "Yes, cancel it."
        };
        says(body, answer)
    })
}

#[test]
fn model_plays_the_user_until_it_leaves() {
    let (server, problem) = (ada(), cancelling());
    let environment = environment(&server, &json!({"temperature": 0}));
    let mut episode = environment.start(&problem, 0).unwrap();
    assert_eq!(
        last_message(&step(&environment, &mut *episode, "<think>who?</think>Your name, please.")),
        "Ada Moss, 12207."
    );
    assert_eq!(last_message(&step(&environment, &mut *episode, "Shall I cancel #W1000001?")), "Yes, cancel it.");
    assert!(matches!(step(&environment, &mut *episode, &cancel("no longer needed")), EpisodeStep::Observe(_)));
    let EpisodeStep::Done(outcome) = step(&environment, &mut *episode, "You get $47.00 back.") else { panic!() };
    assert_eq!((outcome.answer.as_deref(), outcome.turns, outcome.tool_calls), (Some("resolved"), 4, 1));

    let bodies = server.bodies();
    let roles: Vec<&str> =
        bodies[1]["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
    let instructions = bodies[0]["messages"][0]["content"].as_str().unwrap();
    assert!(
        instructions.contains("I am Ada Moss")
            && instructions.contains("I do not know my email")
            && instructions.contains(STOP),
        "{instructions}"
    );
    assert_eq!(bodies[0]["messages"][3]["content"], "Your name, please.", "thoughts are not sent");
}

#[test]
fn equal_conversations_share_replies_and_forks_continue_separately() {
    let (server, problem) = (ada(), cancelling());
    let environment = environment(&server, &json!({}));
    let mut first = environment.start(&problem, 0).unwrap();
    step(&environment, &mut *first, "Your name?");
    let mut second = environment.start(&problem, 1).unwrap();
    step(&environment, &mut *second, "Your name?");
    assert_eq!(server.requests(), 1);
    let mut fork = first.fork().unwrap();
    assert_eq!(last_message(&step(&environment, &mut *fork, "Shall I?")), "Yes, cancel it.");
    assert!(matches!(step(&environment, &mut *first, "I cannot give it back."), EpisodeStep::Done(_)));
    assert_eq!(server.bodies().last().unwrap()["messages"].as_array().unwrap().len(), 6, "the fork's turn is its own");
}

#[test]
fn tools_of_the_user_stay_scripted() {
    let server = ada();
    let environment = environment(&server, &json!({}));
    let mut problem = cancelling();
    let mut verifier: Value = serde_json::from_str(&problem.verifier).unwrap();
    verifier["task"]["user"]["tools"] =
        json!([{"name": "restart", "when": ["restart"], "sets": {"phone": "on"}, "says": "It is on again."}]);
    problem.verifier = verifier.to_string();
    let mut episode = environment.start(&problem, 0).unwrap();
    assert_eq!(last_message(&step(&environment, &mut *episode, "Please restart it.")), "It is on again.");
    assert_eq!(server.requests(), 0);
    step(&environment, &mut *episode, "Your name?");
    assert_eq!(server.bodies()[0]["messages"][4]["content"], "It is on again.");
}

#[test]
fn rejected_requests_lose_the_episode_and_unavailable_servers_end_the_stage() {
    let refuses = MockChatServer::start(|_, _| MockResponse::Status(400, "the conversation is too long"));
    let unavailable = MockChatServer::start(|_, _| MockResponse::Status(503, "away"));
    let silent = MockChatServer::start(|body, _| says(body, ""));
    let problem = cancelling();
    let rejected = environment(&refuses, &json!({}));
    let EpisodeStep::Done(outcome) = step(&rejected, &mut *rejected.start(&problem, 0).unwrap(), "Hello?") else {
        panic!()
    };
    assert_eq!((outcome.status, outcome.stop), (EpisodeStatus::Infrastructure, StopReason::Error));

    let without_server = environment(&unavailable, &json!({}));
    let mut episode = without_server.start(&problem, 0).unwrap();
    let error = match episode.step(&without_server.format().parse("Hello?")) {
        Ok(EpisodeStep::Pending) => episode.poll(LONG).unwrap_err(),
        other => panic!("{other:?}"),
    };
    assert!(error.kind == ErrorKind::Retryable && error.to_string().contains("customer"), "{error}");

    let without_reply = environment(&silent, &json!({}));
    let EpisodeStep::Done(outcome) = step(&without_reply, &mut *without_reply.start(&problem, 0).unwrap(), "Hello?")
    else {
        panic!()
    };
    assert_eq!(outcome.answer.as_deref(), Some("not as wanted: order `#W1000001`; not told: 47"));
}

#[test]
fn calls_send_no_request_and_options_are_checked() {
    let server = ada();
    let environment = environment(&server, &json!({}));
    let mut episode = environment.start(&cancelling(), 0).unwrap();
    let found = call("find_user_id_by_email", json!({"email": "ada@example.com"}));
    assert!(matches!(step(&environment, &mut *episode, &found), EpisodeStep::Observe(_)));
    assert_eq!(server.requests(), 0);
    assert!(environment.dialogue().options().describe_tools);

    let pointers = |options: Value| -> Vec<String> {
        let family = crate::environments::family();
        family.check(&options).into_iter().map(|problem| problem.pointer).collect()
    };
    let kind = "customer-service";
    assert!(pointers(json!({"kind": kind, "user": {"endpoint": "http://h", "model": "m"}})).is_empty());
    assert_eq!(
        pointers(json!({"kind": kind, "user": {"endpoint": "here", "model": ""}})),
        ["/user/endpoint", "/user/model"]
    );
    assert_eq!(pointers(json!({"kind": kind, "user_prompt": "Be kind."})), ["/user_prompt"]);
}
