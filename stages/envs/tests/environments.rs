//! Tests environments with their tools: the conformance suite, dialogue rules, and generated problems in real tools.

mod kit;

use kit::{PATIENCE, ask, host, limits, session};
use serde_json::{Value, json};
use trainyard_core::Chance;
use trainyard_envs::conformance::{AgentScript, check, generated};
use trainyard_envs::environments::word_problems::generator::{MAX_LEVEL, Mistake, generate};
use trainyard_envs::{AgentTurn, Environment, EpisodeStep, Outcome, environments};
use trainyard_tables::{EpisodeStatus, Message, Problem, StopReason};

fn problem(answer: &str) -> Problem {
    Problem {
        id: "p".to_string(),
        messages: vec![Message::new("user", "12 and 7?")],
        answer: answer.to_string(),
        verifier: "{}".to_string(),
        ..Problem::default()
    }
}

fn environment(options: Value) -> Box<dyn Environment> {
    environments::family().build(&options, &host(1)).unwrap()
}

fn play(environment: &dyn Environment, turns: &[&str]) -> (Vec<Message>, Outcome) {
    let mut episode = environment.start(&problem("19"), 0).unwrap();
    let mut messages = Vec::new();
    for text in turns {
        let step = episode.step(&environment.format().parse(text)).unwrap();
        let step = if step == EpisodeStep::Pending { episode.poll(PATIENCE).unwrap().unwrap() } else { step };
        match step {
            EpisodeStep::Observe(o) => messages.extend(o.messages),
            EpisodeStep::Done(outcome) => return (messages, outcome),
            EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("still pending"),
        }
    }
    panic!("the episode goes on");
}

/// An environment's options and an agent that solves a problem with them.
struct Case {
    options: Value,
    problem: Problem,
    turns: Vec<String>,
    disturbance: String,
}

impl Case {
    fn new(options: Value, problem: Problem, turns: &[&str], disturbance: &str) -> Self {
        Self {
            options,
            problem,
            turns: turns.iter().map(|turn| (*turn).to_string()).collect(),
            disturbance: disturbance.to_string(),
        }
    }
}

/// Returns test cases for each relevant tool and format; empty for an environment without a script.
fn cases(kind: &str) -> Vec<Case> {
    match kind {
        "countdown" => countdown(),
        "customer-service" => vec![customer_service()],
        "function-calling" => function_calling(),
        "grid-world" => grid_world(),
        "math-problems" => vec![
            with_python(json!({"kind": kind, "tools": ["python"]})),
            with_calculator(json!({"kind": kind})),
            with_both(
                json!({"kind": kind, "tools": ["calculator", "python"], "format": "hermes", "describe_tools": true}),
            ),
        ],
        "multi-hop-questions" => {
            ["code", "hermes"].map(|format| questions(kind, format, 2, json!({"query": "river"}))).into()
        }
        "sql-questions" => {
            ["code", "hermes"].map(|format| questions(kind, format, 5, json!({"query": "SELECT 1"}))).into()
        }
        "word-problems" => vec![
            with_python(json!({"kind": kind})),
            with_python(json!({"kind": kind, "latency": {"least_millis": 1, "most_millis": 3}})),
            with_calculator(json!({"kind": kind, "tools": ["calculator"]})),
        ],
        _ => Vec::new(),
    }
}

#[test]
fn every_environment_passes_conformance() {
    // The programs of `process` are in `processes.rs`, the services of `http` in `services.rs`.
    for kind in environments::family().names().into_iter().filter(|kind| !["http", "process"].contains(kind)) {
        let cases = cases(kind);
        assert!(!cases.is_empty(), "`{kind}` has no script: add one to `cases`");
        for Case { options, problem, turns, disturbance } in cases {
            let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
            let script = AgentScript { problem: &problem, turns: &turns, disturbance: &disturbance };
            check(&*environment(options.clone()), &script).unwrap_or_else(|e| panic!("{options}: {e}"));
        }
    }
}

fn with_python(options: Value) -> Case {
    let turns = ["<tool_call>x=12\nx+=7\nx</tool_call>", "<tool_call>x*=2\nx</tool_call>", "38"];
    Case::new(options, problem("38"), &turns, "<tool_call>x=0\nx</tool_call>")
}

fn with_calculator(options: Value) -> Case {
    Case::new(options, problem("38"), &["<tool_call>(12+7)*2</tool_call>", "#### 38"], "<tool_call>1</tool_call>")
}

