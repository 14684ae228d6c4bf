//! A program that says whether an answer is right, in place of the verifier that problems name.
//!
//! Problems are data and must not name commands, so it is an option of environments.

use super::answers::{Batch, ask};
use super::episode::ProblemItem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::{Error, OptionProblem, Result};
use trainyard_process::{Hello, Log, Peer, ProgramOptions, Workers};
use trainyard_tables::Problem;

/// The sort of verifier; `process` is the only one that options may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum VerifierKind {
    /// A program of the user.
    #[default]
    Process,
}

/// A program that judges answers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VerifierOptions {
    /// `process`.
    pub kind: VerifierKind,
    /// The program.
    #[serde(flatten)]
    pub program: ProgramOptions,
    /// With `trainyard_bridge`, which function is meant, if the program has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl VerifierOptions {
    /// Everything wrong; pointers are relative to the options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        self.program.problems()
    }
}

/// The verifier with these options. Its program starts with the first answer.
pub struct ProcessVerifier {
    options: VerifierOptions,
    log: Log,
    workers: Mutex<Option<Arc<Workers>>>,
}

/// Asks a program whether an answer is right. Errors: retryable, if it is away; data, if it raised an exception.
pub fn right(peer: &dyn Peer, problem: &Problem, answer: &str) -> Result<bool> {
    let rows = ask(peer, Batch(1), "verify", &[Item { problem: ProblemItem::new(problem), answer }])?;
    let at = || format!("{}: problem `{}`", peer.place(), problem.id);
    match rows.into_iter().next() {
        Some(Ok(said)) => said["right"].as_bool().ok_or_else(|| {
            let error = Error::data(format!("the program answered `{said}` for a verifier")).at(at());
            error.help("answer {\"right\": true or false}")
        }),
        Some(Err(raised)) => Err(raised.error().at(at())),
        None => Err(Error::bug("a program answered about nothing")),
    }
}

#[derive(Serialize)]
struct Item<'a> {
    problem: ProblemItem<'a>,
    answer: &'a str,
}

impl ProcessVerifier {
    /// Nothing is started yet.
    pub fn new(options: VerifierOptions, log: Log) -> Self {
        Self { options, log, workers: Mutex::default() }
    }
    /// Whether an answer is right. Errors: retryable, if the program is away; data, if it raised an exception.
    pub fn verify(&self, problem: &Problem, answer: &str) -> Result<bool> {
        right(&*self.workers()?, problem, answer)
    }
    fn workers(&self) -> Result<Arc<Workers>> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*workers {
            return Ok(Arc::clone(running));
        }
        let hello = Hello { role: "verifier", name: &self.options.name, seed: 0 };
        let started = Workers::start(&self.options.program, hello, self.log.clone())?;
        Ok(Arc::clone(workers.insert(started)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::family;
    use serde_json::json;
    use trainyard_core::ErrorKind;

    /// A program that answers every request with these rows.
    fn environment(work: &str) -> Box<dyn crate::Environment> {
        let script = format!(
            r#"read -r hello; echo '{{"type":"ready","protocol":1}}'
            while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {work}
            printf '{{"id":%s,"result":%s}}\n' "$id" "$rows"; done"#
        );
        let verifier = json!({"kind": "process", "command": ["sh", "-c", script]});
        let options = json!({"kind": "math-problems", "verifier": verifier});
        family().build(&options, &crate::ToolHost::new(1)).unwrap()
    }

    #[test]
    fn the_program_judges_in_place_of_the_problems_verifier() {
        let work = r#"case $line in *'"answer":"five"'*) rows='[{"right":true}]';; *) rows='[{"right":false}]';; esac"#;
        let environment = environment(work);
        let problem = Problem { answer: "5".to_string(), ..Problem::default() };
        assert!(environment.verify(&problem, "five").unwrap());
        assert!(!environment.verify(&problem, "5").unwrap(), "the verifier `numeric` is not asked");
    }

    #[test]
    fn an_outage_is_no_wrong_answer() {
        let problem = Problem { id: "p".to_string(), ..Problem::default() };
        let outage = environment("exit 3").verify(&problem, "5").unwrap_err();
        assert_eq!(outage.kind, ErrorKind::Retryable);
        let raised = environment(r#"rows='[{"error":{"type":"E","message":"m"}}]'"#).verify(&problem, "5").unwrap_err();
        assert!(raised.kind == ErrorKind::Data && raised.message.contains("problem `p`: E: m"), "{raised}");
        let odd = environment("rows='[{}]'").verify(&problem, "5").unwrap_err();
        assert!(odd.help.unwrap().contains("right"));
    }

    #[test]
    fn without_one_the_options_are_what_they_were() {
        let complete = family().complete(&json!("math-problems")).unwrap();
        assert!(complete.get("verifier").is_none());
        let bad = family().check(&json!({"kind": "math-problems", "verifier": {"kind": "process"}}));
        assert_eq!(bad[0].pointer, "/verifier/command");
        let other = family().check(&json!({"kind": "math-problems", "verifier": {"kind": "taste"}}));
        assert!(other[0].message.contains("taste"), "{other:?}");
    }
}
