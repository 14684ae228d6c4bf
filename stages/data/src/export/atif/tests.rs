//! Tests documents of ATIF by hand.

use super::*;
use crate::export::test_rows::rollout;
use crate::tool_text::{RawToolCall, assistant};
use serde_json::{Value, json};
use trainyard_tables::Message;

fn exported(row: &Trajectory) -> (Value, Vec<(&'static str, u64)>) {
    let mut omissions = ExportOmissions::default();
    let document = AtifExport.row(&ExportItem::Conversation(row), &mut omissions).unwrap();
    (serde_json::from_str(&document.to_json().unwrap()).unwrap(), omissions.counts().collect())
}

#[test]
fn rollout_becomes_a_document() {
    let (document, omissions) = exported(&rollout());
    let expected = json!({
        "schema_version": "ATIF-v1.8",
        "trajectory_id": "r1",
        "agent": {"name": "trainyard", "version": env!("CARGO_PKG_VERSION"), "model_name": "0123456789abcdef"},
        "steps": [
            {"step_id": 1, "source": "system", "message": "Use tools."},
            {"step_id": 2, "source": "user", "message": "1+1?"},
            {
                "step_id": 3, "source": "agent", "message": "I add.", "reasoning_content": "A sum.",
                "tool_calls": [
                    {"tool_call_id": "call_1", "function_name": "add", "arguments": {"b": 1, "a": "x"}},
                ],
                "observation": {"results": [
                    {"source_call_id": "call_1", "content": "error: a is not a number", "extra": {"name": "add"}},
                ]},
                "metrics": {
                    "prompt_tokens": 2, "completion_tokens": 2, "prompt_token_ids": [1, 2],
                    "completion_token_ids": [3, 4], "logprobs": [-0.1, -0.5], "extra": {"weights_version": [2, 2]},
                },
                "llm_call_count": 1, "extra": {"weight": 0},
            },
            {
                "step_id": 4, "source": "agent", "message": "3",
                "metrics": {
                    "prompt_tokens": 5, "completion_tokens": 2, "prompt_token_ids": [1, 2, 3, 4, 5],
                    "completion_token_ids": [6, 7], "logprobs": [-2.0, 0.0], "extra": {"weights_version": [3, 3]},
                },
                "llm_call_count": 1,
            },
        ],
        "final_metrics": {
            "total_prompt_tokens": 7, "total_completion_tokens": 4, "total_steps": 4,
            "extra": {"reward": -0.25, "rewards": {"correct": 0.0, "length": -0.25}},
        },
        "extra": {
            "id": "r1", "problem_id": "p/1", "group": 4, "sample": 1, "environment": "word-problems", "level": 1,
            "stop_reason": "answer", "turns": 2, "tool_calls": 1, "tool_errors": 1, "answer": "3",
            "verdicts": [{"rule": "format", "keep": true, "reason": ""}],
            "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": 0}, "seed": 7, "update": 2,
            "model_digest": "0123456789abcdef",
            "answer_check": {
                "expected": "2", "extracted": "3", "verifier": "number", "correct": false, "unreadable": null,
            },
        },
    });
    assert_eq!(document, expected);
    assert_eq!(omissions, []);
}

#[test]
fn contexts_that_the_template_rewrote_are_prompts_of_their_own() {
    let (document, _) = exported(&Trajectory { restarts: vec![4], ..rollout() });
    assert_eq!(document["steps"][3]["metrics"]["prompt_token_ids"], json!([5]));
    assert_eq!(document["final_metrics"]["total_prompt_tokens"], json!(3));
}

#[test]
fn answers_of_the_prompt_are_copied_context_without_metrics() {
    let messages = [("user", "q"), ("assistant", "given"), ("user", "r"), ("assistant", "7")];
    let messages = messages.map(|(role, content)| Message::new(role, content)).to_vec();
    let row = Trajectory {
        messages,
        turns: 1,
        token_ids: vec![1, 2],
        loss_mask: vec![false, true],
        turn: vec![0, 0],
        logprobs: Some(vec![0.0, f32::NEG_INFINITY]),
        turn_rewards: vec![0.5],
        ..Trajectory::default()
    };
    let (document, omissions) = exported(&row);
    let given = &document["steps"][1];
    assert_eq!((&given["is_copied_context"], given.get("metrics")), (&json!(true), None));
    assert_eq!(given["extra"], json!({"weight": 0}));
    let answer = &document["steps"][3];
    assert_eq!((&answer["extra"], answer["metrics"].get("logprobs")), (&json!({"reward": 0.5}), None));
    assert_eq!(answer.get("llm_call_count"), None, "a demonstration has no model");
    assert_eq!(omissions, [("turns whose log-probabilities are not finite (those)", 1)]);
    let uneven = Trajectory { turn: vec![], ..row };
    let error = AtifExport.row(&ExportItem::Conversation(&uneven), &mut ExportOmissions::default()).unwrap_err();
    assert!(error.message.contains("per-token columns"), "{error}");
}

#[test]
fn results_without_a_call_keep_their_text() {
    let call = RawToolCall { id: Some("c".into()), name: "f".into(), arguments: "[1]".into() };
    let messages = vec![
        Message::new("user", "q"),
        Message::new("tool", "early"),
        assistant("", &[call]),
        Message { tool_call_id: Some("other".into()), ..Message::new("tool", "1") },
        Message { name: Some("Ann".into()), ..Message::new("user", "r") },
        Message::new("developer", "d"),
    ];
    let (document, omissions) =
        exported(&Trajectory { messages, tools: Some(r#"{"f": 1}"#.into()), ..Trajectory::default() });
    let steps = [
        json!({"step_id": 1, "source": "user", "message": "q"}),
        json!({"step_id": 2, "source": "system", "message": "", "observation": {"results": [{"content": "early"}]}}),
        json!({
            "step_id": 3, "source": "agent", "message": "",
            "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {"value": [1]}}],
            "observation": {"results": [{"content": "1"}]},
        }),
        json!({"step_id": 4, "source": "user", "message": "r", "extra": {"name": "Ann"}}),
        json!({"step_id": 5, "source": "system", "message": "d", "extra": {"role": "developer"}}),
    ];
    assert_eq!(document["steps"], json!(steps));
    assert_eq!(document["final_metrics"], json!({"total_steps": 5}));
    let omitted: Vec<&str> = omissions.iter().map(|(what, _)| *what).collect();
    assert_eq!(
        omitted,
        [
            "ids of results without their call",
            "the type of arguments that are no object (they are its key `value`)",
            "tools that are no list of objects",
        ]
    );
}