fn with_both(options: Value) -> Case {
    let turns = [
        "<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"x=19\"}}\n</tool_call>",
        "<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"x*2\"}}</tool_call><tool_call>{\"name\": \
         \"calculator\", \"arguments\": {\"expression\": \"19*2\"}}</tool_call>",
        "so\n#### 38",
    ];
    let disturbance = "<tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"x=0\"}}</tool_call>";
    Case::new(options, problem("38"), &turns, disturbance)
}

fn countdown() -> Vec<Case> {
    let problem = Problem { verifier: json!({"kind": "countdown"}).to_string(), ..problem("(12+7)*2-7") };
    let turns = ["<tool_call>12+7-2</tool_call>", "<tool_call>(12+7)*2-7</tool_call>", "so\n#### 2*(7+12)-7"];
    let case = |options: Value| Case::new(options, problem.clone(), &turns, "<tool_call>1</tool_call>");
    vec![case(json!({"kind": "countdown"})), case(json!({"kind": "countdown", "tools": ["python"]}))]
}

fn grid_world() -> Vec<Case> {
    let way = ["north", "east", "east", "pick up", "open", "south", "south", "west", "west"];
    let code = way.map(|action| format!("<tool_call>{action}</tool_call>"));
    let hermes = way.map(|action| {
        format!("<tool_call>{{\"name\": \"act\", \"arguments\": {{\"action\": \"{action}\"}}}}</tool_call>")
    });
    let case = |(format, texts): (&str, [String; 9])| {
        let turns = texts.each_ref().map(String::as_str);
        Case::new(json!({"kind": "grid-world", "format": format}), grid(), &turns, turns[1])
    };
    [("code", code), ("hermes", hermes)].map(case).into()
}

