use super::*;
use crate::step_labels::StepLabelsStage;
use crate::step_scorers::registry::family;
use crate::testing::{parts, skipped};
use serde_json::{Value, json};
use tempfile::TempDir;
use trainyard_api::{PreparedOptions as _, Stage as _};
use trainyard_core::{Secrets, WiredInputs};
use trainyard_process::null_log;
use trainyard_tables::Message;

const SCORERS: &str = r#"
import trainyard_bridge as ty

@ty.step_scorer
def short(episode):
    texts = [message.content for message in episode.messages if message.role == "assistant"]
    if "crash" in texts:
        raise ValueError("cannot score")
    if "few" in texts:
        return [1]
    return [None if text == "?" else len(text) <= ty.options() for text in texts]

ty.run()
"#;

/// Returns the labels of a program for rows of these turns. Without Python, prints that the test is skipped and returns
/// `None`.
fn labels(turns: &[&[&str]], more: Value) -> Option<Result<Vec<Vec<Option<f32>>>>> {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        skipped("there is no python3");
        return None;
    }
    let folder: TempDir = tempfile::tempdir().unwrap();
    let path = folder.path().join("scorers.py");
    std::fs::write(&path, SCORERS).unwrap();
    let mut options = json!({"kind": "process", "command": ["python3", path], "options": 3, "batch": 2});
    options.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let row = |texts: &&[&str]| {
        let messages = texts.iter().flat_map(|text| [Message::new("user", "go"), Message::new("assistant", *text)]);
        Trajectory { id: texts.concat(), messages: messages.collect(), ..Trajectory::default() }
    };
    let rows: Vec<Trajectory> = turns.iter().map(row).collect();
    let rows: Vec<&Trajectory> = rows.iter().collect();
    let (problems, log, secrets) = (BTreeMap::new(), null_log(), Secrets::default());
    let context = ScoringContext { problems: &problems, log: &log, secrets: &secrets };
    Some(family().build(&options, &()).unwrap().label(&rows, &context))
}

#[test]
fn every_turn_is_labeled_by_the_program() {
    let Some(found) = labels(&[&["yes", "maybe"], &["?"], &["no", "?", "never"]], json!({})) else { return };
    let expected = vec![vec![Some(1.0), Some(0.0)], vec![None], vec![Some(1.0), None, Some(0.0)]];
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn exceptions_and_wrong_numbers_of_labels_end_the_stage_unless_they_are_skipped() {
    let Some(raised) = labels(&[&["crash", "no"]], json!({})) else { return };
    let raised = raised.unwrap_err();
    assert!(raised.message.contains("row `crashno`: ValueError: cannot score"), "{raised}");
    let skipped = labels(&[&["crash", "no"], &["no"]], json!({"on_error": "skip"})).unwrap().unwrap();
    assert_eq!(skipped, [vec![None, None], vec![Some(1.0)]]);
    let few = labels(&[&["few", "no"]], json!({"on_error": "skip"})).unwrap().unwrap_err();
    assert!(few.message.contains("1 labels to 2 turns"), "{few}");
}

#[test]
fn scorer_determines_the_required_inputs() {
    let parts = parts();
    let stage = StepLabelsStage { scorers: parts.step_scorers.clone(), envs: parts.envs.clone() };
    let wrong = |options: Value, ports: &[&str]| -> Vec<String> {
        let prepared = stage.prepare(options).unwrap();
        let mut wired = WiredInputs::default();
        ports.iter().for_each(|port| wired.wire(*port, vec![Default::default()]));
        prepared.problems().into_iter().chain(prepared.problems_with(&wired)).map(|problem| problem.pointer).collect()
    };
    let scorer = json!({"kind": "http", "url": "http://h:1/"});
    assert!(wrong(json!({}), &["solutions"]).is_empty());
    assert!(wrong(json!({"scorer": scorer}), &["trajectories", "problems"]).is_empty());
    assert_eq!(wrong(json!({}), &["trajectories"]), ["/solutions", "/trajectories"]);
    assert_eq!(wrong(json!({"scorer": scorer}), &["solutions"]), ["/trajectories", "/solutions"]);
    assert_eq!(wrong(json!({"scorer": scorer, "limit": 3}), &["trajectories"]), ["/limit"]);
    assert_eq!(wrong(json!({"scorer": {"kind": "process"}}), &["trajectories"]), ["/scorer/command"]);
    let plain = stage.prepare(json!({})).unwrap();
    assert!(serde_json::to_value(plain.config()).unwrap().get("scorer").is_none(), "digests stay");
}
