//! Tests logs of Inspect by hand.

use super::*;
use crate::export::test_rows::rollout;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use trainyard_tables::{AnswerCheck, Message, StopReason, Trajectory};

fn exported(row: &Trajectory) -> (OrderedValue, Vec<(&'static str, u64)>) {
    let mut omissions = ExportOmissions::default();
    let sample = InspectExport.row(&ExportItem::Conversation(row), &mut omissions).unwrap();
    (sample, omissions.counts().collect())
}

fn value(sample: &OrderedValue) -> Value {
    serde_json::from_str(&sample.to_json().unwrap()).unwrap()
}

/// Writes a log of these rows, and returns its bytes and its files by name.
fn written(folder: &Path, rows: &[Trajectory]) -> (Vec<u8>, BTreeMap<String, Value>) {
    let file = folder.join("log.eval");
    let count = write_log(&file, |put| {
        rows.iter().try_for_each(|row| put(exported(row).0))?;
        Ok(rows.len() as u64)
    });
    assert_eq!(count.unwrap(), rows.len() as u64);
    let bytes = std::fs::read(&file).unwrap();
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(&bytes)).unwrap();
    let mut files = BTreeMap::new();
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i).unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(entry.name().unwrap().to_string(), serde_json::from_str(&text).unwrap());
    }
    (bytes, files)
}

#[test]
fn rollout_becomes_a_sample() {
    let (sample, omissions) = exported(&rollout());
    let model = "trainyard/0123456789ab";
    let messages = json!([
        {"id": "r1-1", "content": "Use tools.", "source": "input", "role": "system"},
        {"id": "r1-2", "content": "1+1?", "source": "input", "role": "user"},
        {
            "id": "r1-3",
            "content": [{"type": "reasoning", "reasoning": "A sum."}, {"type": "text", "text": "I add."}],
            "source": "generate", "metadata": {"weight": 0}, "role": "assistant",
            "tool_calls": [
                {"id": "call_1", "function": "add", "arguments": {"b": 1, "a": "x"}, "type": "function"},
            ],
            "model": model,
        },
        {
            "id": "r1-4", "content": "error: a is not a number", "role": "tool", "tool_call_id": "call_1",
            "function": "add",
        },
        {"id": "r1-5", "content": "3", "source": "generate", "role": "assistant", "model": model},
    ]);
    let usage = json!({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7});
    let found = value(&sample);
    let expected = json!({
        "id": "p/1", "epoch": 2, "uuid": found["uuid"], "input": [messages[0], messages[1]], "target": "2",
        "messages": messages,
        "output": {
            "model": model, "choices": [{"message": messages[4], "stop_reason": "stop"}], "completion": "3",
            "usage": usage,
        },
        "scores": {
            "correct": {
                "value": "I", "answer": "3", "explanation": "expected `2`, extracted `3`",
                "metadata": {"verifier": "number"},
            },
            "reward": {"value": -0.25}, "reward_correct": {"value": 0.0}, "length": {"value": -0.25},
        },
        "metadata": {
            "id": "r1", "problem_id": "p/1", "group": 4, "sample": 1, "environment": "word-problems", "level": 1,
            "stop_reason": "answer", "turns": 2, "tool_calls": 1, "tool_errors": 1, "answer": "3",
            "verdicts": [{"rule": "format", "keep": true, "reason": ""}],
            "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0}, "seed": 7, "update": 2,
            "model_digest": "0123456789abcdef",
        },
        "store": {}, "events": [], "model_usage": {model: usage}, "role_usage": {}, "attachments": {},
        "turn_count": 2,
    });
    assert_eq!(found, expected);
    assert_eq!(omissions, [("rows with values of tokens (`--as atif` has them)", 1)]);
    let uuid = found["uuid"].as_str().unwrap();
    assert!(uuid.len() == 22 && value(&exported(&rollout()).0)["uuid"] == uuid, "{uuid}");
    assert_ne!(value(&exported(&Trajectory { id: "r2".into(), ..rollout() }).0)["uuid"], uuid);
}

