use super::task::RESOLVED;
use super::*;
use crate::environments::{Environment, EpisodeStep, Observation, Outcome};
use serde_json::{Value, json};
use trainyard_core::ErrorKind;
use trainyard_tables::{Message, StopReason};

fn environment(options: &Value) -> CustomerService {
    CustomerService::new(serde_json::from_value(options.clone()).unwrap(), &EnvironmentSetup::standard(1)).unwrap()
}

fn problem(task: Value) -> Problem {
    let task: CustomerTask = serde_json::from_value(task).unwrap();
    Problem {
        id: "p".to_string(),
        messages: vec![Message::new("user", task.user.reason.as_str())],
        answer: RESOLVED.to_string(),
        verifier: task.verifier().unwrap(),
        ..Problem::default()
    }
}

/// Returns the task of Ada, who wants to cancel order #W1000001 and to learn the refund.
pub fn cancelling() -> Problem {
    problem(json!({
        "user": {"reason": "Cancel #W1000001. How much do I get back?", "known": "I am Ada Moss, 12207.",
            "unknown": "I do not know my email."},
        "actions": [
            {"name": "find_user_id_by_email", "arguments": {"email": "ada@example.com"}},
            {"name": "find_user_id_by_name_zip", "arguments": {"first_name": "Ada", "last_name": "Moss",
                "zip": "12207"}},
            {"name": "cancel_pending_order", "arguments": {"order_id": "#W1000001", "reason": "no longer needed"}},
        ],
        "communicate": ["47"],
    }))
}

pub fn call(name: &str, arguments: Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
}

pub fn cancel(reason: &str) -> String {
    call("cancel_pending_order", json!({"order_id": "#W1000001", "reason": reason}))
}

/// Returns the observations before the end, and the outcome.
fn play(environment: &CustomerService, problem: &Problem, turns: &[&str]) -> (Vec<Observation>, Outcome) {
    let mut episode = environment.start(problem, 0).unwrap();
    let mut seen = Vec::new();
    for text in turns {
        match episode.step(&environment.format().parse(text)).unwrap() {
            EpisodeStep::Observe(observation) => seen.push(observation),
            EpisodeStep::Done(outcome) => return (seen, outcome),
            EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("these tools answer immediately"),
        }
    }
    panic!("the episode continues: {seen:?}");
}

#[test]
fn conversation_is_judged_by_actions_and_words() {
    let environment = environment(&json!({}));
    let problem = cancelling();
    let (asks, bye) = ("May I have your name and zip code?", "You get $47.00 back. Is there anything else?");
    let cancels = cancel("no longer needed");
    let (seen, done) = play(&environment, &problem, &[asks, &cancels, bye]);
    assert_eq!(
        seen[0],
        Observation { messages: vec![Message::new("user", "I am Ada Moss, 12207.")], tool_calls: 0, tool_errors: 0 }
    );
    assert_eq!((seen[1].messages[0].role.as_str(), seen[1].tool_calls), ("tool", 1));
    assert_eq!(
        (done.answer.as_deref(), done.stop, done.turns, done.tool_calls),
        (Some(RESOLVED), StopReason::Answer, 3, 1)
    );
    assert!(environment.verify(&problem, RESOLVED).unwrap());

    let answer = |turns: &[&str]| play(&environment, &problem, turns).1.answer.unwrap();
    assert_eq!(answer(&[&cancels, "Done. Anything else?"]), "not told: 47");
    assert_eq!(answer(&[bye]), "not as wanted: order `#W1000001`");
    let other = cancel("ordered by mistake");
    assert_eq!(answer(&[&other, "Done. Anything else?"]), "not as wanted: order `#W1000001`; not told: 47");
    assert!(!environment.verify(&problem, &answer(&[bye])).unwrap());
    // A claim of success does not count.
    assert_eq!(answer(&["resolved. Anything else?"]), "not as wanted: order `#W1000001`; not told: 47");
}

#[test]
fn communication_counts_only_if_enabled() {
    let environment = environment(&json!({"communication": false}));
    let cancels = cancel("no longer needed");
    assert_eq!(play(&environment, &cancelling(), &[&cancels, "It is cancelled."]).1.answer.as_deref(), Some(RESOLVED));
}

#[test]
fn a_transfer_ends_with_the_next_message() {
    let environment = environment(&json!({}));
    let task = json!({"user": {"reason": "I want my cancelled order back."},
        "actions": [{"name": "transfer_to_human_agents", "arguments": {"summary": "s"}}]});
    let transfer = call("transfer_to_human_agents", json!({"summary": "cannot be undone"}));
    let (seen, done) =
        play(&environment, &problem(task), &[&transfer, "YOU ARE BEING TRANSFERRED TO A HUMAN AGENT. PLEASE HOLD ON."]);
    assert_eq!(seen[0].messages, [Message::new("tool", "Transfer successful")]);
    assert_eq!((done.answer.as_deref(), done.turns), (Some(RESOLVED), 2));
}

