//! Tests demonstrations, imported problems, and problems without a database.

use super::questions::MAX_LEVEL;
use super::*;
use crate::environments::{
    Environment, EnvironmentSetup, EpisodeStep, GeneratingEnvironment, ProblemGenerator, WithDialogue,
};
use trainyard_api::PartOptions;
use trainyard_tables::StopReason;

fn environment(options: Value) -> GeneratingEnvironment<SqlQuestions> {
    let options: WithDialogue<SqlQuestions> = serde_json::from_value(options).unwrap();
    assert_eq!(PartOptions::check(&options), []);
    GeneratingEnvironment::new(options, &EnvironmentSetup::standard(1)).unwrap()
}

fn call(query: &str) -> ScriptedTurn {
    ScriptedTurn::Call(ToolCall { name: "sql".to_string(), arguments: json!({"query": query}) })
}

/// Returns the tool results, the number of failed calls and the final answer of these turns.
fn play(
    environment: &dyn Environment,
    problem: &Problem,
    turns: &[ScriptedTurn],
) -> (Vec<String>, u32, Option<String>) {
    let mut episode = environment.start(problem, 0).unwrap();
    let mut results: Vec<String> = Vec::new();
    for turn in turns {
        let text = turn.text(environment.format(), results.last().map_or("", String::as_str));
        match episode.step(&environment.format().parse(&text)).unwrap() {
            EpisodeStep::Observe(o) => results.extend(o.messages.into_iter().map(|m| m.content)),
            EpisodeStep::Done(outcome) => {
                assert_eq!(outcome.stop, StopReason::Answer);
                return (results, outcome.tool_errors, outcome.answer);
            }
            EpisodeStep::Pending | EpisodeStep::TurnRequest(_) => panic!("a query is answered immediately"),
        }
    }
    panic!("the episode continues");
}

#[test]
fn demonstrations_solve_their_problems_with_and_without_a_mistake() {
    let environment = environment(json!({}));
    let (chance, mistakes) = (Chance::new(2), Chance::new(3));
    for level in 1..=MAX_LEVEL {
        for index in 0..10 {
            let problem = environment.problem(level, index, &chance);
            for share in [0.0, 1.0] {
                let demonstration = environment.demonstration(level, index, &chance, share, &mistakes);
                assert_eq!(demonstration.mistaken, share == 1.0);
                let (_, errors, answer) = play(&environment, &problem, &demonstration.turns);
                assert_eq!(errors, u32::from(demonstration.mistaken));
                assert!(environment.verify(&problem, &answer.unwrap()).unwrap(), "{problem:?}");
            }
            assert!(problem.question().starts_with("staff(id, name, town, age, pay)\nsales("));
        }
    }
}

#[test]
fn any_problem_with_a_database_works() {
    let database = json!({"schema": "CREATE TABLE t(x TEXT)", "rows": {"t": [["Oslo"], ["Rome"]]}});
    let problem = Problem {
        answer: "oslo".to_string(),
        verifier: json!({"kind": "text", "database": database}).to_string(),
        ..Problem::default()
    };
    let environment = environment(json!({"max_rows": 1}));
    let turns = [
        call("DELETE FROM t"),
        call("SELECT x FROM t ORDER BY x"),
        ScriptedTurn::Text("The first one:\n#### Oslo".to_string()),
    ];
    let (results, errors, answer) = play(&environment, &problem, &turns);
    assert_eq!((errors, answer.as_deref()), (1, Some("Oslo")));
    assert_eq!(results, ["error: only one SELECT is allowed; nothing can be changed", "Oslo\n... (more rows)"]);
    assert!(environment.verify(&problem, "Oslo").unwrap());
}

#[test]
fn endless_query_is_an_error_not_an_infrastructure_failure() {
    let environment = environment(json!({"max_steps": 10_000}));
    let problem = environment.problem(1, 0, &Chance::new(0));
    let endless = call("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT MAX(n) FROM t");
    let (results, errors, answer) = play(&environment, &problem, &[endless, ScriptedTurn::Text("7".to_string())]);
    assert_eq!(results, ["error: the query was stopped after 10000 steps; ask for less"]);
    assert_eq!((errors, answer.as_deref()), (1, Some("7")));
}

#[test]
fn problem_without_a_database_is_named_in_the_error() {
    let environment = environment(json!({}));
    for (verifier, words) in [
        ("{", "not JSON"),
        ("{}", "no `database`"),
        (r#"{"database": {"tables": {}}}"#, "cannot be read"),
        (r#"{"database": {"schema": "CREATE TABL"}}"#, "cannot create the database"),
    ] {
        let problem = Problem { id: "p7".to_string(), verifier: verifier.to_string(), ..Problem::default() };
        let error = environment.start(&problem, 0).err().unwrap();
        assert!(error.message.starts_with("problem `p7`: ") && error.message.contains(words), "{verifier}: {error}");
    }
}

#[test]
fn invalid_options_are_reported_with_their_pointers() {
    let pointers = |options: Value| -> Vec<String> {
        let options: WithDialogue<SqlQuestions> = serde_json::from_value(options).unwrap();
        PartOptions::check(&options).into_iter().map(|p| p.pointer).collect()
    };
    assert_eq!(pointers(json!({})), Vec::<String>::new());
    let wrong = json!({"rows": 1, "max_steps": 5, "max_rows": 0, "max_turns": 0});
    assert_eq!(pointers(wrong), ["/rows", "/max_steps", "/max_rows", "/max_turns"]);
    assert_eq!(pointers(json!({"tools": ["calculator"]})), ["/format"]);
}
