//! Lists the environments of this crate, one line each, sorted.

use crate::Toolbox;
use crate::environments::process::{CustomEnvironment, CustomEnvironmentExtra, EnvironmentRole};
use crate::environments::{
    Environment, EnvironmentOptions, EnvironmentSetup, GeneratingEnvironment, ProblemWorld, QuestionEnvironment,
    QuestionOptions, WithDialogue, countdown, customer_service, function_calling, grid_world, math_problems,
    multi_hop_questions, sql_questions, word_problems,
};
use crate::programs::{CustomCodeOptions, CustomCodePage, ServiceOptions};
use crate::tools::ToolHost;
use serde_json::Value;
use std::sync::Arc;
use trainyard_api::{Family, PartKind, Slot};
use trainyard_core::Result;
use trainyard_process::ProgramOptions;

/// Environments by kind. They are built with the tool host that all episodes of a stage share. Tool workers start with
/// the first call, but user programs and servers when an environment is built.
pub type Environments = Family<dyn Environment, Arc<ToolHost>>;

/// Environment that a stage's options name.
pub type EnvironmentSlot = Slot<dyn Environment, Arc<ToolHost>>;

/// Reads `environment` of a stage's options, and writes its complete options back; `default` supplies the environment
/// if it is absent.
pub fn read(environments: &Environments, options: &mut Value, default: impl FnOnce() -> Value) -> EnvironmentSlot {
    if let Some(map) = options.as_object_mut() {
        map.entry("environment").or_insert_with(default);
    }
    Slot::read_at(environments, "/environment", options)
}

/// Returns the registry line of an environment whose options name parts of this toolbox.
pub fn line<O: EnvironmentOptions>(
    toolbox: &Arc<Toolbox>,
    build: fn(O, &EnvironmentSetup) -> Result<Box<dyn Environment>>,
) -> PartKind<dyn Environment, Arc<ToolHost>> {
    let (built, checked, filled) = (Arc::clone(toolbox), Arc::clone(toolbox), Arc::clone(toolbox));
    let setup = move |host: &Arc<ToolHost>| EnvironmentSetup { host: Arc::clone(host), toolbox: Arc::clone(&built) };
    PartKind::with_check(
        move |options, host| build(options, &setup(host)),
        move |options: &O| options.check_with(&checked),
        move |schema| O::fill_schema(schema, &filled),
    )
}

/// Returns the registry line of an environment that generates its problems.
fn generated<G: ProblemWorld>(toolbox: &Arc<Toolbox>) -> PartKind<dyn Environment, Arc<ToolHost>> {
    line(toolbox, |o: WithDialogue<G::Options>, setup| Ok(Box::new(GeneratingEnvironment::<G>::new(o, setup)?)))
}

/// Returns the registry line of an environment that only poses questions.
fn questions<Q: QuestionOptions>(toolbox: &Arc<Toolbox>) -> PartKind<dyn Environment, Arc<ToolHost>> {
    line(toolbox, |o: WithDialogue<Q>, setup| Ok(Box::new(QuestionEnvironment::new(o, setup)?)))
}

/// Returns the registry line of an environment in user-defined code.
fn custom<P: CustomCodeOptions>(toolbox: &Arc<Toolbox>) -> PartKind<dyn Environment, Arc<ToolHost>>
where
    EnvironmentRole: CustomCodePage<P>,
{
    line(toolbox, |o: WithDialogue<CustomEnvironmentExtra<P>>, setup| Ok(Box::new(CustomEnvironment::new(o, setup)?)))
}

/// Returns the environments of this crate, with its tools, formats and verifiers.
pub fn family() -> Environments {
    family_with(&Arc::new(Toolbox::standard()))
}

/// Returns the environments of this crate, with the tools, formats and verifiers of a program.
pub fn family_with(toolbox: &Arc<Toolbox>) -> Environments {
    let members = vec![
        generated::<countdown::Countdown>(toolbox),
        line(toolbox, |o, setup| Ok(Box::new(customer_service::CustomerService::new(o, setup)?))),
        line(toolbox, |o, setup| Ok(Box::new(function_calling::FunctionCalling::new(o, setup)?))),
        generated::<grid_world::GridWorld>(toolbox),
        custom::<ServiceOptions>(toolbox),
        questions::<math_problems::MathProblems>(toolbox),
        generated::<multi_hop_questions::MultiHopQuestions>(toolbox),
        custom::<ProgramOptions>(toolbox),
        generated::<sql_questions::SqlQuestions>(toolbox),
        generated::<word_problems::WordProblems>(toolbox),
    ];
    Family::new("environments", "environment", members)
}

