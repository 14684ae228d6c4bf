//! Tests the file `trainyard_bridge.py` as the program's side of the protocol.

use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use trainyard_process::{Hello, ProgramFault, ProgramOptions, ProgramResult, WorkerPool, null_log};

const PROGRAM: &str = r#"
import trainyard_bridge as ty
import helper

print("printing while it is imported")

@ty.reward
def graded(episode):
    print("looking at", episode.problem.id)
    if episode.answer == "crash":
        raise ValueError("no grade for " + episode.answer)
    if episode.answer is None:
        return None
    if episode.answer == "turns":
        return ty.Score(1.5, [0.5, 1])
    if episode.answer == "nan":
        return float("nan")
    if episode.answer == "text":
        return "high"
    return helper.points(episode.correct) + (ty.options() or {}).get("bonus", 0)

@ty.reward(batch=True)
def ranked(episodes):
    if episodes[0].answer == "crash":
        raise KeyError("all")
    if episodes[0].answer == "few":
        return []
    return [len(episodes), *range(1, len(episodes))]

@ty.rule
def polite(episode):
    if "please" in episode.messages[0].content:
        return True
    return "not polite"

@ty.verifier
def casefold(problem, answer):
    if answer == "?":
        raise RuntimeError("cannot judge")
    return problem.answer.casefold() == answer.casefold()

ty.run()
"#;

/// Returns `None`, after printing that the test is skipped, if Python is not installed.
fn start(role: &str, name: &str, options: Value) -> Option<(TempDir, Arc<WorkerPool>)> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return None;
    }
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(home.path().join(name), text).unwrap();
        home.path().join(name).display().to_string()
    };
    let program = write("my_reward.py", PROGRAM);
    let helper = write("helper.py", "def points(correct):\n    return 1 if correct else -1\n");
    let options = ProgramOptions {
        command: vec!["python3".to_string(), program],
        files: vec![helper],
        options,
        ..ProgramOptions::default()
    };
    let workers = WorkerPool::start(&options, Hello { role, name, seed: 3 }, null_log()).unwrap();
    Some((home, workers))
}

fn call(workers: &WorkerPool, op: &str, items: &[Value]) -> ProgramResult {
    workers.call(op, &json!({"items": items})).unwrap().answer()
}

fn episode(answer: Value, correct: bool) -> Value {
    let messages = json!([{"role": "user", "content": "2+2, please"}, {"role": "assistant", "content": "4"}]);
    json!({
        "messages": messages, "answer": answer, "correct": correct, "tool_calls": 0, "tool_errors": 0, "turns": 1,
        "stop_reason": "answer", "rewards": {},
        "problem": {"id": "p", "prompt": [], "answer": "4", "level": 1, "verifier": {}},
    })
}

#[test]
fn reward_function_scores_rows_and_reports_exceptions_by_row() {
    let Some((_home, workers)) = start("reward", "graded", json!({"bonus": 0.25})) else { return };
    let answers = ["4", "5", "crash", "turns", "nan", "text"];
    let mut items: Vec<Value> = answers.iter().map(|answer| episode(json!(answer), *answer == "4")).collect();
    items.push(episode(Value::Null, false));
    let rows = call(&workers, "score", &items).unwrap().value;
    assert_eq!(rows[0], json!({"value": 1.25}));
    assert_eq!(rows[1], json!({"value": -0.75}));
    assert_eq!(rows[2]["error"]["type"], "ValueError");
    let trace = rows[2]["error"]["traceback"].as_str().unwrap();
    assert!(trace.contains("in graded") && trace.ends_with("ValueError: no grade for crash\n"), "{trace}");
    assert!(!trace.contains("trainyard_bridge"), "frames of the bridge say nothing: {trace}");
    assert_eq!(rows[3], json!({"value": 1.5, "per_turn": [0.5, 1.0]}));
    assert!(rows[4]["error"]["message"].as_str().unwrap().contains("nan"));
    assert!(rows[5]["error"]["message"].as_str().unwrap().contains("not str"));
    assert_eq!(rows[6], json!({"value": null}));
}

#[test]
fn batch_reward_is_called_once() {
    let Some((_home, workers)) = start("reward", "ranked", Value::Null) else { return };
    let rows = call(&workers, "score", &[episode(json!("a"), true), episode(json!("b"), true)]).unwrap().value;
    assert_eq!(rows, json!([{"value": 2.0}, {"value": 1.0}]));
    let rows = call(&workers, "score", &[episode(json!("crash"), true), episode(json!("b"), true)]).unwrap().value;
    assert_eq!((&rows[0]["error"]["type"], &rows[1]["error"]["type"]), (&json!("KeyError"), &json!("KeyError")));
    let rows = call(&workers, "score", &[episode(json!("few"), true)]).unwrap().value;
    assert_eq!(rows[0]["error"]["message"], "1 items were given and 0 values came back");
}

#[test]
fn rule_and_verifier_functions_return_verdicts() {
    let Some((_home, workers)) = start("rule", "", Value::Null) else { return };
    let mut rude = episode(json!("4"), true);
    rude["messages"][0]["content"] = json!("2+2!");
    let rows = call(&workers, "judge", &[episode(json!("4"), true), rude]).unwrap().value;
    assert_eq!(rows, json!([{"keep": true}, {"keep": false, "reason": "not polite"}]));
    let Some((_home, workers)) = start("verifier", "", Value::Null) else { return };
    let item = |answer: &str| json!({"problem": {"id": "p", "answer": "Oslo"}, "answer": answer});
    let rows = call(&workers, "verify", &[item("OSLO"), item("Bergen"), item("?")]).unwrap().value;
    assert_eq!((&rows[0], &rows[1]), (&json!({"right": true}), &json!({"right": false})));
    assert_eq!(rows[2]["error"]["message"], "cannot judge");
    let unknown = call(&workers, "dance", &[]);
    assert!(
        matches!(&unknown, Err(ProgramFault::Exception(raised)) if raised.message == "no operation `dance`"),
        "{unknown:?}"
    );
}

#[test]
fn missing_function_is_reported() {
    let Some((_home, workers)) = start("reward", "beauty", Value::Null) else { return };
    let Err(ProgramFault::Outage(error)) = call(&workers, "score", &[]) else { panic!("it started") };
    assert!(error.message.contains("choose one by the option `name`: graded, ranked"), "{error}");
}
