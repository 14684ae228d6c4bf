//! Environments with their tools: the conformance suite, the dialogue's rules, and generated problems run for real.

mod kit;

use kit::{PATIENCE, ask, host, limits, session};
use serde_json::json;
use trainyard_core::Chance;
use trainyard_envs::conformance::{Script, check};
use trainyard_envs::environments::word_problems::generator::{MAX_LEVEL, Mistake, generate};
use trainyard_envs::{AgentTurn, Environment, Outcome, Step, environments};
use trainyard_tables::{Message, Problem, Status, StopReason};

fn problem(answer: &str) -> Problem {
    Problem {
        id: "p".to_string(),
        messages: vec![Message::new("user", "12 and 7?")],
        answer: answer.to_string(),
        verifier: "{}".to_string(),
        ..Problem::default()
    }
}

fn environment(options: serde_json::Value) -> Box<dyn Environment> {
    environments::build(&options, &host(1)).unwrap()
}

fn play(environment: &dyn Environment, turns: &[&str]) -> (Vec<Message>, Outcome) {
    let mut episode = environment.start(&problem("19"), 0).unwrap();
    let mut messages = Vec::new();
    for text in turns {
        let step = episode.step(&environment.format().parse(text)).unwrap();
        let step = if step == Step::Pending { episode.poll(PATIENCE).unwrap() } else { step };
        match step {
            Step::Observe(o) => messages.extend(o.messages),
            Step::Done(outcome) => return (messages, outcome),
            Step::Pending => panic!("still pending"),
        }
    }
    panic!("the episode goes on");
}

#[test]
fn every_environment_conforms_with_every_tool_and_format() {
    let problem = problem("38");
    let script = Script {
        problem: &problem,
        turns: &["<tool_call>x=12\nx+=7\nx</tool_call>", "<tool_call>x*=2\nx</tool_call>", "38"],
        disturbance: "<tool_call>x=0\nx</tool_call>",
    };
    check(&*environment(json!({"kind": "word-problems"})), &script).unwrap();
    check(&*environment(json!({"kind": "math-problems", "tools": ["python"]})), &script).unwrap();
    let script = Script { turns: &["<tool_call>(12+7)*2</tool_call>", "#### 38"], disturbance: "<tool_call>1</tool_call>", ..script };
    check(&*environment(json!({"kind": "word-problems", "tools": ["calculator"]})), &script).unwrap();
    check(&*environment(json!({"kind": "math-problems"})), &script).unwrap();
    let both = json!({"kind": "math-problems", "tools": ["calculator", "python"], "format": "hermes", "describe_tools": true});
    let script = Script {
        turns: &[
            "<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"x=19\"}}\n</tool_call>",
            "<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"x*2\"}}</tool_call><tool_call>{\"name\": \"calculator\", \"arguments\": {\"expression\": \"19*2\"}}</tool_call>",
            "so\n#### 38",
        ],
        disturbance: "<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"x=0\"}}</tool_call>",
        ..script
    };
    check(&*environment(both), &script).unwrap();
}

#[test]
fn the_prompt_has_a_system_message_only_on_request() {
    let plain = environment(json!({"kind": "word-problems"}));
    assert_eq!(plain.prompt(&problem("19")), problem("19").messages);
    let told = environment(json!({"kind": "word-problems", "system": "Be brief.", "describe_tools": true})).prompt(&problem("19"));
    assert_eq!((told.len(), told[0].role.as_str()), (2, "system"));
    assert!(told[0].content.starts_with("Be brief.\n\n") && told[0].content.contains("subset of Python 3"));
}

