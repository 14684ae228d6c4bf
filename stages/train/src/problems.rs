//! Checks the problems at a stage's port: ids are unique, and all problems belong to the environment of the stage.
//!
//! Results, draws and paired differences identify a problem by its id, so two problems with one id would count as one
//! problem with twice the samples. Both mistakes are reported before the first episode.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::InputArtifact;
use trainyard_core::{Error, OptionProblem, Result, WiredInputs};
use trainyard_lm::shape::LOST_RESULTS;
use trainyard_tables::{Problem, read_problems};

/// Reads all rows of an artifact. Errors: data, if two rows have the same id.
pub fn read(artifact: &InputArtifact, port: &str) -> Result<Vec<Problem>> {
    let problems = read_problems(&artifact.parquet())?;
    expect_distinct(&problems, port)?;
    Ok(problems)
}

/// Rejects two problems of a port with the same id. Errors: data, naming the id and the rows.
pub fn expect_distinct(problems: &[Problem], port: &str) -> Result<()> {
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, problem) in problems.iter().enumerate() {
        if let Some(before) = first.insert(&problem.id, row) {
            let message =
                format!("input `{port}` holds problem `{}` twice, in rows {} and {}", problem.id, before + 1, row + 1);
            return Err(Error::data(message).help("remove the repeated problem from the stage that writes the table"));
        }
    }
    Ok(())
}

/// Fact and column that name the environment of problems.
const ENVIRONMENT: &str = "environment";

/// Environment that accepts the problems of every other environment: its programs read the question, and the problem's
/// own rules judge the answer.
const ANY_ENVIRONMENT: &str = "harness";

/// Returns a problem, for `check`, for each port whose producers name another environment than the stage's.
pub fn environment_mismatches(environment: &Value, inputs: &WiredInputs, ports: &[&str]) -> Vec<OptionProblem> {
    let Some(expected) = environment["kind"].as_str().filter(|expected| *expected != ANY_ENVIRONMENT) else {
        return Vec::new();
    };
    let of_port = |port: &&str| {
        let named: BTreeSet<&str> = inputs.fact(port, ENVIRONMENT).filter_map(Value::as_str).collect();
        let foreign = named.into_iter().find(|kind| *kind != expected)?;
        Some(OptionProblem::new("/environment", mismatch_text(port, foreign, expected)).help(mismatch_help(foreign)))
    };
    ports.iter().filter_map(of_port).collect()
}

/// Returns a problem, for `check`, for each port of models whose template drops the results of the environment's tools.
pub fn lost_results(environment: &Value, inputs: &WiredInputs, ports: &[&str]) -> Vec<OptionProblem> {
    // Only environments with tools have this limit.
    if environment.get("max_tool_calls").is_none() {
        return Vec::new();
    }
    let of_port = |port: &&str| {
        let reason = inputs.fact(port, LOST_RESULTS).find_map(Value::as_str)?;
        let problem = OptionProblem::new(format!("/{port}"), reason);
        Some(
            problem
                .help("use a model whose template supports the role `tool`, or set another template in `model/init`"),
        )
    };
    ports.iter().filter_map(of_port).collect()
}

/// Checks the environment of the rows themselves. Problems without an environment fit every one. Errors: invalid, with
/// the first row that does not fit.
pub fn expect_environment(environment: &Value, problems: &[Problem], port: &str) -> Result<()> {
    let expected = environment["kind"].as_str().unwrap_or_default();
    let foreign = |p: &&Problem| expected != ANY_ENVIRONMENT && !p.environment.is_empty() && p.environment != expected;
    match problems.iter().find(foreign) {
        None => Ok(()),
        Some(problem) => {
            let message = format!("{} (first: `{}`)", mismatch_text(port, &problem.environment, expected), problem.id);
            Err(Error::invalid(message).help(mismatch_help(&problem.environment)))
        }
    }
}

fn mismatch_text(port: &str, foreign: &str, expected: &str) -> String {
    format!("the problems of `{port}` are made for `{foreign}`, but this stage plays `{expected}`")
}

fn mismatch_help(foreign: &str) -> String {
    format!("set `environment: {{kind: {foreign}}}`, or wire other problems")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, input_problems, sums};
    use serde_json::json;
    use trainyard_core::{ErrorKind, Facts};

    #[test]
    fn a_repeated_problem_is_named_with_both_rows() {
        let (mut context, folder) = context();
        let mut problems = sums(3, 3, 1);
        input_problems(&mut context, folder.path(), "problems", &problems);
        assert_eq!(read(context.input("problems").unwrap(), "problems").unwrap(), problems);
        problems.push(problems[1].clone());
        input_problems(&mut context, folder.path(), "again", &problems);
        let e = read(context.input("again").unwrap(), "again").unwrap_err();
        assert!(
            e.kind == ErrorKind::Data && e.message == "input `again` holds problem `sum-1` twice, in rows 2 and 4",
            "{e}"
        );
    }
    #[test]
    fn template_that_drops_tool_results_is_rejected_with_tools() {
        let mut inputs = WiredInputs::default();
        inputs.wire("model", vec![Facts::from([(LOST_RESULTS.to_string(), json!("it drops them"))])]);
        let found = lost_results(&json!({"kind": "word-problems", "max_tool_calls": 8}), &inputs, &["model", "models"]);
        assert!(found.len() == 1 && found[0].pointer == "/model" && found[0].message == "it drops them", "{found:?}");
        assert_eq!(lost_results(&json!({"kind": "function-calling"}), &inputs, &["model"]), []);
    }
    #[test]
    fn problems_of_another_environment_are_found_by_fact_and_by_row() {
        let environment = json!({"kind": "math-problems"});
        let of = |kind: &str| Facts::from([("environment".to_string(), json!(kind))]);
        let mut inputs = WiredInputs::default();
        inputs.wire("problems", vec![of("math-problems"), of("word-problems")]);
        inputs.wire("validation", vec![of("math-problems"), Facts::new()]);
        let found = environment_mismatches(&environment, &inputs, &["problems", "validation", "demonstrations"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].pointer == "/environment" && found[0].message.contains("`word-problems`"), "{found:?}");
        assert!(found[0].help.as_ref().unwrap().contains("kind: word-problems"));
        let row = |id: &str, kind: &str| Problem { id: id.into(), environment: kind.into(), ..Problem::default() };
        let mut rows = vec![row("a", "math-problems"), row("b", "")];
        expect_environment(&environment, &rows, "problems").unwrap();
        let any = json!({"kind": "harness"});
        assert_eq!(environment_mismatches(&any, &inputs, &["problems"]), []);
        rows.push(row("c", "countdown"));
        let e = expect_environment(&environment, &rows, "problems").unwrap_err();
        assert!(e.kind == ErrorKind::Invalid && e.message.contains("`c`") && e.message.contains("`countdown`"), "{e}");
    }
}
