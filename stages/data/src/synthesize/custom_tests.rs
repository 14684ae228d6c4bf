//! Tests problems and demonstrations of a program. Without `python3`, each test reports that it is skipped.

use super::config::SynthesisConfig;
use super::method::{SynthesisContext, SynthesisOutput};
use super::registry;
use crate::testing::{environment, skipped, synthesize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tempfile::TempDir;
use trainyard_api::{PreparedOptions as _, Stage as _};
use trainyard_chat::Models;
use trainyard_core::{ErrorKind, Result};
use trainyard_process::null_log;

const SUMS: &str = r#"
import trainyard_bridge as ty

def say(answer):
    return '#' * 4 + f" {answer}"

@ty.generator
def sums(wanted: ty.Wanted):
    draw = wanted.random
    numbers = [draw.randrange(ty.options()["most"]) for _ in range(wanted.level + 1)]
    text = " + ".join(map(str, numbers))
    turns = [ty.call("calculator", expression=text), say(sum(numbers))]
    if numbers[0] == 3:
        turns[-1] = say(-1)
    if numbers[0] == 4:
        turns.insert(0, say(0))
    return ty.Generated(f"What is {text}?", sum(numbers), turns, canonical=text)

@ty.generator
def mute(wanted):
    return ty.Generated(f"Question {wanted.index}", "1")

@ty.generator
def broken(wanted):
    raise ArithmeticError("cannot add")

@ty.generator(batch=True)
def none(wanted):
    return [None for _ in wanted]

ty.run()
"#;

fn config(program: &TempDir, name: &str, most: u32, splits: Value) -> SynthesisConfig {
    let command = ["python3".to_string(), program.path().join("sums.py").display().to_string()];
    let process = json!({"command": command, "name": name, "options": {"most": most}, "levels": 3, "batch": 7});
    let environment = json!({"kind": "math-problems", "tools": ["calculator"], "format": "hermes"});
    let options = json!({"method": "process", "seed": 3, "environment": environment, "splits": splits,
        "process": process});
    let prepared = synthesize().prepare(options).unwrap();
    assert_eq!(prepared.problems(), []);
    prepared.config().clone()
}

fn make(config: &SynthesisConfig) -> Result<SynthesisOutput> {
    let environment = environment(&config.environment, 1).unwrap();
    let (models, log, progress) = (Models::in_memory(), null_log(), |_, _| Ok(()));
    let environment = environment.as_ref();
    let world =
        SynthesisContext { environment, prompt_environment: None, models: &models, log: &log, progress: &progress };
    registry::method("process").unwrap().make(config, Vec::new(), &world)
}

/// Writes the program into a temporary folder. Without Python, prints that the test is skipped and returns `None`.
fn program() -> Option<TempDir> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        skipped("there is no python3");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sums.py"), SUMS).unwrap();
    Some(folder)
}

#[test]
fn a_program_makes_distinct_problems_and_solves_them() {
    let Some(program) = program() else { return };
    let splits = json!({"demonstrations": {"levels": {"1": 20, "2": 10}}, "test": {"total": 9}});
    let config = config(&program, "sums", 100, splits);
    let made = make(&config).unwrap();
    let count = |split: &str, level: u32| made.problems.iter().filter(|p| p.split == split && p.level == level).count();
    assert_eq!([count("demonstrations", 1), count("demonstrations", 2), count("test", 3)], [20, 10, 3]);
    let forms: BTreeSet<&str> = made.problems.iter().map(|p| p.canonical.as_str()).collect();
    assert_eq!(forms.len(), made.problems.len());
    let value = |name: &str| made.report.metrics.get(name).map_or(0.0, |metric| metric.value);
    assert_eq!(made.demonstrations.len() as f64 + value("dropped"), 30.0);
    for row in &made.demonstrations {
        let problem = made.problems.iter().find(|p| p.id == row.problem_id).unwrap();
        assert_eq!(row.messages.iter().find(|m| m.role == "tool").unwrap().content, problem.answer);
        assert_eq!((row.reward, row.answer.as_ref()), (1.0, Some(&problem.answer)));
    }
    let again = make(&config).unwrap();
    assert_eq!(again.problems, made.problems, "the same seed gives the same problems");
}

#[test]
fn wrong_solutions_are_dropped_and_counted() {
    let Some(program) = program() else { return };
    let config = config(&program, "sums", 6, json!({"demonstrations": {"levels": {"1": 36}}}));
    let made = make(&config).unwrap();
    let value = |name: &str| made.report.metrics[name].value;
    // Among the 36 sums of two numbers below 6, six begin with a 3 and six with a 4.
    assert_eq!((made.problems.len(), made.demonstrations.len()), (36, 24));
    assert_eq!((value("dropped"), value("dropped_wrong_answer"), value("dropped_ended_early")), (12.0, 6.0, 6.0));
}

#[test]
fn failing_generators_end_the_stage() {
    let Some(program) = program() else { return };
    let fails = |name: &str, most: u32, count: u32| {
        let splits = json!({"demonstrations": {"levels": {"1": count}}});
        make(&config(&program, name, most, splits)).unwrap_err()
    };
    let few = fails("sums", 2, 5);
    assert!(few.kind == ErrorKind::Invalid && few.message.contains("too few distinct problems for 5"), "{few}");
    assert!(few.help.unwrap().contains("only 4 were found"));
    assert!(fails("none", 2, 1).message.contains("too few"));
    let raised = fails("broken", 2, 1);
    assert!(raised.kind == ErrorKind::Data && raised.message.contains("ArithmeticError: cannot add"), "{raised}");
    assert!(fails("mute", 2, 1).message.contains("has no `turns`"));
}

#[test]
fn method_options_are_under_the_method_name() {
    let check = |options: Value| -> Vec<String> {
        let prepared = synthesize().prepare(options).unwrap();
        prepared.problems().into_iter().map(|problem| problem.pointer).collect()
    };
    assert_eq!(check(json!({"method": "process"})), ["/process"]);
    assert_eq!(check(json!({"method": "http", "http": {"levels": 1001}})), ["/http/url", "/http/levels"]);
    assert_eq!(check(json!({"method": "procedural", "http": {"url": "http://h:1/"}})), ["/http"]);
    let splits = json!({"demonstrations": {"levels": {"4": 1}}});
    let deep = json!({"method": "http", "http": {"url": "http://h:1/", "levels": 3}, "splits": splits});
    assert_eq!(check(deep), ["/splits/demonstrations"]);
}