fn function_calling() -> Vec<Case> {
    let gold = r#"[{"name":"b","arguments":{}},{"name":"a","arguments":{"x":1}}]"#;
    let problem = Problem { verifier: format!(r#"{{"kind":"calls","gold":{gold}}}"#), ..problem(gold) };
    let toolrl = "<think> both </think>\n<tool_call>\n{\"name\": \"a\", \"parameters\": {\"x\": 1}}\n{\"name\": \"b\", \
     \"parameters\": {}}\n</tool_call>";
    let hermes = "<tool_call>{\"name\": \"a\", \"arguments\": {\"x\": 1}}</tool_call><tool_call>{\"name\": \"b\", \
     \"arguments\": {}}</tool_call>";
    let case = |(format, text): (&str, &str)| {
        Case::new(json!({"kind": "function-calling", "format": format}), problem.clone(), &[text], text)
    };
    [("toolrl", toolrl), ("hermes", hermes)].map(case).into()
}

/// Returns a case whose script contains calls and words.
fn customer_service() -> Case {
    let call = |name: &str, arguments: Value| {
        format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
    };
    let cancel = |reason: &str| call("cancel_pending_order", json!({"order_id": "#W1000001", "reason": reason}));
    let task = json!({
        "user": {"reason": "Please cancel #W1000001.", "known": "I am Ada Moss, ada.moss@example.com."},
        "actions": [{"name": "cancel_pending_order", "arguments": {"order_id": "#W1000001",
            "reason": "no longer needed"}}],
        "communicate": ["47"],
    });
    let problem = Problem { verifier: json!({"kind": "text", "task": task}).to_string(), ..problem("resolved") };
    let (look, right, other) = (
        call("get_order_details", json!({"order_id": "#W1000001"})),
        cancel("no longer needed"),
        cancel("ordered by mistake"),
    );
    let turns = [
        look.as_str(),
        "What is your email?",
        "Shall I cancel it?",
        right.as_str(),
        "You get 47 dollars back. Is there anything else?",
    ];
    Case::new(json!({"kind": "customer-service"}), problem, &turns, &other)
}

/// Returns a generated question with its mistaken demonstration as the script.
fn questions(kind: &str, format: &str, level: u32, other: Value) -> Case {
    let options = json!({"kind": kind, "format": format});
    let environment = environment(options.clone());
    let generator = environment.generator().unwrap();
    let (problem, chance) = (generator.problem(level, 0, &Chance::new(1)), Chance::new(2));
    let scripted = generator.demonstration(level, 0, &Chance::new(1), 1.0, &chance);
    assert!(scripted.mistaken, "{kind}");
    let turns = scripted.turns.iter().map(|turn| turn.text(environment.format(), &problem.answer)).collect();
    let call = trainyard_envs::ToolCall { name: environment.tools()[0].name.clone(), arguments: other };
    let disturbance = environment.format().render(&call);
    Case { options, problem, turns, disturbance }
}

fn grid() -> Problem {
    Problem { verifier: json!({"kind": "text", "layout": "A.K\n##D\nG.."}).to_string(), ..problem("reached") }
}

#[test]
fn only_the_grid_decides_when_the_goal_is_reached() {
    let environment = environment(json!({"kind": "grid-world", "max_turns": 12}));
    let walk = |turns: &[&str]| {
        let mut episode = environment.start(&grid(), 0).unwrap();
        let mut seen = Vec::new();
        for text in turns {
            match episode.step(&environment.format().parse(text)).unwrap() {
                EpisodeStep::Observe(o) => seen.extend(o.messages.into_iter().map(|m| m.content)),
                EpisodeStep::Done(outcome) => return (seen, Some(outcome)),
                EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("the grid answers at once"),
            }
        }
        (seen, None)
    };
    let calls = |actions: &[&str]| actions.iter().map(|a| format!("<tool_call>{a}</tool_call>")).collect::<String>();
    let (seen, end) =
        walk(&["<tool_call>East</tool_call>", "<tool_call>fly</tool_call>", "<tool_call>north</tool_call>", "reached"]);
    assert_eq!(seen[0], "at 2,1: north wall, east key, south wall, west floor");
    assert_eq!(seen[1], "error: no such action; use one of: north, east, south, west, pick up, open, look");
    assert_eq!(seen[2], "error: a wall is in the way; at 2,1: north wall, east key, south wall, west floor");
    let end = end.unwrap();
    assert_eq!((end.answer, end.stop, end.tool_calls, end.tool_errors), (None, StopReason::End, 3, 2));
    let (_, end) = walk(&[&calls(&["east", "east", "pick up", "open", "south", "south"]), &calls(&["west", "west"])]);
    let end = end.unwrap();
    assert_eq!(
        (end.answer.as_deref(), end.stop, end.turns, end.tool_calls),
        (Some("reached"), StopReason::Answer, 2, 8)
    );
    assert_eq!(environment.read_answer("reached"), None);
    for verifier in ["", "{}", r#"{"kind": "text", "layout": "A"}"#] {
        let broken = Problem { verifier: verifier.to_string(), ..grid() };
        assert!(environment.start(&broken, 0).is_err_and(|e| e.message.starts_with("problem `p`: ")), "{verifier}");
    }
}

#[test]
fn every_generator_passes_conformance() {
    let kinds = environments::generating(&environments::family());
    assert!(
        ["countdown", "function-calling", "grid-world", "word-problems"].iter().all(|kind| kinds.contains(kind)),
        "{kinds:?}"
    );
    for kind in kinds {
        generated::check(&*environment(json!({"kind": kind})), 20, &Chance::new(3))
            .unwrap_or_else(|e| panic!("{kind}: {e}"));
    }
    let others = [
        json!({"kind": "countdown", "tools": ["python"], "format": "hermes"}),
        json!({"kind": "function-calling", "format": "hermes", "listing": "full"}),
        json!({"kind": "grid-world", "format": "hermes"}),
        json!({"kind": "multi-hop-questions", "format": "hermes"}),
        json!({"kind": "multi-hop-questions", "known_share": 0.5, "top_k": 1}),
        json!({"kind": "sql-questions", "format": "hermes"}),
        json!({"kind": "word-problems", "tools": ["calculator"]}),
        json!({"kind": "word-problems", "tools": ["python", "calculator"], "format": "hermes"}),
    ];
    for options in others {
        generated::check(&*environment(options.clone()), 10, &Chance::new(4))
            .unwrap_or_else(|e| panic!("{options}: {e}"));
    }
    assert!(generated::check(&*environment(json!({"kind": "math-problems"})), 1, &Chance::new(5)).is_err());
}

#[test]
fn the_prompt_has_a_system_message_only_on_request() {
    let plain = environment(json!({"kind": "word-problems"}));
    assert_eq!(plain.prompt(&problem("19")).unwrap(), problem("19").messages);
    let described = environment(json!({"kind": "word-problems", "system": "Be brief.", "describe_tools": true}))
        .prompt(&problem("19"))
        .unwrap();
    assert_eq!((described.len(), described[0].role.as_str()), (2, "system"));
    assert!(described[0].content.starts_with("Be brief.\n\n") && described[0].content.contains("subset of Python 3"));
}

#[test]
fn episodes_end_in_every_way() {
    let environment = environment(
        json!({"kind": "word-problems", "max_turns": 3, "max_tool_calls": 2, "limits": {"time_millis": 100}}),
    );
    let end = |turns: &[&str]| play(&*environment, turns).1;
    let call = "<tool_call>12+7</tool_call>";
    let done = |answer: Option<&str>, stop, turns, tool_calls, tool_errors| Outcome {
        answer: answer.map(str::to_string),
        stop,
        status: EpisodeStatus::Ok,
        turns,
        tool_calls,
        tool_errors,
        ..Outcome::default()
    };
    assert_eq!(end(&["19"]), done(Some("19"), StopReason::Answer, 1, 0, 0));
    assert_eq!(end(&[call, "#### 19"]), done(Some("19"), StopReason::Answer, 2, 1, 0));
    assert_eq!(end(&[" \n"]), done(None, StopReason::End, 1, 0, 0));
    assert_eq!(end(&[call, call, call]), done(None, StopReason::Turns, 3, 2, 0));
    assert_eq!(end(&[&format!("{call}{call}{call}")]), done(None, StopReason::ToolLimit, 1, 0, 0));
    assert_eq!(end(&["<tool_call>12+", "19"]), done(Some("19"), StopReason::Answer, 2, 1, 1));
    assert_eq!(end(&["<tool_call>12+y</tool_call>", "19"]), done(Some("19"), StopReason::Answer, 2, 1, 1));
    let late = end(&["<tool_call>while True: pass</tool_call>", "19"]);
    assert_eq!(
        (late.stop, late.status, late.tool_errors, late.timed_out),
        (StopReason::Error, EpisodeStatus::Infrastructure, 1, true)
    );
    let mut episode = environment.start(&problem("19"), 0).unwrap();
    let cut = AgentTurn { truncated: true, ..environment.format().parse("<tool_call>12") };
    assert_eq!(episode.step(&cut).unwrap(), EpisodeStep::Done(done(None, StopReason::Length, 1, 0, 0)));
}

#[test]
fn agent_sees_errors_of_its_calls() {
    let environment = environment(json!({"kind": "math-problems", "tools": ["python"], "format": "hermes"}));
    let (messages, outcome) = play(
        &*environment,
        &[
            "<tool_call>{</tool_call><tool_call>{\"name\": \"abacus\", \"arguments\": {}}</tool_call>\
             <tool_call>{\"name\": \"python\", \"arguments\": {\"code\": \"19\"}}</tool_call>",
            "19",
        ],
    );
    assert_eq!(messages.iter().map(|m| m.role.as_str()).collect::<Vec<_>>(), ["tool"; 3]);
    assert!(messages[0].content.starts_with("error: the tool call is no JSON"));
    assert_eq!(messages[1].content, "error: no tool `abacus`; use one of: python");
    assert_eq!(messages[2].content, "19");
    assert_eq!((outcome.tool_calls, outcome.tool_errors), (3, 2));
}

/// Checks that the real interpreter runs the reference of every generated problem and reports each of its mistakes.
#[test]
fn generated_programs_run_as_they_claim() {
    let host = host(2);
    let chance = Chance::new(5);
    let mut s = session(&host, &limits());
    for level in 1..=MAX_LEVEL {
        for index in 0..400 {
            let generated = generate(level, index, &chance);
            let answer = &generated.problem.answer;
            // Every eighth problem runs its attempts in a new session.
            if index % 8 == 0 {
                s = session(&host, &limits());
                for attempt in generated.attempts(1.0, &chance.child("attempt", &[u64::from(level), index])) {
                    let result = ask(&mut *s, &attempt.lines.join("\n"));
                    match attempt.mistake {
                        None => assert_eq!((&result.text, result.error), (answer, false)),
                        Some(mistake) => {
                            let name = if mistake == Mistake::Syntax { "SyntaxError" } else { "NameError" };
                            assert!(result.error && result.text.starts_with(name), "{attempt:?}: {result:?}");
                        }
                    }
                }
            }
            assert_eq!(ask(&mut *s, &generated.program()).text, *answer);
            assert_eq!(ask(&mut *s, &generated.one_expression).text, *answer);
        }
    }
}

/// If only the result revealed a mistake, a demonstration would teach an incorrect program and an unprompted second
/// one.
#[test]
fn word_problem_mistakes_are_tool_errors() {
    let environment = environment(json!({"kind": "word-problems"}));
    let generator = environment.generator().unwrap();
    let chance = Chance::new(8);
    for level in 1..=MAX_LEVEL {
        for index in 0..40 {
            let made = generator.demonstration(
                level,
                index,
                &chance,
                1.0,
                &chance.child("mistake", &[u64::from(level), index]),
            );
            let mut episode = environment.start(&generator.problem(level, index, &chance), 0).unwrap();
            let step =
                episode.step(&environment.format().parse(&made.turns[0].text(environment.format(), ""))).unwrap();
            let step = if step == EpisodeStep::Pending { episode.poll(PATIENCE).unwrap().unwrap() } else { step };
            assert!(matches!(&step, EpisodeStep::Observe(seen) if seen.tool_errors == 1), "{made:?}: {step:?}");
        }
    }
}