#[test]
fn every_way_an_episode_can_end() {
    let environment = environment(json!({"kind": "word-problems", "max_turns": 3, "max_tool_calls": 2, "limits": {"time_millis": 100}}));
    let end = |turns: &[&str]| play(&*environment, turns).1;
    let call = "<tool_call>12+7</tool_call>";
    let done = |answer: Option<&str>, stop, turns, tool_calls, tool_errors| Outcome {
        answer: answer.map(str::to_string),
        stop,
        status: Status::Ok,
        turns,
        tool_calls,
        tool_errors,
    };
    assert_eq!(end(&["19"]), done(Some("19"), StopReason::Answer, 1, 0, 0));
    assert_eq!(end(&[call, "#### 19"]), done(Some("19"), StopReason::Answer, 2, 1, 0));
    assert_eq!(end(&[" \n"]), done(None, StopReason::End, 1, 0, 0));
    assert_eq!(end(&[call, call, call]), done(None, StopReason::Turns, 3, 2, 0));
    assert_eq!(end(&[&format!("{call}{call}{call}")]), done(None, StopReason::ToolLimit, 1, 0, 0));
    assert_eq!(end(&["<tool_call>12+", "19"]), done(Some("19"), StopReason::Answer, 2, 1, 1));
    assert_eq!(end(&["<tool_call>12+y</tool_call>", "19"]), done(Some("19"), StopReason::Answer, 2, 1, 1));
    let lost = end(&["<tool_call>while True: pass</tool_call>", "19"]);
    assert_eq!((lost.stop, lost.status, lost.tool_errors), (StopReason::Error, Status::Infrastructure, 1));
    let mut episode = environment.start(&problem("19"), 0).unwrap();
    let cut = AgentTurn { truncated: true, ..environment.format().parse("<tool_call>12") };
    assert_eq!(episode.step(&cut).unwrap(), Step::Done(done(None, StopReason::Length, 1, 0, 0)));
}

#[test]
fn the_agent_sees_what_was_wrong_with_its_call() {
    let environment = environment(json!({"kind": "math-problems", "tools": ["python"], "format": "hermes"}));
    let (messages, outcome) = play(
        &*environment,
        &[
            "<tool_call>{</tool_call><tool_call>{\"name\": \"abacus\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"19\"}}</tool_call>",
            "19",
        ],
    );
    assert_eq!(messages.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["tool"; 3]);
    assert!(messages[0].content.starts_with("error: the tool call is no JSON"));
    assert_eq!(messages[1].content, "error: no tool `abacus`; use one of: python");
    assert_eq!(messages[2].content, "19");
    assert_eq!((outcome.tool_calls, outcome.tool_errors), (3, 2));
}

/// The reference of every generated problem, and what its mistakes do, in the real interpreter.
#[test]
fn generated_programs_run_as_they_claim() {
    let host = host(2);
    let chance = Chance::new(5);
    let mut s = session(&host, &limits());
    let mut wrong = 0;
    for level in 1..=MAX_LEVEL {
        for index in 0..400 {
            let generated = generate(level, index, &chance);
            let answer = &generated.problem.answer;
            // A session of its own for each, as in an episode.
            if index % 8 == 0 {
                s = session(&host, &limits());
                for attempt in generated.attempts(1.0, &chance.child("attempt", &[u64::from(level), index])) {
                    let result = ask(&mut *s, &attempt.lines.join("\n"));
                    match attempt.mistake {
                        None => assert_eq!((&result.text, result.error), (answer, false)),
                        Some(Mistake::UnknownName) => assert!(result.text.starts_with("NameError"), "{attempt:?}: {result:?}"),
                        Some(Mistake::Syntax) => assert!(result.text.starts_with("SyntaxError"), "{attempt:?}: {result:?}"),
                        Some(Mistake::WrongOperation) => {
                            wrong += 1;
                            assert!(!result.error && result.text != *answer, "{attempt:?}: {result:?}");
                        }
                    }
                }
            }
            assert_eq!(ask(&mut *s, &generated.program()).text, *answer);
            assert_eq!(ask(&mut *s, &generated.one_expression).text, *answer);
        }
    }
    assert!(wrong > 20);
}