/// Returns the kinds of a family whose environment generates problems, sorted.
pub fn generating(environments: &Environments) -> Vec<&'static str> {
    let host = ToolHost::idle();
    let generates = |kind: &&str| environments.build(&(*kind).into(), &host).is_ok_and(|e| e.generator().is_some());
    environments.names().into_iter().filter(generates).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::OptionProblem;

    fn complete(options: &Value) -> Result<Value> {
        family().complete(options)
    }
    fn check(options: &Value) -> Vec<OptionProblem> {
        family().check(options)
    }
    fn build(options: &Value, host: &Arc<ToolHost>) -> Result<Box<dyn Environment>> {
        family().build(options, host)
    }

    #[test]
    fn names_are_sorted_and_defaults_build() {
        let names = family().names();
        assert!(names.is_sorted());
        assert!(family().members().iter().all(|kind| !kind.summary.is_empty() && !kind.doc.is_empty()));
        let host = ToolHost::new(1);
        for name in names {
            let mut complete_options = complete(&json!({"kind": name})).unwrap();
            assert_eq!(complete(&complete_options).unwrap(), complete_options);
            assert_eq!(complete(&json!(name)).unwrap(), complete_options, "a bare name is the default");
            // The program or service has no default.
            let required = [("process", "/command", json!(["true"])), ("http", "/url", json!("http://127.0.0.1:9/"))];
            if let Some((_, pointer, value)) = required.into_iter().find(|(kind, ..)| *kind == name) {
                assert_eq!(check(&complete_options)[0].pointer, pointer);
                complete_options[&pointer[1..]] = value;
                assert_eq!(build(&complete_options, &ToolHost::idle()).unwrap().kind(), name);
            } else {
                assert_eq!(build(&complete_options, &host).unwrap().kind(), name);
            }
            assert_eq!(check(&complete_options), []);
        }
        assert!(host.worker_ids().is_empty(), "building must not start a worker");
        let generating = generating(&family());
        assert!(generating.contains(&"word-problems") && !generating.contains(&"math-problems"), "{generating:?}");
    }

    /// Stage configs contain these keys, so their digests depend on them.
    #[test]
    fn unused_dialogue_options_are_hidden() {
        let keys =
            |kind: &str| complete(&json!(kind)).unwrap().as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys("grid-world"), ["describe_tools", "format", "kind", "max_tool_calls", "max_turns", "system"]);
        let service =
            ["communication", "database", "describe_tools", "format", "kind", "max_tool_calls", "max_turns", "policy"];
        assert_eq!(keys("customer-service"), service);
        let words = ["describe_tools", "format", "kind", "limits", "max_tool_calls", "max_turns", "system", "tools"];
        assert_eq!(keys("word-problems"), words);
        assert!(check(&json!({"kind": "grid-world", "tools": ["python"]}))[0].message.contains("tools"));
        assert!(check(&json!({"kind": "customer-service", "system": "Be brief."}))[0].message.contains("system"));
    }

    #[test]
    fn default_options_are_complete() {
        let solutions = complete(&math_problems::default_options()).unwrap();
        assert_eq!((&solutions["tools"], &solutions["max_turns"]), (&json!(["calculator"]), &json!(32)));
        let stories = complete(&word_problems::default_options()).unwrap();
        assert_eq!((&stories["tools"], &stories["max_turns"]), (&json!(["python"]), &json!(4)));
    }

    #[test]
    fn tools_may_have_options() {
        let words = |tools: Value| json!({"kind": "word-problems", "tools": tools});
        let cpython = json!({"kind": "python", "interpreter": "cpython"});
        assert_eq!(check(&words(json!([cpython]))), []);
        assert_eq!(complete(&words(json!([cpython]))).unwrap()["tools"], json!([cpython]));
        assert_eq!(complete(&words(json!([{"kind": "python"}]))).unwrap()["tools"], json!(["python"]));
        let environment = build(&words(json!([cpython])), &ToolHost::new(1)).unwrap();
        assert!(environment.tools()[0].description.starts_with("Runs a Python 3 program"));
        let pointers = |tools: Value| -> Vec<String> { check(&words(tools)).into_iter().map(|p| p.pointer).collect() };
        assert_eq!(pointers(json!(["python", cpython])), ["/tools/1"], "calls could not tell them apart");
        assert_eq!(pointers(json!([{"kind": "python", "program": "python3"}])), ["/tools/0/program"]);
        assert_eq!(pointers(json!([{"kind": "python", "interpretor": "cpython"}])), ["/tools/0"]);
        assert_eq!(pointers(json!([{"kind": "abacus"}])), ["/tools/0"]);
        assert_eq!(pointers(json!([3])), ["/tools/0"]);
        let family = family();
        let word_problems = family.members().iter().find(|kind| kind.kind == "word-problems").unwrap().branch();
        let items = &word_problems["properties"]["tools"]["items"]["oneOf"];
        assert_eq!(items[0]["enum"], json!(["calculator", "http", "mcp", "process", "python"]));
        assert!(items[5]["properties"]["interpreter"].to_string().contains("cpython"), "{items}");
    }

    #[test]
    fn invalid_options_are_reported_with_their_pointers() {
        let options =
            json!({"kind": "word-problems", "tools": ["abacus"], "max_turns": 0, "limits": {"time_millis": 1}});
        let pointers: Vec<String> = check(&options).into_iter().map(|p| p.pointer).collect();
        assert_eq!(pointers, ["/tools/0", "/max_turns", "/limits/time_millis"]);
        assert_eq!(check(&json!({"kind": "chess"}))[0].pointer, "/kind");
        assert!(check(&json!({"kind": "word-problems", "max_turn": 3}))[0].message.contains("max_turn"));
        assert_eq!(check(&json!({"kind": "word-problems", "tools": ["python", "calculator"]}))[0].pointer, "/format");
        assert!(build(&options, &ToolHost::new(1)).is_err());
    }
}