#[test]
fn limits_and_silence_end_without_an_answer() {
    let environment = environment(&json!({"max_turns": 2, "max_tool_calls": 1}));
    let end = |turns: &[&str]| {
        let done = play(&environment, &cancelling(), turns).1;
        (done.answer, done.stop, done.turns)
    };
    let look = call("get_order_details", json!({"order_id": "#W1000001"}));
    assert_eq!(end(&["One moment.", "One moment."]), (None, StopReason::Turns, 2));
    assert_eq!(end(&[&look, &look]), (None, StopReason::Turns, 2));
    assert_eq!(end(&[&format!("{look}{look}")]), (None, StopReason::ToolLimit, 1));
    assert_eq!(end(&["<think> hm </think>"]), (None, StopReason::End, 1));
}

#[test]
fn agent_sees_errors_of_its_calls() {
    let environment = environment(&json!({}));
    let turns = [
        call("get_order_details", json!({"order_id": "#W9"})),
        call("fly", json!({})),
        "I cannot do that.".to_string(),
    ];
    let (seen, done) = play(&environment, &cancelling(), &turns.each_ref().map(String::as_str));
    assert_eq!(seen[0].messages[0].content, "error: order not found");
    assert!(seen[1].messages[0].content.starts_with("error: no tool `fly`; use one of: calculate, "));
    assert_eq!((done.tool_calls, done.tool_errors), (2, 2));
}

#[test]
fn user_does_not_hear_thoughts() {
    let environment = environment(&json!({"format": "toolrl"}));
    let turns = [
        "<think> I ask: anything else? </think>\n<response> What is your email? </response>",
        "<response> Is there anything else? </response>",
    ];
    let (seen, _) = play(&environment, &cancelling(), &turns);
    assert_eq!(seen[0].messages[0].content, "I am Ada Moss, 12207. I do not know my email.");
}

/// Tests dual control: only the user can change the lamp, so the agent must request the change.
#[test]
fn user_actions_count() {
    let environment = environment(&json!({}));
    let task = json!({
        "user": {
            "reason": "My lamp of #W1000002 stays dark.",
            "tools": [
                {"name": "plug_in", "when": ["plug"], "sets": {"plug": "in"}, "says": "It is plugged in."},
                {"name": "switch_on", "when": ["switch"], "needs": {"plug": "in"}, "sets": {"lamp": "on"},
                    "says": "It shines!", "refuses": "Nothing happens."},
            ],
            "state": {"lamp": "off", "plug": "out"},
        },
        "actions": [{"name": "plug_in", "requestor": "user"}, {"name": "switch_on", "requestor": "user"}],
    });
    let problem = problem(task);
    let (switch, plug, bye) = ("Please switch it on.", "Please plug it in.", "Anything else?");
    let (seen, done) = play(&environment, &problem, &[switch, plug, switch, bye]);
    let replies: Vec<&str> = seen.iter().map(|o| o.messages[0].content.as_str()).collect();
    assert_eq!(replies, ["Nothing happens.", "It is plugged in.", "It shines!"]);
    assert_eq!(done.answer.as_deref(), Some(RESOLVED));
    assert_eq!(
        play(&environment, &problem, &[plug, bye]).1.answer.as_deref(),
        Some("not as wanted: the user's own things")
    );
}

#[test]
fn failing_gold_actions_are_reported() {
    let task = CustomerTask::of_problem(&problem(json!({
        "actions": [
            {"name": "find_user_id_by_email", "arguments": {"email": "nobody@example.com"}},
            {"name": "cancel_pending_order", "arguments": {"order_id": "#W2000002", "reason": "no longer needed"}},
            {"name": "think", "arguments": {}},
            {"name": "dance", "requestor": "user"},
        ],
    })))
    .unwrap();
    let base = Arc::new(ShopDatabase::made_up().unwrap());
    let after = score::replay(&base, &task);
    assert_eq!(
        after.failed.iter().map(|f| (f.index, f.changes)).collect::<Vec<_>>(),
        [(0, false), (1, true), (2, true), (3, true)]
    );
    assert!(after.shop.differences(&database::Shop::new(base)).is_empty());
}

#[test]
fn errors_name_files_and_problems() {
    let environment = environment(&json!({}));
    let e = environment
        .start(&Problem { id: "q7".to_string(), verifier: "{}".to_string(), ..Problem::default() }, 0)
        .err()
        .unwrap();
    assert!(e.kind == ErrorKind::Data && e.message.contains("q7"), "{e}");
    let unknown = r#"{"kind": "text", "task": {"mood": "bad"}}"#;
    assert!(
        CustomerTask::of_problem(&Problem { verifier: unknown.to_string(), ..Problem::default() })
            .unwrap_err()
            .message
            .contains("mood")
    );
    let mut missing = CustomerServiceOptions::default();
    missing.extra.database = "no/such/db.json".to_string();
    let e = CustomerService::new(missing, &EnvironmentSetup::standard(1)).err().unwrap();
    assert!(e.kind == ErrorKind::Invalid && e.message.contains("no/such/db.json"), "{e}");
    let checked =
        crate::environments::family().check(&json!({"kind": "customer-service", "format": "code", "max_turns": 0}));
    assert_eq!(checked.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/format", "/max_turns"]);
}

#[test]
fn prompt_has_policy_tools_and_first_user_message() {
    let prompt = environment(&json!({})).prompt(&cancelling()).unwrap();
    assert_eq!(prompt.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["system", "user"]);
    assert!(
        prompt[0].content.starts_with("You answer customers") && prompt[0].content.contains("cancel_pending_order")
    );
    assert!(prompt[1].content.starts_with("Cancel #W1000001."));
}
