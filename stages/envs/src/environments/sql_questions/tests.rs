//! Tests problems without a database, and options. Episodes are tested with real workers in `tests/sql.rs`.

use super::*;
use crate::environments::{Environment, EnvironmentSetup, GeneratingEnvironment, WithDialogue};
use serde_json::Value;
use trainyard_api::PartOptions;

#[test]
fn problem_without_a_database_is_named_in_the_error() {
    let options: WithDialogue<SqlQuestions> = serde_json::from_value(json!({})).unwrap();
    assert_eq!(PartOptions::check(&options), []);
    let setup = EnvironmentSetup::standard(1);
    let environment = GeneratingEnvironment::<SqlQuestions>::new(options, &setup).unwrap();
    for (verifier, words) in [
        ("{", "not JSON"),
        ("{}", "no `database`"),
        (r#"{"database": {"tables": {}}}"#, "cannot be read"),
        (r#"{"database": 7}"#, "cannot be read"),
    ] {
        let problem = Problem { id: "p7".to_string(), verifier: verifier.to_string(), ..Problem::default() };
        let error = environment.start(&problem, 0).err().unwrap();
        assert!(error.message.starts_with("problem `p7`: ") && error.message.contains(words), "{verifier}: {error}");
    }
}

#[test]
fn database_keeps_its_text() {
    let verifier = r#"{"kind": "text", "database": {"schema": "",  "rows": {"t": [[0.1000000000000000055511]]}}}"#;
    let problem = Problem { verifier: verifier.to_string(), ..Problem::default() };
    assert_eq!(database_of(&problem).unwrap(), r#"{"schema": "",  "rows": {"t": [[0.1000000000000000055511]]}}"#);
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