#[test]
fn log_has_samples_summaries_and_means() {
    let folder = tempfile::tempdir().unwrap();
    let right = Trajectory {
        id: "r2".into(),
        answer_check: Some(AnswerCheck::whole("2", "2", "number", true)),
        reward: 0.75,
        rewards: BTreeMap::from([("correct".into(), 1.0)]),
        stop_reason: StopReason::Turns,
        ..rollout()
    };
    let again = Trajectory { id: "r3".into(), sample: 2, ..rollout() };
    let rows = [rollout(), right, again];
    let (bytes, files) = written(folder.path(), &rows);
    // The second rollout with the number 2 gets the next free one, and then so does that with the number 3.
    let names = ["header.json", "samples/p/1_epoch_2.json", "samples/p/1_epoch_3.json", "samples/p/1_epoch_4.json"];
    assert_eq!(files.keys().collect::<Vec<_>>(), [&names[..], &["summaries.json"]].concat());
    let ids: Vec<&Value> = names[1..].iter().map(|name| &files[*name]["metadata"]["id"]).collect();
    assert_eq!(ids, ["r1", "r2", "r3"]);
    assert_eq!(files[names[2]]["limit"], json!({"type": "turn", "limit": 2.0}));
    assert_eq!(files[names[2]]["epoch"], 3);
    let header = &files["header.json"];
    let score = |name: &str, metric: &str, value: f64, scored: i64| {
        json!({
            "name": name, "scorer": name, "scored_samples": scored, "unscored_samples": 3 - scored, "params": {},
            "metrics": {metric: {"name": metric, "value": value}},
        })
    };
    let scores = json!([
        score("correct", "accuracy", 1.0 / 3.0, 3),
        score("reward", "mean", 0.25 / 3.0, 3),
        score("reward_correct", "mean", 1.0 / 3.0, 3),
        score("length", "mean", -0.25, 2),
    ]);
    assert_eq!(header["results"], json!({"total_samples": 3, "completed_samples": 3, "scores": scores}));
    let eval = &header["eval"];
    assert_eq!((&eval["task"], &eval["model"]), (&json!("word-problems"), &json!("trainyard/0123456789ab")));
    assert_eq!((&eval["config"], &header["status"]), (&json!({"epochs": 4}), &json!("success")));
    assert_eq!(eval["dataset"]["sample_ids"], json!(["p/1"]));
    assert_eq!(header["stats"]["model_usage"]["trainyard/0123456789ab"]["total_tokens"], 21);
    let summary = &files["summaries.json"][0];
    assert_eq!((&summary["input"], &summary["message_count"]), (&json!("1+1?"), &json!(5)));
    assert_eq!(summary["scores"]["correct"]["value"], "I");
    assert_eq!(files["summaries.json"][1]["limit"], "turn");
    assert_eq!(written(folder.path(), &rows).0, bytes);
}

#[test]
fn demonstrations_have_no_model_and_no_score() {
    let messages = vec![Message::new("user", "q"), Message::new("assistant", "é".repeat(500))];
    let row = Trajectory { id: "d".into(), messages, ..Trajectory::default() };
    let (sample, omissions) = exported(&row);
    assert_eq!(omissions, []);
    let sample = value(&sample);
    assert_eq!((&sample["id"], &sample["epoch"], &sample["target"]), (&json!("d"), &json!(1), &json!("")));
    assert_eq!((&sample["scores"], &sample["model_usage"]), (&json!({}), &json!({})));
    let unreadable =
        AnswerCheck { expected: "7".into(), unreadable: Some("no number".into()), ..AnswerCheck::default() };
    let rewards = BTreeMap::from([("bad".to_string(), f64::NAN)]);
    let (sample, omissions) = exported(&Trajectory { answer_check: Some(unreadable), rewards, ..row.clone() });
    let scores = &value(&sample)["scores"];
    assert_eq!(scores["correct"]["explanation"], "expected `7`, no readable answer: no number");
    assert_eq!((scores.get("bad"), &scores["reward"]["value"]), (None, &json!(0.0)));
    assert_eq!(omissions, [("rewards that are not finite", 1)]);
    let asked = Trajectory { messages: vec![row.messages[1].clone()], ..row };
    let folder = tempfile::tempdir().unwrap();
    let (_, files) = written(folder.path(), &[Trajectory { environment: "a".into(), ..asked.clone() }, asked]);
    assert_eq!(files["header.json"]["eval"]["task"], "trajectories", "two environments");
    let none = write_log(&folder.path().join("none.eval"), |_| Ok(0)).unwrap_err();
    assert!(none.message.contains("no sample"), "{none}");
}

proptest! {
    #[test]
    fn every_sample_has_its_own_file(numbers in proptest::collection::vec((0u32..3, 0u32..3), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        let row = |(i, (problem, sample)): (usize, &(u32, u32))| Trajectory {
            id: format!("r{i}"), problem_id: format!("p{problem}"), sample: *sample, ..rollout()
        };
        let rows: Vec<Trajectory> = numbers.iter().enumerate().map(row).collect();
        let (_, files) = written(folder.path(), &rows);
        prop_assert_eq!(files.len(), rows.len() + 2);
        for (name, sample) in files.iter().filter(|(name, _)| name.starts_with("samples/")) {
            let (id, epoch) = (sample["id"].as_str().unwrap(), sample["epoch"].as_i64().unwrap());
            prop_assert_eq!(name, &format!("samples/{id}_epoch_{epoch}.json"));
            prop_assert!(epoch > sample["metadata"]["sample"].as_i64().unwrap());
        }
    }
}
