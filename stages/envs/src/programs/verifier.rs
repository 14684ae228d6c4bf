//! Judges answers with a program or service, in place of the verifier that problems name.
//!
//! Such a verifier is an option of environments, because problems are data and must not name commands.

use super::batches::{BatchSize, request_items};
use super::custom_code_options::CustomCodeOptions;
use super::episode::ProblemItem;
use super::service::ServiceOptions;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::{Error, OptionProblem, Result, Secrets};
use trainyard_process::{Hello, ProgramLog, ProgramOptions, ProgramService};
use trainyard_tables::{AnswerCheck, Problem};

/// Kind of a user-defined verifier.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum VerifierOptions {
    /// User program.
    Process(CustomVerifierOptions<ProgramOptions>),
    /// User-defined service.
    Http(CustomVerifierOptions<ServiceOptions>),
}

/// User-defined verifier.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(bound = "P: CustomCodeOptions")]
pub struct CustomVerifierOptions<P> {
    /// Program or service that judges answers.
    #[serde(flatten)]
    pub peer: P,
    /// With `trainyard_bridge`, the function to use, if the program has several.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl<'de> Deserialize<'de> for VerifierOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Map::deserialize(deserializer)?;
        let kind = map.remove("kind").unwrap_or_else(|| json!(ProgramOptions::KIND));
        let options = Value::Object(map);
        match kind.as_str() {
            Some(ProgramOptions::KIND) => serde_json::from_value(options).map(Self::Process),
            Some(ServiceOptions::KIND) => serde_json::from_value(options).map(Self::Http),
            _ => {
                return Err(D::Error::custom(format!("unknown kind of verifier {kind}: use `process` or `http`")));
            }
        }
        .map_err(D::Error::custom)
    }
}

impl JsonSchema for VerifierOptions {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "VerifierOptions".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let branches = [branch::<ProgramOptions>(generator), branch::<ServiceOptions>(generator)];
        json_schema!({ "oneOf": branches })
    }
}

fn branch<P: CustomCodeOptions>(generator: &mut SchemaGenerator) -> Value {
    let mut schema = CustomVerifierOptions::<P>::json_schema(generator).to_value();
    schema["properties"]["kind"] = json!({ "const": P::KIND });
    schema["required"] = json!(["kind"]);
    schema["title"] = json!(P::KIND);
    schema
}

impl VerifierOptions {
    /// Returns the `kind` in files.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Process(_) => ProgramOptions::KIND,
            Self::Http(_) => ServiceOptions::KIND,
        }
    }
    /// Returns all problems; pointers are relative to the options.
    pub fn problems(&self) -> Vec<OptionProblem> {
        match self {
            Self::Process(options) => options.peer.problems(),
            Self::Http(options) => options.peer.problems(),
        }
    }
    fn open(&self, secrets: &Secrets, log: &ProgramLog) -> Result<Arc<dyn ProgramService>> {
        let hello = |name| Hello { role: "verifier", name, seed: 0 };
        match self {
            Self::Process(options) => options.peer.open(hello(&options.name), secrets, log),
            Self::Http(options) => options.peer.open(hello(&options.name), secrets, log),
        }
    }
}

/// Verifier with these options. The program or service is opened when the first answer is judged.
pub struct CustomVerifier {
    options: VerifierOptions,
    secrets: Secrets,
    log: ProgramLog,
    peer: Mutex<Option<Arc<dyn ProgramService>>>,
}

/// Requests a program's verdict on an answer, and waits for it. Errors: retryable, if the program is unavailable; data,
/// if it raised an exception or returned no verdict.
pub fn request_verdict(peer: &dyn ProgramService, problem: &Problem, answer: &str) -> Result<bool> {
    let rows =
        request_items(peer, BatchSize(1), "verify", &[VerifierItem { problem: ProblemItem::new(problem), answer }])?;
    let at = || format!("{}: problem `{}`", peer.place(), problem.id);
    match rows.into_iter().next() {
        Some(Ok(row)) => row["right"].as_bool().ok_or_else(|| {
            let error = Error::data(format!("the program returned `{row}` for a verifier")).at(at());
            error.help("return {\"right\": true} or {\"right\": false}")
        }),
        Some(Err(exception)) => Err(exception.error().at(at())),
        None => Err(Error::bug("a program returned no row")),
    }
}

#[derive(Serialize)]
struct VerifierItem<'a> {
    problem: ProblemItem<'a>,
    answer: &'a str,
}

impl CustomVerifier {
    /// Returns the verifier without sending a request.
    pub fn new(options: VerifierOptions, secrets: &Secrets, log: ProgramLog) -> Self {
        Self { options, secrets: secrets.clone(), log, peer: Mutex::default() }
    }
    /// Checks an answer as a whole by the program or service. Errors: retryable, if the program is unavailable; data,
    /// if it raised an exception.
    pub fn check_answer(&self, problem: &Problem, answer: &str) -> Result<AnswerCheck> {
        let correct = request_verdict(&*self.peer()?, problem, answer)?;
        Ok(AnswerCheck::whole(&problem.answer, answer, self.options.kind(), correct))
    }
    fn peer(&self) -> Result<Arc<dyn ProgramService>> {
        let mut peer = self.peer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*peer {
            return Ok(Arc::clone(running));
        }
        let opened = self.options.open(&self.secrets, &self.log)?;
        Ok(Arc::clone(peer.insert(opened)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::family;
    use serde_json::json;
    use trainyard_core::ErrorKind;

    /// Returns an environment whose program is a shell loop that runs `work` for every request.
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
        assert!(!environment.verify(&problem, "5").unwrap(), "the verifier `numeric` is not used");
    }

    #[test]
    fn outages_and_exceptions_are_errors() {
        let problem = Problem { id: "p".to_string(), ..Problem::default() };
        let outage = environment("exit 3").verify(&problem, "5").unwrap_err();
        assert_eq!(outage.kind, ErrorKind::Retryable);
        let raised = environment(r#"rows='[{"error":{"type":"E","message":"m"}}]'"#).verify(&problem, "5").unwrap_err();
        assert!(raised.kind == ErrorKind::Data && raised.message.contains("problem `p`: E: m"), "{raised}");
        let odd = environment("rows='[{}]'").verify(&problem, "5").unwrap_err();
        assert!(odd.help.unwrap().contains("right"));
    }

    #[test]
    fn options_without_a_verifier_are_unchanged() {
        let complete = family().complete(&json!("math-problems")).unwrap();
        assert!(complete.get("verifier").is_none());
        let bad = family().check(&json!({"kind": "math-problems", "verifier": {"kind": "process"}}));
        assert_eq!(bad[0].pointer, "/verifier/command");
        let other = family().check(&json!({"kind": "math-problems", "verifier": {"kind": "taste"}}));
        assert!(other[0].message.contains("taste"), "{other:?}");
    }
}
