//! Reads the input files of the environment conformance suite, and runs the suite. A file has the options of the
//! environment, a problem, and the script of an agent that solves the problem.

use crate::attempt::secrets;
use crate::catalogue::Catalogue;
use crate::machine;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_core::{Error, OptionProblem, Result, Secrets};
use trainyard_envs::conformance::{AgentScript, PropertyFinding, findings};
use trainyard_envs::{Environment, ToolCall, ToolHost};
use trainyard_process::ProgramLog;
use trainyard_spec::files::{LocalFileSystem, absolute};
use trainyard_spec::options::command::names_source;
use trainyard_spec::options::{SchemaView, source_pointers};
use trainyard_spec::{Diagnostic, Sources, yaml};
use trainyard_tables::{Message, Problem};

/// Content of an input file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConformanceFile {
    /// Environment options, as in a stage.
    environment: Value,
    problem: ScriptedProblem,
    /// Turns of the agent: all but the last make calls, and the last one ends the episode with the correct answer.
    turns: Vec<ScriptTurn>,
    /// Turn that changes the observations of later turns; the first turn if left out.
    #[serde(default)]
    disturbance: Option<ScriptTurn>,
}

/// Problem that the script solves.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedProblem {
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    answer: Value,
    /// Options for the verifier.
    #[serde(default)]
    verifier: Value,
    #[serde(default = "one")]
    level: u32,
}

fn one() -> u32 {
    1
}

/// A turn of the agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum ScriptTurn {
    /// Verbatim text.
    Text(String),
    /// Call, in the environment's format.
    Call(ScriptCall),
    Calls(Vec<ScriptCall>),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptCall {
    call: String,
    #[serde(default = "none")]
    arguments: Value,
}

fn none() -> Value {
    json!({})
}

/// Reason why a file cannot be used.
pub enum ConformanceError {
    /// Invalid YAML.
    Text(Vec<Diagnostic>, Box<Sources>),
    /// Any other error.
    Error(Error),
}

impl From<Error> for ConformanceError {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Runs the conformance suite on the environment of the file `path`. `log` receives the output of custom programs.
/// `providers` returns the providers of the site file's secrets and is called only if the environment names a secret.
///
/// Errors: the file cannot be read, or its environment cannot be built.
pub fn check(
    catalogue: &Catalogue,
    path: &Path,
    log: ProgramLog,
    providers: impl FnOnce() -> Result<BTreeMap<String, String>>,
) -> Result<Vec<PropertyFinding>, ConformanceError> {
    let mut file = read(path)?;
    let folder = std::path::absolute(path).map_err(|e| Error::invalid(format!("{}: {e}", path.display())))?;
    let schema = catalogue.environments().schema();
    place_sources(&schema, &mut file.environment, folder.parent().unwrap_or(Path::new("/")));
    let found = catalogue.environments().check(&file.environment);
    if let Some(problem) = found.into_iter().next() {
        return Err(ConformanceError::Error(option_error(problem)));
    }
    let mut named = BTreeSet::new();
    name_secrets(&file.environment, &mut named);
    let secrets = if named.is_empty() {
        Secrets::default()
    } else {
        let mut providers = providers()?;
        providers.retain(|name, _| named.contains(name.as_str()));
        secrets::read(&providers)?
    };
    let host = ToolHost::with_secrets(machine::cpus() as usize, log, secrets);
    let environment = catalogue.environments().build(&file.environment, &host)?;
    let problem = scripted_problem(&file.problem, environment.kind());
    let turns: Vec<String> = file.turns.iter().map(|turn| render_turn(turn, &*environment)).collect();
    let disturbance = file.disturbance.as_ref().map(|turn| render_turn(turn, &*environment));
    let texts: Vec<&str> = turns.iter().map(String::as_str).collect();
    let disturbance = disturbance.as_deref().or(texts.first().copied()).unwrap_or_default();
    Ok(findings(&*environment, &AgentScript { problem: &problem, turns: &texts, disturbance }))
}

fn read(path: &Path) -> Result<ConformanceFile, ConformanceError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|e| Error::invalid(format!("{shown}: {e}")).help("name a file with an `environment` and `turns`"))?;
    let mut sources = Sources::default();
    let file = sources.add(shown.clone(), Some(path), text);
    let (tree, diagnostics) = yaml::read(&sources, file);
    let Some(tree) = tree.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)) else {
        return Err(ConformanceError::Text(diagnostics, Box::new(sources)));
    };
    serde_json::from_value(tree.value()).map_err(|e| {
        let error = Error::invalid(format!("{shown}: {e}"));
        ConformanceError::Error(
            error.help("a conformance file has `environment`, `problem`, `turns` and optionally `disturbance`"),
        )
    })
}

/// Makes the paths of sources in `options` absolute, relative to `folder`. `schema` marks the options that are sources.
pub fn place_sources(schema: &Value, options: &mut Value, folder: &Path) {
    let mut found = Vec::new();
    source_pointers(options, &SchemaView::root(schema), "", &mut found);
    // A word without an extension may also be a file.
    for place in found {
        let location = absolute(folder, &place.text).display().to_string();
        if (!place.word || names_source(&LocalFileSystem, &place.pointer, &place.text, &location))
            && let Some(value) = options.pointer_mut(&place.pointer)
        {
            *value = Value::String(location);
        }
    }
}

/// Adds the names in every `{secret: NAME}` of `options` to `named`.
fn name_secrets<'a>(options: &'a Value, named: &mut BTreeSet<&'a str>) {
    match options {
        Value::Object(map) => match map.get("secret") {
            Some(Value::String(name)) if map.len() == 1 => drop(named.insert(name)),
            _ => map.values().for_each(|value| name_secrets(value, named)),
        },
        Value::Array(items) => items.iter().for_each(|item| name_secrets(item, named)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn option_error(problem: OptionProblem) -> Error {
    let error = Error::invalid(format!("environment{}: {}", problem.pointer, problem.message));
    problem.help.into_iter().fold(error, Error::help)
}

fn scripted_problem(problem: &ScriptedProblem, environment: &str) -> Problem {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    Problem {
        id: "conformance".into(),
        messages: vec![Message::new("user", problem.prompt.as_str())],
        answer: if problem.answer.is_null() { String::new() } else { text(&problem.answer) },
        verifier: if problem.verifier.is_null() { "{}".into() } else { problem.verifier.to_string() },
        environment: environment.into(),
        level: problem.level,
        ..Problem::default()
    }
}

fn render_turn(turn: &ScriptTurn, environment: &dyn Environment) -> String {
    let one = |call: &ScriptCall| {
        environment.format().render(&ToolCall { name: call.call.clone(), arguments: call.arguments.clone() })
    };
    match turn {
        ScriptTurn::Text(text) => text.clone(),
        ScriptTurn::Call(call) => one(call),
        ScriptTurn::Calls(calls) => calls.iter().map(one).collect(),
    }
}
