use super::catalog::{CATALOG, Domain};
use super::requests::{MAX_LEVEL, generate};
use super::*;
use crate::calls;
use crate::environments::family;
use crate::tools::ToolHost;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn environment(options: &Value) -> FunctionCalling {
    FunctionCalling::new(serde_json::from_value(options.clone()).unwrap(), &EnvironmentSetup::standard(1)).unwrap()
}

fn gold(answer: &str) -> Problem {
    Problem {
        answer: answer.to_string(),
        verifier: format!(r#"{{"kind":"calls","gold":{answer}}}"#),
        ..Problem::default()
    }
}

fn outcome(environment: &FunctionCalling, text: &str) -> Outcome {
    let mut episode = environment.start(&Problem::default(), 0).unwrap();
    match episode.step(&environment.format().parse(text)).unwrap() {
        EpisodeStep::Done(outcome) => outcome,
        other => panic!("the episode continues: {other:?}"),
    }
}

#[test]
fn the_turn_is_the_answer() {
    let environment = environment(&json!({}));
    let text = "<think> Two calls. </think>\n<tool_call>\n{\"name\": \"a\", \"parameters\": {\"x\": 1}}\n{\"name\": \
     \"b\", \"parameters\": {}}\n</tool_call>";
    let done = outcome(&environment, text);
    assert_eq!((done.stop, done.turns, done.tool_calls, done.tool_errors), (StopReason::Answer, 1, 2, 0));
    let problem = gold(r#"[{"name":"b","arguments":{}},{"name":"a","arguments":{"x":1.0}}]"#);
    assert!(environment.verify(&problem, done.answer.as_deref().unwrap()).unwrap());
    assert_eq!(environment.read_answer(text), done.answer);
    assert!(
        !environment.verify(&problem, environment.read_answer("<response> b </response>").as_deref().unwrap()).unwrap()
    );
}

#[test]
fn text_is_right_if_the_gold_list_is_empty() {
    let environment = environment(&json!({"format": "hermes"}));
    let done = outcome(&environment, "Which city do you mean?");
    assert_eq!((done.answer.as_deref(), done.stop, done.tool_calls), (Some("[]"), StopReason::Answer, 0));
    assert!(environment.verify(&gold("[]"), "[]").unwrap());
}

#[test]
fn unreadable_calls_have_no_answer() {
    let environment = environment(&json!({}));
    let end = |text: &str| {
        let done = outcome(&environment, text);
        (done.answer, done.stop, done.tool_calls, done.tool_errors)
    };
    assert_eq!(end(" \n"), (None, StopReason::End, 0, 0));
    let half = "<tool_call>\n{\"name\": \"a\", \"parameters\": {}}\n{\"name\"\n</tool_call>";
    assert_eq!(end(half), (None, StopReason::End, 2, 1));
    let mut episode = environment.start(&Problem::default(), 0).unwrap();
    let cut = AgentTurn { truncated: true, ..environment.format().parse("<response> I") };
    let EpisodeStep::Done(done) = episode.step(&cut).unwrap() else { panic!("the episode continues") };
    assert_eq!((done.answer, done.stop), (None, StopReason::Length));
    assert!(episode.step(&cut).is_err() && episode.fork().is_err());
    assert_eq!(episode.poll(Duration::ZERO), Ok(None));
}

#[test]
fn system_option_precedes_the_problems_system_message() {
    let environment = environment(&json!({"system": "Be quick."}));
    let user = Message::new("user", "Hi");
    let bare = Problem { messages: vec![user.clone()], ..Problem::default() };
    assert_eq!(environment.prompt(&bare).unwrap(), [Message::new("system", "Be quick."), user.clone()]);
    let with_system =
        Problem { messages: vec![Message::new("system", "Tools: none"), user.clone()], ..Problem::default() };
    assert_eq!(environment.prompt(&with_system).unwrap(), [Message::new("system", "Be quick.\n\nTools: none"), user]);
}

#[test]
fn single_tool_format_is_rejected() {
    let problems = family().check(&json!({"kind": "function-calling", "format": "code"}));
    assert_eq!(problems.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/format"]);
    assert!(family().build(&json!({"kind": "function-calling", "listing": "some"}), &ToolHost::new(1)).is_err());
}

#[test]
fn catalog_is_sorted_and_phrases_name_every_parameter_once() {
    assert!(CATALOG.iter().map(|f| f.name).is_sorted());
    let mut phrases = BTreeSet::new();
    for function in &CATALOG {
        assert!(function.parameters.iter().map(|p| p.name).is_sorted(), "{}", function.name);
        for request in function.requests {
            assert!(phrases.insert(*request), "{request}");
            assert!(request.starts_with(|c: char| c.is_ascii_lowercase()), "{request}");
            for parameter in function.parameters {
                assert_eq!(request.matches(&format!("{{{}}}", parameter.name)).count(), 1, "{request}");
            }
            assert_eq!(request.matches('{').count(), function.parameters.len(), "{request}");
        }
    }
}

#[test]
fn requests_contain_every_value_and_describe_every_function() {
    let environment = environment(&json!({}));
    let generator: &dyn ProblemGenerator = &environment;
    let chance = Chance::new(3);
    for level in 1..=MAX_LEVEL {
        for index in 0..200 {
            let generated = generate(level, index, &chance);
            let problem = generator.problem(level, index, &chance);
            let question = problem.question();
            let calls = generated.calls();
            let counts: Vec<usize> = calls.iter().map(|c| c.arguments.as_object().unwrap().len()).collect();
            match level {
                1..=3 => assert_eq!(counts, [level as usize]),
                4 => assert!(counts.len() == 2 && counts.iter().all(|n| (1..=2).contains(n))),
                _ => assert!(counts.len() == 3 && counts.iter().all(|n| (1..=3).contains(n))),
            }
            assert!(!question.contains(['{', '}']) && question.is_ascii(), "{question}");
            for call in &calls {
                let function = CATALOG.iter().find(|f| f.name == call.name).unwrap();
                assert!(problem.messages[0].content.contains(&function.signature()), "{problem:?}");
                for parameter in function.parameters {
                    let value = &call.arguments[parameter.name];
                    let is_named = match &parameter.domain {
                        Domain::Count { .. } | Domain::Hour => true,
                        Domain::Word(_) => question.contains(value.as_str().unwrap()),
                        Domain::Flag { yes, no } => question.contains(if value.as_bool().unwrap() { yes } else { no }),
                    };
                    assert!(is_named, "{question}: {call:?}");
                }
            }
            let names: BTreeSet<&str> = calls.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(names.len(), calls.len(), "one call of each function");
            assert_eq!(calls::gold_calls(&problem.verifier).unwrap(), calls);
            assert_eq!(calls::read(&problem.answer).unwrap(), calls);
            // The demonstration gives the problem's answer in every format.
            let demonstration = generator.demonstration(level, index, &chance, 1.0, &chance);
            assert_eq!(
                demonstration,
                Demonstration { turns: vec![ScriptedTurn::Calls(calls.clone())], mistaken: false }
            );
            let text = ScriptedTurn::Calls(calls).text(environment.format(), "");
            assert!(environment.verify(&problem, outcome(&environment, &text).answer.as_deref().unwrap()).unwrap());
        }
    }
}

#[test]
fn canonical_forms_identify_problems_and_levels_are_disjoint() {
    let environment = environment(&json!({"listing": "none"}));
    let chance = Chance::new(9);
    let mut seen: std::collections::BTreeMap<String, (String, String, u32)> = std::collections::BTreeMap::new();
    for level in 1..=MAX_LEVEL {
        for index in 0..1500 {
            let problem = environment.problem(level, index, &chance);
            assert_eq!(problem.messages.len(), 1);
            let known = (problem.id, problem.answer, level);
            assert_eq!(*seen.entry(problem.canonical).or_insert_with(|| known.clone()), known);
        }
        let distinct = seen.values().filter(|(_, _, l)| *l == level).count();
        assert!(distinct > 600, "level {level} has only {distinct} distinct problems in 1500");
    }
}

#[test]
fn full_listing_describes_functions_in_the_format() {
    let environment = environment(&json!({"listing": "full", "format": "hermes"}));
    let problem = environment.problem(1, 0, &Chance::new(1));
    let generated = generate(1, 0, &Chance::new(1));
    assert_eq!(generated.shown.len(), 2);
    for function in generated.shown {
        assert!(problem.messages[0].content.contains(function.description), "{:?}", problem.messages[0]);
    }
    assert!(problem.messages[0].content.contains("<tool_call>"));
}
